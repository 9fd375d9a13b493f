"""How the commands of this room reach clusters, by the options that they are given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from evensplit.cli.live.connection_options import LOGIN
from evensplit.cli.live.log_ends import settings_of
from evensplit.cli.usage import another_form
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.options.per_cluster import KAFKA

_OF = re.compile(r"([^=,:\s]+)=(.+)", re.DOTALL)
_OPTION = re.compile(r"(?:([\w.-]+):)?([\w.]+)=(.*)", re.ASCII | re.DOTALL)

EVERY = ""
"""Stands for each cluster that has nothing of its own."""


def reaching_clusters(command: Any) -> Any:
    """Add `--bootstrap-servers` and `--option`, by cluster, as `servers` and `options`."""
    servers = click.option(
        "--bootstrap-servers",
        "servers",
        multiple=True,
        metavar="[CLUSTER=]HOST:PORT,...",
        help="Where a cluster is. With several clusters, once for each, with the name that it has in the query.",
    )
    options = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="[CLUSTER:]NAME=VALUE",
        help="A Kafka setting for the connection, e.g. kafka.security.protocol=SSL. Repeatable. Secrets: ${env:NAME}.",
    )
    return servers(options(command))


def clusters_of(
    servers: Sequence[str], options: Sequence[str], known: Mapping[str, str] = MappingProxyType({})
) -> dict[str, ClientSettings]:
    """Cluster -> how to reach it; `EVERY` for servers without a cluster's name.

    `known`: servers of clusters that `servers` does not name. Raises click.UsageError for another form, a cluster
    without servers, one login for several clusters, and settings that are wrong.
    """
    places: dict[str, str] = {}
    for text in servers:
        match = _OF.fullmatch(text)
        name, at = (match[1], match[2]) if match else (EVERY, text)
        if name in places:
            raise click.UsageError(f"--bootstrap-servers is given twice for {name or 'all clusters'}; expected it once")
        places[name] = at
    if EVERY not in places:
        places = {**known, **places}
    elif len(places) > 1:
        raise click.UsageError("--bootstrap-servers: expected a name before each of several, as in east=broker:9092")
    given: dict[str, dict[str, str]] = {name: {} for name in places}
    for text in options:
        found = _OPTION.fullmatch(text)
        if found is None:
            raise click.UsageError(another_form(text, "kafka.security.protocol=SSL"))
        name = found[2].lower().removeprefix(KAFKA)
        if found[1] and found[1] not in given:
            raise click.UsageError(f"--option is for cluster {found[1]!r}; expected one of {_named(places)}")
        if not found[1] and len(given) > 1 and name.startswith(LOGIN):
            raise click.UsageError(
                f"--option kafka.{name} can be for one cluster only: put its name before, and a colon"
            )
        for cluster in [found[1]] if found[1] else given:
            given[cluster][name] = found[3]
    return {name: settings_of(at, given[name]) for name, at in places.items()}


def _named(names: Iterable[str]) -> str:
    return ", ".join(name for name in names if name) or "no names, since --bootstrap-servers has none"


def settings_for(clusters: Mapping[str, ClientSettings], cluster: str) -> ClientSettings | None:
    """How to reach `cluster`; None if nothing says so."""
    return clusters.get(cluster, clusters.get(EVERY))
