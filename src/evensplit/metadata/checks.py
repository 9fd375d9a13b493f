"""The rules for every metadata answer: names, addresses, and clusters that are the same in all streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from evensplit.core.text import short, shown
from evensplit.metadata.streams import ClusterMetadata, Metadata, Stream

ID_CHARS_MAX = 249
PROBLEMS_MAX = 100
"""How many problems an error lists; of a document with more, so many are enough to see what is wrong with it."""

PROPERTIES_MAX = 500
"""So many client settings a cluster may have: more than twice those that Kafka knows."""

VALUE_CHARACTERS_MAX = 1 << 20
"""How long the value of one may be: several times all certificates that a system trusts."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^]]+)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})", re.ASCII)

STREAM_ID = f"a text of 1 to {ID_CHARS_MAX} printable characters"
CLUSTER_ID = f"a text of 1 to {ID_CHARS_MAX} printable characters without a slash"
TOPIC = "a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', other than '.' and '..'"
BOOTSTRAP = "host:port, or [address]:port for IPv6, with a port from 1 to 65535, separated by commas"
PROPERTY = (
    f"the name of a client setting, of at most {ID_CHARS_MAX} characters, without 'kafka.' and without spaces around "
    "it, other than bootstrap.servers, which has a field of its own"
)
PROPERTIES = f"at most {PROPERTIES_MAX} client settings"
VALUE = f"a text of at most {VALUE_CHARACTERS_MAX} characters"
OFFSETS = "a text or a mapping"


def is_stream_id(text: str) -> bool:
    """Whether a stream can be called so."""
    return 0 < len(text) <= ID_CHARS_MAX and text.isprintable() and bool(text.strip())


def is_cluster_id(text: str) -> bool:
    """Whether a cluster can be called so: its id is a part of names such as cluster/topic/partition."""
    return is_stream_id(text) and "/" not in text


def is_topic(text: str) -> bool:
    """Whether Kafka lets a topic be called so."""
    return _TOPIC.fullmatch(text) is not None and text not in (".", "..")


def is_address(text: str) -> bool:
    """Whether it is host:port."""
    found = _ADDRESS.fullmatch(text)
    if not found or not 1 <= int(found["port"]) <= 65535:
        return False
    try:
        return found["v6"] is None or bool(str(IPv6Address(found["v6"])))
    except AddressValueError:
        return False


def is_property(name: str) -> bool:
    """Whether a client setting can be called so."""
    lowered = name.lower()
    if not 0 < len(name) <= ID_CHARS_MAX or name != name.strip():
        return False
    return lowered != "bootstrap.servers" and not lowered.startswith("kafka.")


def shown_address(text: str) -> str:
    """The same for an address: one that has a password in it must not show it in a log."""
    return shown(text.rpartition("@")[2])


def limited(problems: Sequence[str], more: int = 0) -> tuple[str, ...]:
    """At most PROBLEMS_MAX of `problems`, and how many more there are, with `more` that are not among them."""
    more += max(0, len(problems) - PROBLEMS_MAX)
    return (*problems[:PROBLEMS_MAX], f"and {more} more") if more else tuple(problems)


def repeated(streams: Sequence[Stream]) -> list[str]:
    """Problems: streams and clusters that stand twice, and clusters that are not the same in all streams.

    A cluster without bootstrap servers is one of which too little is known to be compared.
    """
    problems: list[str] = []
    seen: dict[str, Stream] = {}
    known: dict[str, ClusterMetadata] = {}
    for stream in streams:
        if stream.id in seen:
            problems.append(
                f"{stream.where}.streamId: expected each stream once, found {shown(stream.id)} again, "
                f"which is at {seen[stream.id].where} too"
            )
        seen.setdefault(stream.id, stream)
        here: dict[str, ClusterMetadata] = {}
        for cluster in stream.clusters:
            if cluster.id in here:
                problems.append(
                    f"{cluster.where}.clusterId: expected each cluster once in a stream, found {shown(cluster.id)} "
                    f"again, which is at {here[cluster.id].where} too"
                )
            here.setdefault(cluster.id, cluster)
            if cluster.bootstrap_servers:
                problems += _differences(known.setdefault(cluster.id, cluster), cluster)
    return problems


