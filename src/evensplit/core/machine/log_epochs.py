"""Leader epochs of a log's records: whether it still is the log that was read (KIP-101, KIP-320).

Every leader of a partition has an epoch of its own, each a later one than those before, and records keep that of the
leader that wrote them. So they ascend with the offsets. Where a broker leads that did not have all records, which takes
an unclean election, the log goes on from where it ends there, with a later epoch.
"""

from __future__ import annotations

from evensplit.core.model import EpochTable


def epoch_before(table: EpochTable, offset: int) -> int | None:
    """The epoch of the last record before `offset` in a log with the epochs of `table`; None where it is not known."""
    for entry in table:
        if entry.start < offset:
            return entry.epoch
    return None


def is_older(table: EpochTable, epoch: int) -> bool:
    """Whether `table` is the word of a leader from before `epoch`, whose records it cannot have."""
    return bool(table) and table[0].epoch < epoch


def replaced_from(table: EpochTable, position: int, epoch: int, seen: EpochTable = ()) -> int | None:
    """The offset from which on the log with the epochs of `table` is another one than that which was read.

    That one was read up to `position`, and `epoch` is that of the last record before it; `seen` has the epochs that it
    had, as far as they are known. None: it is the same log, as far as anybody knows.

    What is before the offset that is returned may be other records too, if epochs of the log that was read are not
    known; it is at most `position`. `table` is no older one than `epoch` (see `is_older`).
    """
    if not table or is_older(table, epoch):
        return None
    read = [one for one in seen if one.epoch <= epoch]
    known = {epoch, *(one.epoch for one in read)}
    oldest, end = min(known), position
    for entry in table:
        if entry.epoch in known or entry.epoch < oldest:
            # Up to the end of this epoch, in whichever of the two logs it ends earlier, they are one.
            end = min([end, *(one.start for one in read if one.epoch > entry.epoch)])
            return end if end < position or entry.epoch < epoch else None
        end = min(end, entry.start)
    return end if end < position else None
