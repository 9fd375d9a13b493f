"""Metadata documents: the format that Flink's YamlFileMetadataService reads, as YAML or JSON, and a few fields more.

- streamId: orders
  startingOffsets: earliest               # may be left out, as the three below
  clusterMetadataList:
    - clusterId: east                     # without one, the bootstrap servers are the id, as in Flink
      bootstrapServers: broker-1:9092,broker-2:9092
      topics: [orders, returns]
      properties: {client.rack: a}        # client settings under Kafka's names, without `kafka.`
      startingOffsets: {orders: {0: 23}}
      endingOffsets: latest               # also per stream
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from evensplit.core.text import shown
from evensplit.errors import MetadataError
from evensplit.metadata import checks
from evensplit.metadata.nodes import Node, UnreadableDocument
from evensplit.metadata.streams import ClusterMetadata, Metadata, Stream

Format = Literal["json", "yaml"]

_OFFSETS = ("startingOffsets", "endingOffsets")
_STREAM = ("streamId", "clusterMetadataList", *_OFFSETS)
_CLUSTER = ("clusterId", "bootstrapServers", "topics", "properties", *_OFFSETS)
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_PLAIN_NAME = re.compile(r"[\w-]+", re.ASCII)


def parse_document(data: bytes, source: str, form: Format) -> Metadata:
    """The metadata in a document. `source` is where it comes from, for messages.

    The answer is complete, and an empty list is an answer without streams. In YAML a scalar without quotes is the text
    that it is written as, so that a topic can be called 2024.

    Raises MetadataError with everything that is wrong: on which line, in which field, what was expected and found. No
    value of a property is in it.
    """
    try:
        root = _read(data, form)
    except UnreadableDocument as error:
        place = f"line {error.line}: " if error.line else ""
        raise MetadataError(source, [f"{place}{error.detail}"]) from None
    parser = _Parser()
    streams = parser.streams(root)
    problems = [*parser.problems, *checks.repeated(streams)]
    if problems:
        raise MetadataError(source, checks.limited(problems, parser.more))
    return Metadata(tuple(_of(source, stream) for stream in streams))


def _read(data: bytes, form: Format) -> Node:
    # PyYAML takes time to load, and JSON does not need it.
    if form == "json":
        from evensplit.metadata.json_nodes import read_json

        return read_json(data)
    from evensplit.metadata.yaml_nodes import read_yaml

    return read_yaml(data)


def _of(source: str, stream: Stream) -> Stream:
    """`stream`, with `source` in front of its places."""
    clusters = tuple(replace(cluster, where=f"{source}, {cluster.where}") for cluster in stream.clusters)
    return replace(stream, clusters=clusters, where=f"{source}, {stream.where}")


class _Parser:
    """One pass over the nodes that goes on after a wrong one, so that all are reported together."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.more = 0

    def streams(self, root: Node) -> list[Stream]:
        """All streams that can be told apart, also those in which something is wrong."""
        if root.kind != "list":
            self._wrong(root, "the document", "a list of streams, each with streamId and clusterMetadataList", root)
        found = (self._stream(item, f"[{number}]") for number, item in enumerate(root.items))
        return [stream for stream in found if stream is not None]

    def _stream(self, node: Node, path: str) -> Stream | None:
        fields = self._fields(node, path, _STREAM, required=("streamId", "clusterMetadataList"))
        name = self._name(fields, "streamId", path, checks.is_stream_id, checks.STREAM_ID)
        starting, ending = (self._offsets(fields, field, path) for field in _OFFSETS)
        listed, inside = fields.get("clusterMetadataList"), f"{path}.clusterMetadataList"
        clusters: list[ClusterMetadata | None] = []
        if listed is not None and listed.kind == "list":
            clusters = [self._cluster(item, f"{inside}[{number}]") for number, item in enumerate(listed.items)]
        elif listed is not None:
            self._wrong(listed, inside, "a list of clusters, each with clusterId, bootstrapServers and topics", listed)
        if name is None:
            return None
        known = tuple(cluster for cluster in clusters if cluster is not None)
        return Stream(name, known, starting, ending, where=f"line {node.line}, {path}")

    def _cluster(self, node: Node, path: str) -> ClusterMetadata | None:
        fields = self._fields(node, path, _CLUSTER, required=("bootstrapServers", "topics"))
        problems = len(self.problems)
        servers = self._servers(fields, path)
        if fields.get("clusterId") is None or fields["clusterId"].kind == "null":
            name = self._unnamed(fields, path)
        else:
            name = self._name(fields, "clusterId", path, checks.is_cluster_id, checks.CLUSTER_ID)
        topics = self._topics(fields, path)
        properties = self._properties(fields, path)
        starting, ending = (self._offsets(fields, field, path) for field in _OFFSETS)
        if name is None:
            return None
        if servers is None or len(self.problems) > problems:
            servers = ()
        where = f"line {node.line}, {path}"
        return ClusterMetadata(name, servers, topics, properties, starting, ending, where=where)

    def _unnamed(self, fields: Mapping[str, Node], path: str) -> str | None:
        servers = fields.get("bootstrapServers")
        text = servers.as_text if servers is not None else None
        if servers is None or text is None:
            return None
        if not checks.is_cluster_id(text):
            self._wrong(servers, f"{path}.clusterId", f"{checks.CLUSTER_ID}, as the bootstrap servers are not one")
        return text

    def _servers(self, fields: Mapping[str, Node], path: str) -> tuple[str, ...] | None:
        node, path = fields.get("bootstrapServers"), f"{path}.bootstrapServers"
        if node is None:
            return None
        if node.as_text is None:
            self._wrong(node, path, checks.BOOTSTRAP, node)
            return None
        entries = [entry.strip() for entry in node.as_text.split(",")]
        for entry in entries:
            if not checks.is_address(entry):
                self._wrong(node, path, checks.BOOTSTRAP, checks.shown_address(entry))
        return tuple(dict.fromkeys(entries))

    def _topics(self, fields: Mapping[str, Node], path: str) -> tuple[str, ...]:
        node, path = fields.get("topics"), f"{path}.topics"
        if node is None:
            return ()
        if node.kind != "list":
            self._wrong(node, path, "a list of topics", node)
        topics: set[str] = set()
        for number, item in enumerate(node.items):
            if item.as_text is None:
                self._wrong(item, f"{path}[{number}]", checks.TOPIC, item)
            elif not checks.is_topic(item.as_text):
                self._wrong(item, f"{path}[{number}]", checks.TOPIC, shown(item.as_text))
            else:
                topics.add(item.as_text)
        return tuple(sorted(topics))

    def _properties(self, fields: Mapping[str, Node], path: str) -> dict[str, str]:
        node, path = fields.get("properties"), f"{path}.properties"
        if node is None:
            return {}
        if node.kind != "mapping":
            self._wrong(node, path, "a mapping from names of client settings to texts, numbers or flags", node)
        pairs = self._pairs(node, path)
        if len(pairs) > checks.PROPERTIES_MAX:
            self._wrong(node, path, checks.PROPERTIES, str(len(pairs)))
            return {}
        properties: dict[str, str] = {}
        for name, value in pairs.items():
            if not checks.is_property(name):
                self._wrong(value, path, checks.PROPERTY, shown(name))
            elif not value.is_scalar:
                self._wrong(value, f"{path}.{_quoted(name)}", "a text, a number or a flag", value)
            elif len(value.text) > checks.VALUE_CHARACTERS_MAX:
                self._wrong(value, f"{path}.{_quoted(name)}", checks.VALUE, f"one of {len(value.text)} characters")
            else:
                properties[name] = value.text
        return properties

    def _offsets(self, fields: Mapping[str, Node], name: str, path: str) -> Any:
        node, path = fields.get(name), f"{path}.{name}"
        if node is None:
            return None
        if node.as_text is not None:
            return node.as_text
        if node.kind != "mapping":
            self._wrong(node, path, checks.OFFSETS, node)
            return None
        return self._plain(node, path)

    def _plain(self, node: Node, path: str) -> Any:
        """The offsets in a node, as JSON values."""
        if node.kind == "mapping":
            return {
                name: self._plain(value, f"{path}.{_quoted(name)}") for name, value in self._pairs(node, path).items()
            }
        if node.kind == "number" and _WHOLE.fullmatch(node.text):
            return int(node.text)
        if node.kind == "text" or (node.kind == "number" and node.plain):
            return node.text
        self._wrong(node, path, "a text, a whole number or a mapping", node)
        return None

    def _name(
        self, fields: Mapping[str, Node], name: str, path: str, right: Callable[[str], bool], expected: str
    ) -> str | None:
        node, path = fields.get(name), f"{path}.{name}"
        if node is None:
            return None
        if node.as_text is None:
            self._wrong(node, path, expected, node)
        elif not right(node.as_text):
            self._wrong(node, path, expected, shown(node.as_text))
        else:
            return node.as_text
        return None

    def _fields(self, node: Node, path: str, known: tuple[str, ...], *, required: tuple[str, ...]) -> dict[str, Node]:
        if node.kind != "mapping":
            self._wrong(node, path, f"a mapping with {', '.join(required)}", node)
            return {}
        fields = self._pairs(node, path)
        for name in [name for name in fields if name not in known]:
            few = len(self.problems) < checks.PROBLEMS_MAX
            close = difflib.get_close_matches(name.lower()[:40], [one.lower() for one in known], n=1) if few else []
            hint = next((one for one in known if close and one.lower() == close[0]), None)
            meant = f"; did you mean {hint}?" if hint else ""
            self._wrong(fields.pop(name), path, f"the fields {', '.join(known)}", f"{shown(name)}{meant}")
        for name in required:
            if name not in fields:
                self._wrong(node, f"{path}.{name}", "this field", "none")
        return fields

    def _pairs(self, node: Node, path: str) -> dict[str, Node]:
        """The mapping's names and values; each name once."""
        pairs: dict[str, Node] = {}
        for key, value in node.pairs:
            if key.as_text is None:
                self._wrong(key, path, "names that are texts", key)
            elif key.as_text in pairs:
                first = pairs[key.as_text].line
                self._wrong(key, path, "each name once", f"{shown(key.as_text)} again, after line {first}")
            else:
                pairs[key.as_text] = value
        return pairs

    def _wrong(self, node: Node, path: str, expected: str, found: Node | str = "") -> None:
        if len(self.problems) >= checks.PROBLEMS_MAX:
            self.more += 1
            return
        if isinstance(found, Node):
            found = _described(found)
        tail = f", found {found}" if found else ""
        self.problems.append(f"line {node.line}, {path}: expected {expected}{tail}")


def _described(node: Node) -> str:
    """The kind of value, never the value itself: it may be a secret in the wrong place."""
    if node.kind == "list":
        return f"a list of {len(node.items)}"
    if node.kind == "mapping":
        return f"a mapping of {len(node.pairs)}"
    return {"null": "nothing", "flag": "true or false"}.get(node.kind, f"a {node.kind}")


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else shown(name)