def _differences(first: ClusterMetadata, other: ClusterMetadata) -> list[str]:
    named = f"of cluster {shown(other.id)} as at {first.where}, since one id is one cluster"
    problems = []
    if sorted(first.bootstrap_servers) != sorted(other.bootstrap_servers):
        problems.append(
            f"{other.where}.bootstrapServers: expected those {named}, {','.join(first.bootstrap_servers)}; "
            f"found {','.join(other.bootstrap_servers)}"
        )
    if first.properties != other.properties:
        names = sorted({*first.properties, *other.properties})
        differ = [name for name in names if first.properties.get(name) != other.properties.get(name)]
        problems.append(f"{other.where}.properties: expected those {named}; found others: {short(', '.join(differ))}")
    return problems


def check_answer(answer: object) -> list[str]:
    """Problems of what a service of the user's own returned; none if it is Metadata that can be used."""
    if not isinstance(answer, Metadata):
        return [f"read(): expected evensplit.metadata.Metadata, found {type(answer).__name__}"]
    complete: Any = answer.complete
    if not isinstance(complete, bool):
        return [f"complete: expected a bool, found {type(complete).__name__}"]
    if not _all(answer.streams, Stream):
        return [f"streams: expected a tuple of Stream, found {_kind(answer.streams)}"]
    problems: list[str] = []
    for number, stream in enumerate(answer.streams):
        where = f"streams[{number}]"
        if not _all(stream.clusters, ClusterMetadata):
            problems.append(f"{where}.clusters: expected a tuple of ClusterMetadata, found {_kind(stream.clusters)}")
            continue
        _text(problems, f"{where}.id", stream.id, is_stream_id, STREAM_ID)
        _offsets(problems, where, stream)
        for place, cluster in enumerate(stream.clusters):
            _cluster(problems, f"{where}.clusters[{place}]", cluster)
    return problems or repeated([_located(stream, f"streams[{n}]") for n, stream in enumerate(answer.streams)])


def _cluster(problems: list[str], where: str, cluster: ClusterMetadata) -> None:
    _text(problems, f"{where}.id", cluster.id, is_cluster_id, CLUSTER_ID)
    _offsets(problems, where, cluster)
    if not _all(cluster.bootstrap_servers, str) or not cluster.bootstrap_servers:
        found = _kind(cluster.bootstrap_servers)
        problems.append(f"{where}.bootstrap_servers: expected a tuple of host:port, at least one, found {found}")
    elif wrong := next((one for one in cluster.bootstrap_servers if not is_address(one)), None):
        problems.append(f"{where}.bootstrap_servers: expected host:port, found {shown_address(wrong)}")
    if not _all(cluster.topics, str):
        problems.append(f"{where}.topics: expected a tuple of texts, found {_kind(cluster.topics)}")
    else:
        for topic in cluster.topics:
            _text(problems, f"{where}.topics", topic, is_topic, TOPIC)
        if list(cluster.topics) != sorted(set(cluster.topics)):
            problems.append(f"{where}.topics: expected names in ascending order, each once")
    properties: Any = cluster.properties
    if not isinstance(properties, Mapping) or not _all((*properties, *properties.values()), str):
        problems.append(f"{where}.properties: expected a mapping of texts to texts")
    else:
        if len(properties) > PROPERTIES_MAX:
            problems.append(f"{where}.properties: expected {PROPERTIES}, found {len(properties)}")
            return
        for name, value in properties.items():
            _text(problems, f"{where}.properties", name, is_property, PROPERTY)
            if len(value) > VALUE_CHARACTERS_MAX:
                found = f"one of {len(value)} characters"
                problems.append(f"{where}.properties.{short(name)}: expected {VALUE}, found {found}")


def _offsets(problems: list[str], where: str, value: Stream | ClusterMetadata) -> None:
    for name in ("starting_offsets", "ending_offsets"):
        offsets = getattr(value, name)
        if not isinstance(offsets, str | Mapping | None):
            problems.append(f"{where}.{name}: expected {OFFSETS}, or None, found {type(offsets).__name__}")


def _text(problems: list[str], where: str, value: Any, right: Callable[[str], bool], expected: str) -> None:
    if not isinstance(value, str):
        problems.append(f"{where}: expected {expected}, found {type(value).__name__}")
    elif not right(value):
        problems.append(f"{where}: expected {expected}, found {shown(value)}")


def _all(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        kinds = sorted({type(one).__name__ for one in value})
        return f"a tuple of {' and '.join(kinds)}" if kinds else "an empty one"
    return type(value).__name__


def _located(stream: Stream, where: str) -> Stream:
    """`stream`, with places in it for those that have none."""
    clusters = tuple(
        replace(cluster, where=cluster.where or f"{where}.clusters[{number}]")
        for number, cluster in enumerate(stream.clusters)
    )
    return replace(stream, clusters=clusters, where=stream.where or where)
