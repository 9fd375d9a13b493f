"""What rows have: `columns`, or `includeHeaders` and `includeCluster` beside those of Spark's own source; times."""

from __future__ import annotations

from evensplit.kafka.fetch.columns import COLUMNS, KAFKA_COLUMNS
from evensplit.spark.options.values import RawOptions, shown

ON_OVERFLOW = "onTimestampOverflow"
COLUMN_OPTIONS = ("columns", "includeHeaders", "includeCluster", ON_OVERFLOW)

_EXTRA = (("includeHeaders", "headers"), ("includeCluster", "cluster"))


def parse_columns(given: RawOptions, *, several: bool) -> tuple[str, ...]:
    """The columns, in the order of Spark's schema, however they were written.

    `several`: there can be several clusters, so that rows say which one they are from unless it is said otherwise.
    """
    flags = {name: given.flag(option) for option, name in _EXTRA}
    if "columns" not in given:
        wanted = {*KAFKA_COLUMNS}
        wanted |= {"headers"} if flags["headers"] else set()
        wanted |= {"cluster"} if (several if flags["cluster"] is None else flags["cluster"]) else set()
        return _in_order(wanted)
    named = _named(given)
    for option, name in _EXTRA:
        if named and flags[name] is not None and flags[name] != (name in named):
            flag, joint = ("true", "without") if flags[name] else ("false", "with")
            given.problems.append(
                f"{option} is {flag} and columns is {shown(given.value('columns'))}, {joint} {name}; expected columns "
                "alone, which says it all"
            )
    return _in_order(named) or KAFKA_COLUMNS


def parse_overflow(given: RawOptions, columns: tuple[str, ...]) -> tuple[bool, tuple[str, ...]]:
    """Whether timestamps that Spark cannot hold are null; and the option, if there are no timestamps in `columns`."""
    null = given.choice(ON_OVERFLOW, ("fail", "null"), "fail") == "null"
    return null, (ON_OVERFLOW,) if ON_OVERFLOW in given and "timestamp" not in columns else ()


def _named(given: RawOptions) -> set[str]:
    """What `columns` names; nothing, and one sentence about all that is wrong, where it is not what it should be."""
    known = {name.lower(): name for name in COLUMNS}
    written = [part.strip() for part in str(given.value("columns")).split(",")]
    found = [known.get(name.lower(), name) for name in written]
    reasons: list[str] = []
    if unknown := [name for name in found if name not in COLUMNS]:
        reasons.append(f"there is no {' and no '.join(map(shown, dict.fromkeys(unknown)))}")
    if repeated := [name for name in COLUMNS if found.count(name) > 1]:
        reasons.append(f"{' and '.join(repeated)} {'are' if len(repeated) > 1 else 'is'} there more than once")
    if reasons:
        given.wrong("columns", f"one or more of {', '.join(COLUMNS)}, separated by commas", "; ".join(reasons))
        return set()
    return set(found)


def _in_order(names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS if name in names)
