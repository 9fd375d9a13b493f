"""JSON as nodes: the standard library decodes, one text or number at a time, and this keeps the lines."""

from __future__ import annotations

import json
import re

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

_TOKEN = re.compile(r'[ \t\r\n]*+(?:([][{},:])|("(?:[^"\\]++|\\.)*+")|([^][{},:" \t\r\n]++)|(\Z)|(.))', re.DOTALL)
_WORDS: dict[str, Kind] = {"true": "flag", "false": "flag", "null": "null"}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_END = ""


def read_json(data: bytes) -> Node:
    """The one value in `data`.

    Raises UnreadableDocument: it is no JSON, or it has a depth or a size that no metadata has.
    """
    reader = _Reader(decode(data))
    if not reader.token:
        raise UnreadableDocument(0, "it is empty; an empty list, [], is how to say that there are no streams")
    root = reader.value(0)
    if reader.token:
        raise reader.wrong("the end")
    return root


class _Reader:
    """Walks over the tokens; `token` is the one that comes next, empty at the end, and `line` where it begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._count = 0
        self.line = 1
        self.token = _END
        self._next()

    def wrong(self, expected: str) -> UnreadableDocument:
        """That something else comes next; what, is not said, as it could be a secret."""
        found = "something else" if self.token else "its end, as in a document that is being written"
        return UnreadableDocument(self.line, f"it is not JSON: expected {expected}, found {found}")

    def value(self, depth: int) -> Node:
        """The value that comes next, inside of `depth` lists and objects."""
        line, token = self.line, self.token
        self._count = check_size(line, self._count + 1)
        if token in ("[", "{"):
            check_depth(line, depth)
            return self._children(depth + 1)
        if token.startswith('"'):
            if len(token) == 1:
                detail = "it is not JSON: a text has no end, as in a document that is being written"
                raise UnreadableDocument(line, detail)
            self._next()
            return Node(line, "text", _text(line, token))
        kind = _WORDS.get(token) or ("number" if _NUMBER.fullmatch(token) else None)
        if kind is None:
            raise self.wrong("a value")
        self._next()
        return Node(line, kind, token)

    def _children(self, depth: int) -> Node:
        line, close = self.line, {"[": "]", "{": "}"}[self.token]
        named = close == "}"
        children: list[Node] = []
        self._next()
        while self.token != close:
            if children:
                self._skip(",", f"a comma or {close}")
            if named:
                if not self.token.startswith('"'):
                    raise self.wrong("a name in double quotes")
                children.append(self.value(depth))
                self._skip(":", "a colon")
            children.append(self.value(depth))
        self._next()
        return (mapping_node if named else list_node)(line, children)

    def _skip(self, token: str, expected: str) -> None:
        if self.token != token:
            raise self.wrong(expected)
        self._next()

    def _next(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise AssertionError("every text begins with a token or ends")
        number = found.lastindex or 0
        self.token = found[number]
        self.line += self._text.count("\n", self._counted_to, found.start(number))
        self._counted_to, self._at = found.start(number), found.end()


def _text(line: int, token: str) -> str:
    try:
        text = str(json.loads(token))
        text.encode()
    except UnicodeEncodeError:
        raise UnreadableDocument(line, "a text has half of a surrogate pair, which is no character") from None
    except ValueError:
        raise UnreadableDocument(
            line, "it is not JSON: a text has a line break, or an escape that there is not"
        ) from None
    return text
