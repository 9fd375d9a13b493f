"""Options of a command for one source of a query, `SOURCE=VALUE`, or for all of them, `VALUE`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from evensplit.checkpoint.stands import Stand
from evensplit.cli.live.known_logs import ask_same
from evensplit.cli.live.log_ends import LogPosition, connected, settings_of
from evensplit.cli.usage import another_form
from evensplit.core.import_spark_offsets import Positions
from evensplit.core.text import some
from evensplit.errors import ClusterError
from evensplit.spark.options.per_cluster import KAFKA

LOGIN = ("sasl.", "ssl.key")
"""Prefixes of Kafka settings that are a login. A login is for one cluster."""

_OWN = re.compile(r"(\w+)=(.*)", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"(?:(\w+):)?([\w.]+)=(.*)", re.ASCII | re.DOTALL)


_SERVERS = click.option(
    "--bootstrap-servers",
    "servers",
    multiple=True,
    metavar="[SOURCE=]HOST:PORT,...",
    help="Ask the cluster there for the ends of the logs; for one source of the query, or for all.",
)
_SETTINGS = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="[SOURCE:]NAME=VALUE",
    help="A Kafka setting for the connection, e.g. kafka.security.protocol=SSL. Repeatable. Secrets: ${env:NAME}.",
)
asked_cluster = click.option(
    "--cluster", metavar="ID", help="Ask only this cluster, for example because each has its own login."
)
"""`--cluster ID`, the only cluster to ask."""


def reaching(command: Any) -> Any:
    """Add `--bootstrap-servers` and `--option`: how to connect to the brokers."""
    return _SERVERS(_SETTINGS(command))


def said_of(values: Sequence[str], sources: Iterable[str], name: str) -> Mapping[str, str]:
    """Source -> its value. Raises click.UsageError for a source that is not one of `sources`."""
    known = list(sources)
    found: dict[str, str] = {}
    own: dict[str, str] = {}
    for value in values:
        match = _OWN.fullmatch(value)
        if match is None:
            found.update(dict.fromkeys(known, value))
        else:
            check_source(match[1], known, name)
            own[match[1]] = match[2]
    return {**found, **own}


def check_source(source: str, known: Sequence[str], name: str) -> None:
    """Raise click.UsageError unless `source` is one of `known`."""
    if source not in known:
        raise click.UsageError(f"{name} names source {source!r}; expected one of {', '.join(known)}")


def kafka_options(values: Sequence[str], sources: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Source -> its Kafka settings, names without `kafka.`. Raises click.UsageError for another form."""
    known = list(sources)
    found: dict[str, dict[str, str]] = {source: {} for source in known}
    for value in values:
        match = _OPTION.fullmatch(value)
        if match is None:
            raise click.UsageError(another_form(value, "kafka.security.protocol=SSL"))
        if match[1]:
            check_source(match[1], known, "--option")
        for source in [match[1]] if match[1] else known:
            found[source][match[2].lower().removeprefix(KAFKA)] = match[3]
    return found


def check_asked(
    options: Sequence[str], servers: Sequence[str], *, lag: bool | None, cluster: str | None = None
) -> None:
    """Raise click.UsageError for connection settings without `--lag` or `--bootstrap-servers`.

    `lag`: whether `--lag` is given; None if the command has no such option. `cluster`: the value of `--cluster`.
    """
    said = [*(["--option"] if options else []), *(["--cluster"] if cluster is not None else [])]
    if said and not servers and not lag:
        expected = "--bootstrap-servers" if lag is None else "--lag or --bootstrap-servers"
        are = "is" if len(said) == 1 else "are"
        raise click.UsageError(f"{' and '.join(said)} {are} given, but no cluster is asked; expected {expected} too")


def of_cluster(stands: Sequence[Stand], cluster: str | None) -> list[Stand]:
    """Those of `cluster`, all if it is None. Raises click.UsageError for an unknown cluster."""
    found = [one for one in stands if cluster in (None, one.cluster)]
    if stands and not found:
        known = ", ".join(sorted({one.cluster for one in stands}))
        raise click.UsageError(f"--cluster names cluster {cluster!r}; expected one of {known}")
    return found


def check_whose(
    wanted: Sequence[Stand], places: Mapping[str, str], settings: Mapping[str, Mapping[str, str]], name: str
) -> None:
    """Raise click.UsageError if the same servers, or login, were used for several clusters of one source.

    `name`: the option that names one of them.
    """
    for source in dict.fromkeys(stand.source for stand in wanted):
        clusters = [stand.cluster for stand in wanted if stand.source == source]
        said = [] if source not in places else ["--bootstrap-servers"]
        said.extend(f"--option kafka.{name}" for name in settings.get(source, ()) if name.startswith(LOGIN))
        if len(clusters) > 1 and said:
            raise click.UsageError(
                f"source {source} reads {len(clusters)} clusters: {', '.join(clusters)}; {' and '.join(said)} can be "
                f"for one only: add {name} with its id"
            )


def servers_of(stand: Stand, said: str | None) -> str:
    """`said`, or the servers in the checkpoint. Raises click.UsageError if it has none."""
    return servers_known(stand.cluster, stand.bootstrap_servers, said)


def servers_known(cluster: str, known: Sequence[str], said: str | None) -> str:
    """`said`, or those of `cluster` that are `known`. Raises click.UsageError if none are."""
    servers = said or ",".join(known)
    if not servers:
        raise click.UsageError(
            f"the checkpoint does not say where cluster {cluster} is; expected --bootstrap-servers too"
        )
    return servers


def logs_of(
    stand: Stand,
    servers: str,
    options: Mapping[str, str],
    notes: list[str],
    *,
    positions: Positions | None = None,
) -> list[LogPosition] | None:
    """The positions of `stand` beside their logs; None, and a note, if its cluster does not answer there."""
    wanted = stand.next if positions is None else positions
    to = settings_of(servers, options)
    client = connected(stand.cluster, to)
    try:
        logs = ask_same(client, stand.cluster, stand.kafka_id, wanted, to)
    except ClusterError as error:
        notes.append(f"source {stand.source}: the logs are not known: {error}")
        return None
    finally:
        client.close()
    others = [f"{topic}/{number}" for topic, number in logs.listing.keys if (topic, number) not in wanted]
    if others:
        notes.append(
            f"source {stand.source}: not in the checkpoint, so read from the first offset if subscribed: {some(others)}"
        )
    return logs.beside(wanted)
