"""What keys and values are decoded to, as the state keeps it.

A batch that is repeated has the same columns only if it is decoded by the same schema. That belongs to the state, so a
schema that is another one at a restart is seen, and what it changes can be said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class ReaderSchema(NamedTuple):
    """The schema that keys, or values, are read by."""

    column: str = ""
    """The type of the column with all its fields, as the kernel's tree of types in JSON; empty: not decoded, or not
    known."""
    text: str = ""
    """The schema itself, where the type of the column does not say all of it."""

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits: the same for two schemas only if they are equal."""
        return hashlib.sha256("\n".join(self).encode()).hexdigest()[:16]

    def problem(self) -> str:
        """What is wrong with it, as a clause; empty: nothing."""
        try:
            _paths(self.column)
        except (ValueError, TypeError, LookupError, RecursionError):
            return f"the type of a column is {self.column[:80]!r}; expected a tree of types"
        return ""


NO_SCHEMA = ReaderSchema()


def changes(before: ReaderSchema, after: ReaderSchema) -> tuple[str, ...]:
    """One clause for each field that differs, in the order of the fields: those that were there come first.

    Where all fields have the same types, one clause says that something else differs.
    """
    old, new = _paths(before.column), _paths(after.column)
    found = [
        f"{path} was {kind} and is {new[path]}" if path in new else f"{path} ({kind}) is gone"
        for path, kind in old.items()
        if new.get(path) != kind
    ]
    found += [f"{path} ({kind}) is new" for path, kind in new.items() if path not in old]
    if not found and list(old) != list(new):
        found = ["the fields are in another order"]
    if not found and before != after:
        found = ["the columns are the same; what differs are names, numbers or defaults by which they are found"]
    return tuple(found)


def _paths(column: str) -> dict[str, str]:
    """Path of each field -> its type in Spark's words; those of structs say only that they are."""
    return dict(_fields(json.loads(column), "")) if column else {}


def _fields(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = tree[0]
    if path:
        shown = f"decimal({tree[1]},{tree[2]})" if kind == "decimal" else _WORDS.get(kind, kind)
        yield path, shown
    if kind == "struct":
        for name, inner in tree[1]:
            yield from _fields(inner, f"{path}.{name}" if path else name)
    elif kind == "array":
        yield from _fields(tree[1], f"{path}.element" if path else "element")
    elif kind == "map":
        for name, inner in zip(("key", "value"), tree[1:], strict=True):
            yield from _fields(inner, f"{path}.{name}" if path else name)


_WORDS = {"byte": "tinyint", "short": "smallint", "long": "bigint"}
