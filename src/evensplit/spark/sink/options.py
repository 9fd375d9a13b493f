"""Parses the options of what writes, with the columns of the DataFrame, and reports all that is wrong at once."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyspark.sql.types import StructType

from evensplit.core.text import short
from evensplit.errors import OptionError
from evensplit.kafka.options.client import NO_SERVERS, ClientSettings, named, parse_settings
from evensplit.kafka.options.client_options import PREFIX
from evensplit.kafka.options.local_access import EVERYTHING
from evensplit.kafka.options.option import Option
from evensplit.kafka.options.producer import PRODUCER_IGNORED, ProducerSettings, parse_producing
from evensplit.kafka.options.security import without_unused
from evensplit.spark.options.per_cluster import BOOTSTRAP, DEFAULT_CLUSTER, cluster_name_problem
from evensplit.spark.options.spec import sink as spec
from evensplit.spark.options.spec.all import BY_NAME
from evensplit.spark.options.spec.clusters import METADATA
from evensplit.spark.options.values import TOPIC, RawOptions, shown
from evensplit.spark.sink.columns import WriteColumns, check_columns

log = logging.getLogger("evensplit")


@dataclass(frozen=True, slots=True)
class WriteCluster:
    """A cluster that is written to."""

    id: str
    client: ClientSettings
    producing: ProducerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """All options and columns, checked. Compares and hashes by value; pickled into every task."""

    clusters: tuple[WriteCluster, ...]
    """By id, at least one."""

    columns: WriteColumns

    topic: str | None
    """Where all rows go; None: their column says it."""

    cluster: str | None
    """Where all rows go; None: their column says it."""

    exactly_once: bool

    ledger: str
    """The topic of the ledger, and its cluster."""

    ledger_cluster: str

    id_prefix: str
    """How ids of transactions begin."""

    accept_incomplete: int | None
    """The batch that may be incomplete."""

    ignored: tuple[str, ...] = field(default=(), compare=False)
    """Options that were given and have no effect, each with what to use instead, if there is something."""

    def by_id(self, cluster: str) -> WriteCluster:
        """One of the clusters. Raises KeyError."""
        return {one.id: one for one in self.clusters}[cluster]


def parse_writing(options: Mapping[str, str], schema: StructType, *, stream: bool) -> WriteOptions:
    """Parse and check all options, and the columns of the rows.

    Raises:
        OptionError: something is missing, unknown, contradictory or malformed; it lists all.
    """
    given = RawOptions(options, [])
    _refuse_unknown(given)
    for option in spec.SINK_DECLARED:
        if option.name in given and option.needs and option.needs not in given:
            given.problems.append(
                f"{option.name} is given without {option.needs}; expected the option {option.needs} too, or leave it "
                "out"
            )
    ignored: list[str] = []
    delivery = given.read(spec.DELIVERY) or (spec.EXACTLY_ONCE if stream else spec.AT_LEAST_ONCE)
    exactly_once = delivery == spec.EXACTLY_ONCE
    if spec.WRITE_CLUSTERS.name in given:
        clusters, known = _several(given, ignored, exactly_once)
    else:
        clusters, known = _list(_cluster(given, DEFAULT_CLUSTER, {}, "", ignored, exactly_once)), [DEFAULT_CLUSTER]
    topic, ledger = _topic(given, spec.TOPIC), _topic(given, spec.LEDGER)
    cluster = _one_of(given, spec.WRITE_CLUSTER, known)
    several = known is not None and len(known) > 1
    ledger_cluster = _ledger_cluster(given, known, needed=stream and exactly_once)
    columns, problems = check_columns(
        schema,
        topic=spec.TOPIC.name in given,
        cluster=spec.WRITE_CLUSTER.name in given,
        several=several,
        headers=given.read(spec.WRITE_HEADERS),
        timestamp=given.read(spec.WRITE_TIMESTAMP),
    )
    prefix, accepted = given.read(spec.ID_PREFIX), given.read(spec.ACCEPT_INCOMPLETE)
    if not stream:
        ignored += [one.name for one in spec.SINK_DECLARED if one.only == "stream" and one.name in given]
    ignored += [spec.PATH] if spec.PATH in given else []
    if given.problems or columns is None:
        raise OptionError(tuple(dict.fromkeys(given.problems)), problems)
    return WriteOptions(
        clusters=tuple(clusters),
        columns=columns,
        topic=topic,
        cluster=cluster if several else clusters[0].id,
        exactly_once=exactly_once,
        ledger=ledger or spec.LEDGER.default,
        ledger_cluster=ledger_cluster or clusters[0].id,
        id_prefix=prefix,
        accept_incomplete=accepted,
        ignored=tuple(sorted(set(ignored))),
    )


@lru_cache(maxsize=64)
def tell_ignored(ignored: tuple[str, ...]) -> None:
    """Name options that have no effect in the log, once for as long as this process lives."""
    if ignored:
        log.warning("these options have no meaning here and are ignored: %s", ", ".join(ignored))


def _list(cluster: WriteCluster | None) -> list[WriteCluster]:
    return [] if cluster is None else [cluster]


def _refuse_unknown(given: RawOptions, *, outside: bool = True) -> None:
    """Say of each option, except those of Kafka's, that it does not exist here."""
    known = {name: one.name for name, one in spec.SINK_BY_NAME.items() if not name.startswith(PREFIX)}
    silent = {name.lower() for name in (*spec.OF_QUERY, spec.PATH)}
    for name in sorted(given.options):
        if name.startswith(PREFIX) or (outside and (name in known or name in silent)):
            continue
        hint = _hint(name, known, outside=outside)
        given.problems.append(f"{short(_usual(name, given))} is not an option for writing{given.where}; {hint}")


