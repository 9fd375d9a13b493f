"""Which clusters and topics are to be read: a pure function of an answer and of what the user asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from evensplit.core.json_text import parse_json
from evensplit.core.text import shown
from evensplit.errors import MetadataError
from evensplit.metadata import checks
from evensplit.metadata.streams import ClusterMetadata, Metadata, Selection, Stream

Offsets = Literal["starting_offsets", "ending_offsets"]


class _Member(NamedTuple):
    """One cluster of one chosen stream. `topics`: those of all clusters of the stream."""

    stream: Stream
    cluster: ClusterMetadata
    topics: frozenset[str]

    def offsets(self, name: Offsets) -> Any:
        """Its own offsets, else those of its stream without the topics that only other clusters have."""
        own = getattr(self.cluster, name)
        if own is not None:
            return own
        shared = getattr(self.stream, name)
        if not isinstance(shared, Mapping):
            return shared
        here = frozenset(self.cluster.topics)
        return {topic: value for topic, value in shared.items() if topic in here or topic not in self.topics}

    @property
    def where(self) -> str:
        return self.cluster.where or f"stream {shown(self.stream.id)}"


def select(metadata: Metadata, streams: tuple[str, ...] | None, pattern: str | None) -> Selection:
    """The clusters of the chosen streams, each once, with the topics of all of them.

    `streams`: by name. `pattern`: those in whose id the regular expression is found, unanchored, as for
    `subscribePattern`. Both None: all. A cluster on which nothing is to be read is left out.

    Raises MetadataError: streams that are chosen together want different offsets of the same topic, or say other things
    of the same cluster; or both `streams` and `pattern` are given, or `pattern` is no regular expression.
    """
    chosen = _chosen(metadata.streams, streams, pattern)
    problems = checks.repeated(chosen)
    members: dict[str, list[_Member]] = {}
    for stream in chosen:
        topics = frozenset(topic for cluster in stream.clusters for topic in cluster.topics)
        for cluster in stream.clusters:
            if cluster.topics:
                members.setdefault(cluster.id, []).append(_Member(stream, cluster, topics))
    clusters = tuple(_merged(members[name], problems) for name in sorted(members))
    if problems:
        raise MetadataError("the chosen streams", checks.limited(problems))
    known = {stream.id for stream in metadata.streams}
    return Selection(clusters, tuple(sorted({*(streams or ())} - known)))


def _chosen(all_streams: Sequence[Stream], streams: tuple[str, ...] | None, pattern: str | None) -> list[Stream]:
    if streams is not None and pattern is not None:
        raise MetadataError("the chosen streams", ["expected streams by name or by a pattern, found both"])
    if pattern is None:
        return [stream for stream in all_streams if streams is None or stream.id in streams]
    try:
        found = re.compile(pattern)
    except re.error as error:
        told = f"expected a regular expression, found {shown(pattern)}: {error}"
        raise MetadataError("the chosen streams", [told]) from None
    return [stream for stream in all_streams if found.search(stream.id)]


def _merged(members: Sequence[_Member], problems: list[str]) -> ClusterMetadata:
    topics = {topic for member in members for topic in member.cluster.topics}
    return replace(
        members[0].cluster,
        topics=tuple(sorted(topics)),
        starting_offsets=_offsets(members, "starting_offsets", problems),
        ending_offsets=_offsets(members, "ending_offsets", problems),
    )


def _offsets(members: Sequence[_Member], name: Offsets, problems: list[str]) -> Any:
    said = [member.offsets(name) for member in members]
    if all(one == said[0] for one in said):
        return said[0]
    merged: dict[str, Any] = {}
    sayer: dict[str, _Member] = {}
    for member, value in zip(members, said, strict=True):
        for topic, wanted in _by_topic(value, member.cluster.topics).items():
            if topic in sayer and merged[topic] != wanted:
                problems.append(
                    f"{member.where}: expected for topic {shown(topic)} of cluster "
                    f"{shown(member.cluster.id)} the {name.replace('_', ' ')} that are at {sayer[topic].where}, "
                    "since both streams are chosen; found others"
                )
            sayer.setdefault(topic, member)
            merged.setdefault(topic, wanted)
    # A topic whose streams say nothing is one for which the source's own option holds, unlike one that a mapping omits.
    silent = {
        topic for member, value in zip(members, said, strict=True) if value is None for topic in member.cluster.topics
    }
    return {topic: merged.get(topic) for topic in sorted({*merged, *silent})}


def _by_topic(value: Any, topics: Sequence[str]) -> dict[str, Any]:
    """The offsets of each topic."""
    if value is None:
        return {}
    if isinstance(value, str) and value.lstrip().startswith("{"):
        # Spark's own form is a mapping in a text.
        try:
            found = parse_json(value)
        except ValueError:
            found = value
        value = found if isinstance(found, dict) else value
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(topics, value)
