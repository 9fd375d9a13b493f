"""What the oracle knows of the leader epochs of what was read, and when a log is another one than that (KIP-320).

Each leader has an epoch of its own, so a record's epoch tells who wrote it: two logs that have one epoch at one offset
are the same up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evensplit.core.machine.events import LogsObserved
from evensplit.core.model import EpochTable, SplitId


@dataclass(slots=True)
class OneLog:
    """What was read, and what was seen.

    `epochs`: split -> the epoch of the record before its mark. `tables`: cluster -> split -> epochs as last seen, and
    the end of the log that has them.
    """

    epochs: dict[SplitId, int] = field(default_factory=dict)
    tables: dict[str, dict[SplitId, tuple[EpochTable, int]]] = field(default_factory=dict)

    def copy(self) -> OneLog:
        """What a checkpoint has of it."""
        return OneLog(dict(self.epochs))

    def end(self, key: SplitId) -> None:
        """The incarnation of a split has ended."""
        self.epochs.pop(key, None)
        for tables in self.tables.values():
            tables.pop(key, None)

    def rename(self, was: str, now: str) -> None:
        """A cluster has another name."""
        self.tables.pop(was, None)
        for key in [key for key in self.epochs if key.cluster == was]:
            self.epochs[key._replace(cluster=now)] = self.epochs.pop(key)

    def read_to(self, key: SplitId, mark: int) -> None:
        """A split was read up to `mark`, or stands there."""
        table, end = self.tables.get(key.cluster, {}).get(key, ((), 0))
        found = _at(table, mark - 1) if 0 < mark <= end else None
        if found is None:
            self.epochs.pop(key, None)
        else:
            self.epochs[key] = found

    def is_former(self, key: SplitId, event: LogsObserved) -> bool:
        """Whether the leader that answered is from before what was read."""
        table = event.epochs.get(key)
        return bool(table) and key in self.epochs and max(one.epoch for one in table or ()) < self.epochs[key]

    def replaced_from(self, key: SplitId, mark: int, event: LogsObserved) -> int | None:
        """From where on the log is another one than that which was read up to `mark`; None if it is the same."""
        table, epoch = event.epochs.get(key), self.epochs.get(key)
        if not table or epoch is None or _at(table, mark - 1) == epoch:
            return None
        known, _ = self.tables.get(key.cluster, {}).get(key, ((), 0))
        seen = [one for one in known if one.epoch <= epoch]
        if seen:
            # Offset by offset: the first one at which the two logs have records of different leaders.
            read = tuple(seen)
            return next(at for at in range(mark) if _at(read, at) != _at(table, at))
        return min([mark, *(one.start for one in table if one.epoch > epoch)])

    def look(self, event: LogsObserved, left_out: Mapping[SplitId, bool], ends: Mapping[SplitId, int]) -> None:
        """Keep what was seen of logs that go to their `ends`."""
        self.tables[event.cluster] = {
            key: (table, event.ends[key])
            for key, table in event.epochs.items()
            if key not in left_out and key in event.ends and event.ends[key] >= ends.get(key, 0)
        }


def _at(table: EpochTable, offset: int) -> int | None:
    """The epoch of the record at an offset, as far as the table goes back."""
    return max((one.epoch for one in table if one.start <= offset), default=None)
