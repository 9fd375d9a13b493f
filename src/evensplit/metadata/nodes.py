"""A document as a tree of nodes that know their lines, read from YAML or JSON with bounded work.

Trees rather than the values that a YAML loader makes, for three reasons: messages name lines, a scalar stays as it was
written (`0123` in a password is four characters, not 83), and nothing is constructed that a tag asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DOCUMENT_BYTES_MAX = 16 * 2**20
NODES_MAX = 1_000_000
"""How many nodes a document may have, with each alias counted as all that it stands for."""
DEPTH_MAX = 16
"""How deep lists and mappings may be in each other; a document needs 7."""

Kind = Literal["text", "number", "flag", "null", "list", "mapping"]


class UnreadableDocument(Exception):
    """The document is not of its form. `line`: from 1; 0 where none can be said. No content of it is in `detail`."""

    def __init__(self, line: int, detail: str) -> None:
        self.line = line
        self.detail = detail
        super().__init__(line, detail)


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document.

    `text`: a scalar as it was written, quotes and escapes resolved. `plain`: a YAML scalar without quotes, which may be
    taken as a text, whatever it looks like. `items`: of a list. `pairs`: of a mapping, in the document's order, with
    names that stand twice. `size`: the nodes in it, itself too, with aliases taken out.
    """

    line: int
    kind: Kind
    text: str = ""
    plain: bool = False
    items: tuple[Node, ...] = ()
    pairs: tuple[tuple[Node, Node], ...] = ()
    size: int = 1

    @property
    def is_scalar(self) -> bool:
        """A text, a number or a flag, not null."""
        return self.kind in ("text", "number", "flag")

    @property
    def as_text(self) -> str | None:
        """Its text; None if it is not a text."""
        return self.text if self.kind == "text" or (self.plain and self.is_scalar) else None


def list_node(line: int, items: list[Node]) -> Node:
    """A list of `items`."""
    return Node(line, "list", items=tuple(items), size=check_size(line, 1 + sum(item.size for item in items)))


def mapping_node(line: int, children: list[Node]) -> Node:
    """A mapping; `children` are names and values in turn."""
    size = check_size(line, 1 + sum(child.size for child in children))
    return Node(line, "mapping", pairs=tuple(zip(children[::2], children[1::2], strict=True)), size=size)


def check_depth(line: int, depth: int) -> None:
    """Raises UnreadableDocument if a list or mapping inside `depth` others is one too many."""
    if depth >= DEPTH_MAX:
        raise UnreadableDocument(line, f"lists and mappings are more than {DEPTH_MAX} deep in each other")


def check_size(line: int, size: int) -> int:
    """`size`. Raises UnreadableDocument if so many nodes are too many."""
    if size > NODES_MAX:
        raise UnreadableDocument(line, f"there are more than {NODES_MAX} values in it, with aliases taken out")
    return size


def decode(data: bytes) -> str:
    """The document's text.

    Raises UnreadableDocument: it is too large, or not UTF-8.
    """
    if len(data) > DOCUMENT_BYTES_MAX:
        raise UnreadableDocument(0, f"it has more than {DOCUMENT_BYTES_MAX} bytes, which is the most that is read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableDocument(line, f"byte {error.start} is not UTF-8") from None
