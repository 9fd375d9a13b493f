"""Spark's own filters of a batch query, taken for the option `where`."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource

from evensplit.spark.batch_reader import EvenSplitReader

if TYPE_CHECKING:
    from evensplit.spark.options.parse import SourceOptions
    from evensplit.spark.task.telling import Destination

_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"

_COMPARISONS: Mapping[type[datasource.Filter], str] = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "<=>",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
}
_FUNCTIONS: Mapping[type[datasource.Filter], str] = {
    datasource.StringStartsWith: "startswith",
    datasource.StringEndsWith: "endswith",
    datasource.StringContains: "contains",
}


def asked() -> bool:
    """Whether this process is the one that asks a reader which filters it takes.

    Where `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader that could take some, so only in that
    process may there be one.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or getattr(main, "name", None) == _WORKER


class FilteringReader(EvenSplitReader):
    """Reads a batch without the rows that Spark's filters leave out."""

    def __init__(
        self,
        options: SourceOptions,
        readers_default: int,
        given: Mapping[str, str],
        parse: Callable[[Mapping[str, str]], SourceOptions],
        ask: Destination | None = None,
    ) -> None:
        """`given`: the options as they were written, of which `parse` makes `options`. `ask`: as in EvenSplitReader."""
        super().__init__(options, readers_default, ask)
        self._given = dict(given)
        self._parse = parse

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        """The filters that Spark still has to evaluate; the others hold for all rows from now on."""
        taken = [(one, text) for one in filters if (text := self._condition(one)) is not None]
        written = next((name for name in self._given if name.lower() == "where"), "where")
        parts = [*([self._given[written]] if written in self._given else []), *(text for _, text in taken)]
        options = self._parsed({**self._given, written: " AND ".join(f"({part})" for part in parts)}) if taken else None
        if options is None:
            return filters
        self._options = options
        return [one for one in filters if all(one is not other for other, _ in taken)]

    def _condition(self, of: datasource.Filter) -> str | None:
        """A filter as SQL, if it is one that can be evaluated for the rows of this reader."""
        from evensplit.kafka.columns import COLUMNS, types_of
        from evensplit.typed.where.compiler import compile_condition
        from evensplit.typed.where.node import ConditionRefused

        text, reading = sql(of), self._options.reading
        if text is None:
            return None
        try:
            compile_condition(text, types_of(COLUMNS, reading.key, reading.value))
        except (ConditionRefused, ModuleNotFoundError):
            return None
        return text

    def _parsed(self, given: Mapping[str, str]) -> SourceOptions | None:
        from evensplit.errors import OptionError

        try:
            return self._parse(given)
        except OptionError:
            return None


def sql(of: datasource.Filter) -> str | None:
    """A filter in Spark's SQL; None: it has a value of a kind that is not written."""
    if isinstance(of, datasource.Not):
        inner = sql(of.child)
        return None if inner is None else f"NOT ({inner})"
    if isinstance(of, datasource.IsNull | datasource.IsNotNull):
        return f"{_name(of.attribute)} IS {'NOT ' if isinstance(of, datasource.IsNotNull) else ''}NULL"
    if isinstance(of, datasource.In):
        values = [_literal(value) for value in of.value]
        return None if None in values else f"{_name(of.attribute)} IN ({', '.join(map(str, values))})"
    kind = type(of)
    attribute: Sequence[str] = getattr(of, "attribute", ())
    value = _literal(getattr(of, "value", None))
    if value is None:
        return None
    if kind in _COMPARISONS:
        return f"{_name(attribute)} {_COMPARISONS[kind]} {value}"
    return f"{_FUNCTIONS[kind]}({_name(attribute)}, {value})" if kind in _FUNCTIONS else None


def _name(path: Sequence[str]) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in path)


def _literal(value: Any) -> str | None:
    """A value in SQL; None for kinds that filters on these columns do not have."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if value - value == 0 else f"double('{value!r}')"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}BD"
    if isinstance(value, str):
        return "".join(_quoted(value))
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return f"{kind} '{utc.isoformat(sep=' ', timespec='microseconds')}'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, dt.date) else None


def _quoted(text: str) -> Iterator[str]:
    """A text in quotes."""
    yield "'"
    for char in text:
        yield f"\\{char}" if char in "'\\" else char
    yield "'"
