"""The option that says which rows are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evensplit.kafka.columns import COLUMNS, FAULT_COLUMNS, types_of
from evensplit.spark.options.sides import Side
from evensplit.spark.options.spec.formats import WHERE
from evensplit.spark.options.values import RawOptions
from evensplit.typed.decoding import RowFilter


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
        given.problems.extend(f"{WHERE.name}: {problem}" for problem in (*refused.problems, *_not_decoded(text, sides)))
    return None


def _not_decoded(text: str, sides: Mapping[str, Side]) -> Iterator[str]:
    """Why fields that a condition seems to name are not there."""
    for name, side in sides.items():
        for path, reason in ({} if side.fields is None else side.fields.refused).items():
            if path and path[-1].lower() in text.lower():
                yield f"{name}.{reason}"
