"""What keys and values are decoded to, as the state keeps it.

A batch that is repeated has the same columns only if it is decoded in the same way. That belongs to the state, so what
is another one at a restart is seen, and what it changes can be said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

COLUMN_CHARS_MAX = 65_536
"""The longest type that is kept, since it is in each offset; of a longer one, only a digest is."""

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_DIGEST = re.compile(r"[0-9a-f]{32}")


class ReaderSchema(NamedTuple):
    """The schema that keys, or values, are read by."""

    column: str = ""
    """The type of the column with all its fields, as the kernel's tree of types in JSON; empty: not decoded, not known,
    or too long."""
    digest: str = ""
    """What tells the schema from others with the same type: 32 hexadecimal digits, or, as checkpoints had it once, the
    schema itself; empty: nothing does."""
    format: str = ""
    """The format, such as "binary"; empty: a checkpoint from before it was kept, so it is not known."""
    framing: str = ""
    """What is before each of them, and whether a registry says how that is read; empty: not known, or the format has
    none."""

    @classmethod
    def of(cls, tree: Sequence[Any] | None, identity: str, written_in: str, framing: str) -> ReaderSchema:
        """What decodes to the type with this tree, None: to no fields.

        `identity`: a text of any length that tells the schema from others with that type.
        """
        column = "" if tree is None else json.dumps(tree, separators=(",", ":"))
        return cls(*_kept(column, identity), written_in, framing)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits: the same for two schemas only if they are equal."""
        return hashlib.sha256("\n".join(self).encode()).hexdigest()[:16]

    @property
    def as_list(self) -> list[str]:
        """Its parts, without those at the end that are not known; as before, the first two are always there."""
        parts = list(self)
        while len(parts) > 2 and not parts[-1]:
            parts.pop()
        return parts

    @property
    def is_too_long(self) -> bool:
        """Whether it has a type that is not kept."""
        return not self.column and bool(self.digest)

    def is_followed_by(self, after: ReaderSchema) -> bool:
        """Whether what was decoded by this one goes on by `after`, as far as this one is known."""
        if self == NO_SCHEMA:
            return True
        if not self.format:
            return _kept(self.column, self.digest) == (after.column, after.digest)
        return self == after

    def problem(self) -> str:
        """What is wrong with it, as a clause; empty: nothing."""
        try:
            _paths(self.column)
        except (ValueError, TypeError, LookupError, RecursionError):
            return f"the type of a column is {self.column[:80]!r}; expected a tree of types"
        return ""


NO_SCHEMA = ReaderSchema()
"""Nothing is known."""


def _kept(column: str, identity: str) -> tuple[str, str]:
    """What is kept of a type, and what of the text that tells its schema from others."""
    if len(column) > COLUMN_CHARS_MAX:
        column, identity = "", f"{column}\n{identity}"
    if not identity or _DIGEST.fullmatch(identity):
        return column, identity
    return column, hashlib.sha256(identity.encode()).hexdigest()[:32]


def changes(before: ReaderSchema, after: ReaderSchema) -> tuple[str, ...]:
    """One clause for each difference: of the format, of the framing, then of each field, in the order of the fields;
    those that were there come first. Names that are no plain words are in backquotes, as in Spark.

    Where all of that is the same, one clause says that something else differs.
    """
    found = [
        f"the {what} was {old} and is {new} now"
        for what, old, new in (
            ("format", before.format, after.format),
            ("framing", before.framing, after.framing),
        )
        if old and new and old != new
    ]
    if before.is_too_long or after.is_too_long:
        more = "the fields differ, or how they are found; they are too many to be kept, so it is not known which"
        return tuple(found or (() if before == after else (more,)))
    old_types, new_types = _paths(before.column), _paths(after.column)
    if not (before.column and after.column):
        # One of the formats has no fields, which says it.
        old_types.pop("", None)
        new_types.pop("", None)
    found += [
        f"{path or 'the column'} was {kind} and is {new_types[path]}"
        if path in new_types
        else f"{path} ({kind}) is gone"
        for path, kind in old_types.items()
        if new_types.get(path) != kind
    ]
    found += [f"{path} ({kind}) is new" for path, kind in new_types.items() if path not in old_types]
    if not found and list(old_types) != list(new_types):
        found = ["the fields are in another order"]
    if not found and before != after:
        found = ["the columns are the same; what differs are names, numbers or defaults by which they are found"]
    return tuple(found)


def _paths(column: str) -> dict[str, str]:
    """Path of each field -> its type in Spark's words; those of structs say only that they are. The empty path is the
    whole."""
    return dict(_fields(json.loads(column), "")) if column else {}


def _fields(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = tree[0]
    yield path, f"decimal({tree[1]},{tree[2]})" if kind == "decimal" else _WORDS.get(kind, kind)
    if kind == "struct":
        inner = [(name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`", of) for name, of in tree[1]]
    elif kind == "array":
        inner = [("element", tree[1])]
    elif kind == "map":
        inner = list(zip(("key", "value"), tree[1:], strict=True))
    else:
        return
    for name, of in inner:
        yield from _fields(of, f"{path}.{name}" if path else name)


_WORDS = {"byte": "tinyint", "short": "smallint", "long": "bigint"}
