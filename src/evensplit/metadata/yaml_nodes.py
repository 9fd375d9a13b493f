"""YAML as nodes. Needs PyYAML; with libyaml in it, as in its wheels, a hundred times faster than without."""

from __future__ import annotations

import re

import yaml

from evensplit.metadata.nodes import (
    Kind,
    Node,
    UnreadableDocument,
    check_depth,
    check_size,
    decode,
    list_node,
    mapping_node,
)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
# What Flink's YamlFileMetadataService lets a stream be called.
_STREAM_TAG = "YamlFileMetadataService$StreamMetadata"
_QUOTED = re.compile(r"""['"].*['"]""", re.DOTALL)
_PLAIN: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("flag", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("number", re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)),
)


def read_yaml(data: bytes) -> Node:
    """The one document in `data`.

    A list or mapping without brackets has to end with a line break: torn in the middle of a line, it could pass for a
    whole one with another name in it. What is torn at the end of a line cannot be told from a whole document.

    Raises UnreadableDocument: it is no YAML, there is not one document, it ends in the middle of a line, or it has a
    tag, an alias, a depth or a size that no metadata has.
    """
    text = decode(data)
    composer = _Composer()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.YAMLError as error:
        raise _unreadable(error) from None
    except (ValueError, OverflowError):
        # An escape such as \\UFFFFFFFF, or a version with thousands of digits, to the parser that is written in Python.
        raise UnreadableDocument(0, "it is not YAML: a number in an escape or a directive is too large") from None
    if composer.root is None:
        raise UnreadableDocument(0, "it is empty; an empty list, [], is how to say that there are no streams")
    if composer.open_ended and not text.rstrip(" \t").endswith(("\n", "\r")):
        line = text.count("\n") + 1
        raise UnreadableDocument(
            line, "it ends in the middle of a line, as a file does that is being written; end it with a line break"
        )
    return composer.root


class _Composer:
    """Makes nodes of events, with the lists and mappings that are open on a stack of its own."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.open_ended = False
        self._anchors: dict[str, Node | None] = {}
        self._count = 0
        self._open: list[tuple[yaml.CollectionStartEvent, list[Node]]] = []

    def take(self, event: yaml.Event) -> None:
        line = _line(event)
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                raise UnreadableDocument(line, "a second document begins; expected one")
        elif isinstance(event, yaml.DocumentEndEvent):
            self.open_ended = self.open_ended and not event.explicit
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event, line)
        elif isinstance(event, yaml.ScalarEvent):
            self._tag(event, line, "str")
            self._add(event.anchor, _scalar(event, line))
        elif isinstance(event, yaml.CollectionStartEvent):
            check_depth(line, len(self._open))
            self._tag(event, line, "seq" if isinstance(event, yaml.SequenceStartEvent) else "map")
            if not self._open:
                self.open_ended = not event.flow_style
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            self._open.append((event, []))
        elif isinstance(event, yaml.CollectionEndEvent):
            start, children = self._open.pop()
            make = list_node if isinstance(start, yaml.SequenceStartEvent) else mapping_node
            self._add(start.anchor, make(_line(start), children))

    def _alias(self, event: yaml.AliasEvent, line: int) -> None:
        # The name of an alias may be a secret that begins with an asterisk.
        if event.anchor not in self._anchors:
            raise UnreadableDocument(line, "an alias (*) stands for nothing before it; put a text with * in quotes")
        node = self._anchors[event.anchor]
        if node is None:
            raise UnreadableDocument(line, "an alias stands inside of what it stands for")
        self._add(None, node)

    def _add(self, anchor: str | None, node: Node) -> None:
        self._count = check_size(node.line, self._count + 1)
        if anchor is not None:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1][1].append(node)
        else:
            self.root = node

    def _tag(self, event: yaml.NodeEvent, line: int, kind: str) -> None:
        tag = getattr(event, "tag", None)
        if tag in (None, "!", _CORE + kind) or (kind == "map" and tag.endswith(_STREAM_TAG)):
            return
        raise UnreadableDocument(line, "a tag (!) stands there; expected none, and a text with ! in quotes")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _scalar(event: yaml.ScalarEvent, line: int) -> Node:
    text = event.value
    if not event.implicit[0] or event.tag is not None:
        return Node(line, "text", text)
    kind: Kind = next((kind for kind, pattern in _PLAIN if pattern.fullmatch(text)), "text")
    return Node(line, kind, text, plain=True)


def _unreadable(error: yaml.YAMLError) -> UnreadableDocument:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    # PyYAML quotes pieces of the document, which may be secret.
    problem = _QUOTED.sub(
        "…", str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it is damaged")
    )
    if mark is None:
        return UnreadableDocument(0, f"it is not YAML: {problem}")
    return UnreadableDocument(mark.line + 1, f"it is not YAML: {problem} (column {mark.column + 1})")
