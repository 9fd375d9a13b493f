"""An edit of a checkpoint as it is gathered: what is there, what it makes of it, and what there is to say."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

from evensplit.checkpoint.checkpoint import Checkpoint, read_checkpoint
from evensplit.checkpoint.edits import edits_of_newest, offset_text
from evensplit.checkpoint.look import Seen, look
from evensplit.checkpoint.places.place import Place
from evensplit.core.repair.edit import Told
from evensplit.core.repair.past import Past
from evensplit.core.repair.proof import Consequence
from evensplit.core.repair.records import Record
from evensplit.core.state.edits import Edit
from evensplit.core.state.state import EnumeratorState


@dataclass
class Outcome:
    """An edit as it would be, or is, written."""

    checkpoint: Checkpoint
    seen: Seen
    told: Told
    states: dict[str, EnumeratorState] = field(default_factory=dict)
    """Source -> the end of its batch with the edit."""
    edits: dict[str, Edit] = field(default_factory=dict)
    """Source -> its edit, as one."""
    found: dict[str, tuple[Consequence, ...]] = field(default_factory=dict)
    """Source -> what it comes to."""
    come: dict[str, Past] = field(default_factory=dict)
    """Source -> what has been delivered, and left out, by the end of its batch."""
    notes: list[str] = field(default_factory=list)
    """What else one should know, a sentence each."""
    obstacles: list[str] = field(default_factory=list)
    """Why nothing can be written now."""
    written: bool = False
    more: dict[str, str | None] = field(default_factory=dict)
    """What else `--format json` has."""

    @cached_property
    def records(self) -> list[Record]:
        """The edits before this one that no query has done, the last one first."""
        return edits_of_newest(self.checkpoint)

    @property
    def again(self) -> int:
        """How many offsets are read once more."""
        return sum(map(self.again_in, self.found))

    def again_in(self, source: str) -> int:
        """How many of one source."""
        return sum(one.again for one in self.found[source])

    @property
    def never(self) -> int:
        """How many offsets are left out for good."""
        return sum(one.never for ones in self.found.values() for one in ones)

    @property
    def data(self) -> bytes:
        """The offset file with the edit."""
        return offset_text(self.checkpoint, self.states, self.told.at_ms)


def begin(path: Place, command: str, said: str) -> Outcome:
    """Read a checkpoint that is to be edited by `evensplit COMMAND CHECKPOINT SAID`."""
    seen = look(path)
    return Outcome(read_checkpoint(path), seen, Told(command, said, round(time.time() * 1000)))
