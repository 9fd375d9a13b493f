"""Which columns of a DataFrame are written, and as what: as in Spark's own Kafka sink, and `cluster` beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

_HEADERS = "array<struct<key:string,value:binary>>"

TYPES: Mapping[str, tuple[str, ...]] = {
    "cluster": ("string",),
    "topic": ("string",),
    "partition": ("int",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}
"""Column -> the types that it may have, as Spark writes them. Other columns are ignored."""


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """Where the columns are in a row: their numbers, None for one that is not written."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    cluster: int | None = None
    timestamp: int | None = None
    names: tuple[str, ...] = field(default=())
    """The names of all columns of the rows, in their order, for messages."""


def check_columns(
    schema: StructType, *, topic: bool, cluster: bool, several: bool, headers: bool, timestamp: bool
) -> tuple[WriteColumns | None, list[str]]:
    """Where the columns are, and one sentence for each that is missing or has a wrong type; None if there are some.

    `topic`, `cluster`: an option says it, so that no column has to. `several`: there are several clusters.
    `headers`, `timestamp`: whether these columns are wanted. Names of columns are case-sensitive, as in Spark's sink.
    """
    wanted = {
        "value": True,
        "key": True,
        "topic": not topic,
        "partition": True,
        "headers": headers,
        "cluster": several and not cluster,
        "timestamp": timestamp,
    }
    names = schema.fieldNames()
    found: dict[str, int] = {}
    problems: list[str] = []
    for name, is_wanted in wanted.items():
        if not is_wanted:
            continue
        if names.count(name) > 1:
            problems.append(f"column {name} is there {names.count(name)} times; expected it once")
        elif name in names:
            found[name] = names.index(name)
            problems.extend(_wrong_type(name, schema[name].dataType.simpleString()))
        elif name in _MISSING:
            problems.append(_MISSING[name])
    return (None if problems else WriteColumns(**found, names=tuple(names))), problems


_MISSING: Mapping[str, str] = {
    "value": "column value is missing (required attribute 'value' not found); expected a string or binary column value",
    "topic": "column topic is missing, and so is the option topic (topic option required when no 'topic' attribute is "
    "present); expected one of them",
    "cluster": "column cluster is missing, and clusters has several; expected a string column cluster with ids of "
    "clusters, or the option cluster",
    "timestamp": "column timestamp is missing, and includeTimestamp is true; expected a timestamp column timestamp, or "
    "leave includeTimestamp out",
}


def _wrong_type(name: str, found: str) -> list[str]:
    expected = TYPES[name]
    if found in expected:
        return []
    return [
        f"column {name} is {found}, an unsupported type; expected {' or '.join(expected)} ({name} must be a(n) "
        f"{' or '.join(expected)})"
    ]
