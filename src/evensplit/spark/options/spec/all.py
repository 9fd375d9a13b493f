"""Every option of `format("evensplit")`, by heading and by name.

The declarations are in `spec.clusters`, `spec.limits`, `spec.query`, `spec.formats`, `spec.registry` and, for Kafka's
client, `evensplit.kafka.options.client_options`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evensplit.kafka.options.client_options import CLIENT_OPTIONS, PREFIX
from evensplit.kafka.options.option import CLUSTER, Option
from evensplit.spark.options.spec.clusters import STARTS_AND_ENDS, WHAT_TO_READ
from evensplit.spark.options.spec.formats import FORMAT_OPTIONS
from evensplit.spark.options.spec.limits import LIMITS
from evensplit.spark.options.spec.query import CHANGES, IGNORED, POLL_TIMEOUT, READERS_AND_TASKS, ROWS
from evensplit.spark.options.spec.registry import REGISTRY_OPTIONS

_ELSEWHERE = (*WHAT_TO_READ, *ROWS)

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "What to read": WHAT_TO_READ,
    "Where it starts and ends": STARTS_AND_ENDS,
    "How far a batch goes": LIMITS,
    "Which reader reads what": READERS_AND_TASKS,
    "When clusters and topics change": CHANGES,
    "Columns and records": ROWS,
    "Formats of keys and values": FORMAT_OPTIONS,
    "Schema registry": REGISTRY_OPTIONS,
    "The client of Kafka": (*(one for one in CLIENT_OPTIONS if one not in _ELSEWHERE), POLL_TIMEOUT),
    "Understood and ignored": IGNORED,
}
"""Heading -> the options under it."""

DECLARED: tuple[Option, ...] = tuple(one for options in OPTIONS.values() for one in options)

BY_NAME: Mapping[str, Option] = {one.name.lower(): one for one in DECLARED}
"""The same by their names in lower case."""

_OURS = tuple(one for one in DECLARED if not one.name.startswith(PREFIX) and not one.name.endswith("<name>"))
CLUSTER_OPTIONS = tuple(one.name for one in _OURS if CLUSTER in one.places)
SOURCE_OPTIONS = tuple(one.name for one in _OURS if CLUSTER not in one.places)
"""The names of options that a cluster may have, and of those that hold for all clusters; without `kafka.*`."""

IGNORED_NAMES: Mapping[str, str] = {one.name: one.ignored for one in DECLARED if one.ignored}
"""Option that is understood and ignored -> which one does what it was given for."""

KEPT: Mapping[str, Option] = {
    one.field.removeprefix("settings."): one for one in DECLARED if one.field.startswith("settings.")
}
"""Attribute of the `Settings` that a checkpoint keeps -> the option that sets it."""

ALIASES: Mapping[str, str] = {alias: one.name for one in DECLARED for alias in one.aliases.split()}
"""Name of an option elsewhere -> its name here."""


def notes(option: Option, among: Iterable[Option] = DECLARED) -> list[str]:
    """Sentences about `option`, one of `among`, beside its meaning, in Markdown: where it is an error or ignored."""
    found: list[str] = []
    if option.only:
        query = "streaming" if option.only == "stream" else "batch"
        elsewhere = "an error in others" if option.refused_elsewhere else "ignored in others"
        found.append(f"Only in {query} queries; {elsewhere}.")
    if option.needs:
        found.append(f"Only with `{option.needs}`.")
    if option.useless_without:
        found.append(f"Without `{option.useless_without}` it is ignored.")
    excluded = (*option.excludes, *(other.name for other in among if option.name in other.excludes))
    if excluded:
        *most, last = (f"`{name}`" for name in excluded)
        found.append(f"Not together with {' or '.join(filter(None, (', '.join(most), last)))}.")
    if option.ignored:
        found.append(f"Ignored here: {option.ignored}.")
    return found
