"""Which edits of a checkpoint can be taken back: those that made its newest offset file what it is, and no others.

A record of an edit that was never made, or is taken back, does not fit the offset log, and counts for nothing. The one
by which a checkpoint is a copy is never taken back: the copy would stay, and nothing would tell that it is one.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from evensplit.core.state.edits import SAME_QUERY


@dataclass(frozen=True, slots=True)
class Record:
    """One edit, as it is kept beside the offset log."""

    number: int
    """From 1, in the order in which edits were made."""
    line: str
    """The command, without the checkpoint."""
    at_ms: int
    batch: int
    """The batch that it is in."""
    before: str | None
    """The offset file of that batch as it was; None: there was none."""
    after: str
    """SHA-256 of the file with the edit."""

    @property
    def said(self) -> tuple[str, ...]:
        """The command, and what it was told: `rewind`, `--to`, `2h`."""
        line = self.line.removeprefix("evensplit ")
        try:
            return tuple(shlex.split(line)) or ("",)
        except ValueError:
            # A name with a quote in it, of an earlier version that did not quote.
            return tuple(line.split()) or ("",)

    @property
    def stays(self) -> bool:
        """Whether it is never taken back, since the checkpoint is a copy by it."""
        return self.said[:1] == ("fork",)

    @property
    def moves(self) -> bool:
        """Whether the copy goes on with the same query, which the first checkpoint then must not do."""
        return self.stays and self.said[-1] == SAME_QUERY


def digest(data: bytes) -> str:
    """What a record has of the file `data`."""
    return hashlib.sha256(data).hexdigest()


def made_by(records: Sequence[Record], batch: int, data: bytes) -> list[Record]:
    """The edits that made the newest offset file what it is, the last one first.

    Args:
        records: all that are kept, in the order of their numbers.
        batch: the number of the newest offset file.
        data: what is in it.
    """
    made = digest(data)
    found: list[Record] = []
    for record in reversed(records):
        if (record.batch, record.after) != (batch, made):
            continue
        found.append(record)
        if record.before is None:
            break
        made = digest(record.before.encode())
    return found