def _usual(name: str, given: RawOptions) -> str:
    declared = spec.SINK_BY_NAME.get(name) or BY_NAME.get(name)
    return declared.name if declared else given.written(name)


def _hint(name: str, known: Mapping[str, str], *, outside: bool) -> str:
    if not outside:
        return "it holds for all clusters: give it outside" if name in known else f"expected {PREFIX}* options"
    if name == METADATA.name:
        return "a metadata service lists clusters to read; give kafka.bootstrap.servers or clusters"
    if f"{PREFIX}{name}" in spec.SINK_BY_NAME:
        return f"write {PREFIX}{name}: the settings of Kafka's client begin with {PREFIX}"
    if name in BY_NAME:
        return "it is for reading: give it to read or readStream, or leave it out"
    close = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"did you mean {known[close[0]]}?" if close else f"expected one of {', '.join((*known.values(), 'kafka.*'))}"


def _several(given: RawOptions, ignored: list[str], exactly_once: bool) -> tuple[list[WriteCluster], list[str] | None]:
    """The clusters of `clusters`, and their ids; None where they cannot be known."""
    document = given.document(spec.WRITE_CLUSTERS)
    if document is None:
        return [], None
    if not document or not all(isinstance(one, dict) for one in document.values()):
        given.problems.append(
            f"clusters has no clusters, or one without options; expected {spec.WRITE_CLUSTERS.type.expected}"
        )
        return [], None
    if BOOTSTRAP in given:
        given.problems.append(f"clusters is given beside {BOOTSTRAP}; expected clusters alone, or leave clusters out")
    found: list[WriteCluster] = []
    for name in sorted(document):
        if problem := cluster_name_problem(name, "clusters"):
            given.problems.append(problem)
        found += _list(_cluster(given, name, document[name], f" of cluster {name!r}", ignored, exactly_once))
    return found, sorted(document)


def _cluster(
    given: RawOptions, name: str, own: Mapping[str, Any], where: str, ignored: list[str], exactly_once: bool
) -> WriteCluster | None:
    """One cluster, by its own options and those outside; None if they are wrong."""
    inner = RawOptions(own, given.problems, where)
    _refuse_unknown(inner, outside=False)
    outer_values, inner_values = (_kafka(level) for level in (given, inner))
    if where:
        outer_values.pop(BOOTSTRAP.removeprefix(PREFIX), None)
    values = named({**without_unused(outer_values, inner_values), **inner_values})
    producing, reaching, wrong, unused = parse_producing(values, transactions=exactly_once)
    client, problems, _ = parse_settings(reaching, (), EVERYTHING)
    problems += wrong
    # One slip is one problem: not another one for the name that was meant.
    if any(f"did you mean {BOOTSTRAP}?" in problem for problem in (*problems, *given.problems)):
        problems = [problem for problem in problems if problem != NO_SERVERS]
    given.problems.extend(f"{problem}{f' ({where.strip()})' if where else ''}" for problem in problems)
    for one in unused:
        instead = PRODUCER_IGNORED[one]
        ignored.append(f"{PREFIX}{one} ({instead})" if instead else f"{PREFIX}{one}")
    return None if client is None or producing is None else WriteCluster(name, client, producing)


def _kafka(given: RawOptions) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in given.options.items():
        if not name.startswith(PREFIX):
            continue
        if isinstance(value, dict | list) or value is None:
            given.problems.append(f"{short(name)}{given.where} is no text; expected a text, a number, true or false")
            continue
        found[name.removeprefix(PREFIX)] = value if isinstance(value, str) else json.dumps(value)
    return found


def _topic(given: RawOptions, option: Option) -> str | None:
    if option.name not in given:
        return None
    name = str(given.value(option.name)).strip()
    if not TOPIC.fullmatch(name) or name in (".", ".."):
        given.wrong(option)
    return name


def _one_of(given: RawOptions, option: Option, known: Iterable[str] | None) -> str | None:
    """The cluster that `option` names."""
    if option.name not in given:
        return None
    name = str(given.value(option.name))
    if known is not None and name not in known:
        given.problems.append(f"{option.name} is {shown(name)}; expected one of {', '.join(known)}")
    return name


def _ledger_cluster(given: RawOptions, known: list[str] | None, *, needed: bool) -> str | None:
    if spec.LEDGER_CLUSTER.name not in given and needed and known is not None and len(known) > 1:
        given.problems.append(
            f"{spec.LEDGER_CLUSTER.name} is missing, and clusters has several; expected the one that has the ledger, "
            f"one of {', '.join(known)}"
        )
    return _one_of(given, spec.LEDGER_CLUSTER, known)
