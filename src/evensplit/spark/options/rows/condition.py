"""The option that says which rows are wanted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from evensplit.kafka.columns import COLUMNS, FAULT_COLUMNS, types_of
from evensplit.spark.options.rows.sides import Side
from evensplit.spark.options.spec.formats import WHERE
from evensplit.spark.options.values import RawOptions
from evensplit.typed.decoding import RowFilter

_REASONS_MAX = 5
"""Of so many fields it is said why nothing is decoded to them."""


def row_condition(given: RawOptions, sides: Mapping[str, Side]) -> RowFilter | None:
    """Which rows are wanted; None: all, or the option is wrong.

    `sides`: keys and values. It may name all of their fields that can be decoded.
    """
    if WHERE.name not in given:
        return None
    from evensplit.typed.where.compiler import compile_condition
    from evensplit.typed.where.node import ConditionRefused

    text = given.value(WHERE.name)
    if not isinstance(text, str):
        given.wrong(WHERE)
        return None
    key, value = sides["key"].decoding, sides["value"].decoding
    try:
        condition = compile_condition(text, types_of(COLUMNS, key, value), FAULT_COLUMNS)
        return RowFilter.of(condition, key, value)
    except ModuleNotFoundError as error:
        given.problems.append(f"{WHERE.name} needs {error.name}; run pip install 'evensplit[typed]'")
    except ConditionRefused as refused:
        reasons = islice(_not_decoded(text, sides), _REASONS_MAX)
        given.problems.extend(f"{WHERE.name}: {problem}" for problem in (*refused.problems, *reasons))
    return None


def _not_decoded(text: str, sides: Mapping[str, Side]) -> Iterator[str]:
    """Why fields that a condition seems to name are not there."""
    names = {word.lower() for word in re.findall(r"\w+|`[^`]+`", text)}
    for name, side in sides.items():
        for path, reason in ({} if side.fields is None else side.fields.refused).items():
            if path and {path[-1].lower(), f"`{path[-1].lower()}`"} & names:
                yield f"{name}.{reason}"
