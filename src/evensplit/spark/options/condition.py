"""The option that says which rows are wanted."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.kafka.columns import COLUMNS, FAULT_COLUMNS, types_of
from evensplit.spark.options.spec.formats import WHERE
from evensplit.spark.options.values import RawOptions
from evensplit.typed.decoding import Decoding, RowFilter


def row_condition(given: RawOptions, sides: Mapping[str, Decoding | None]) -> RowFilter | None:
    """Which rows are wanted; None: all, or the option is wrong.

    `sides`: how keys and values are decoded, with all their fields.
    """
    if WHERE.name not in given:
        return None
    from evensplit.typed.where.compiler import compile_condition
    from evensplit.typed.where.node import ConditionRefused

    text = given.value(WHERE.name)
    if not isinstance(text, str):
        given.wrong(WHERE)
        return None
    try:
        condition = compile_condition(text, types_of(COLUMNS, sides["key"], sides["value"]), FAULT_COLUMNS)
        return RowFilter.of(condition, sides["key"], sides["value"])
    except ModuleNotFoundError as error:
        given.problems.append(f"{WHERE.name} needs {error.name}; run pip install 'evensplit[typed]'")
    except ConditionRefused as refused:
        given.problems.extend(f"{WHERE.name}: {problem}" for problem in refused.problems)
    return None
