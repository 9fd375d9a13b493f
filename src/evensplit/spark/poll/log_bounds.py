"""Where the logs of one cluster begin and end, and whether what a leader says of that can be believed (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from evensplit.core.model import EpochTable
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, TopicPartition
from evensplit.kafka.admin.protocol import ClusterPort


class LogStarts:
    """Finds the first offsets of logs.

    Args:
        watched: look them up in each poll; otherwise they stay as they were when the partition was first seen.
    """

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._known: dict[tuple[str, int, str], int] = {}

    def find(
        self, port: ClusterPort, ids: Mapping[TopicPartition, str], *, complete: bool
    ) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition in `ids`, except where the leader does not answer.

        Args:
            ids: partition -> the id of its topic.

        Raises what `ClusterPort.list_offsets` raises.
        """
        if self._watched:
            return port.list_offsets(dict.fromkeys(ids, EARLIEST), complete=complete) if ids else {}
        # A poll that was given up may go on beside this one, so the known starts are replaced as a whole.
        known = self._known
        asked = [key for key in ids if (*key, ids[key]) not in known]
        if asked:
            found = port.list_offsets(dict.fromkeys(asked, EARLIEST), complete=complete)
            known = {**known, **{(*key, ids[key]): start for key, start in found.items()}}
        if len(known) > len(ids):
            # Partitions that are not listed are looked up anew when they return.
            kept = frozenset((*key, ids[key]) for key in ids)
            known = {key: start for key, start in known.items() if key in kept}
        self._known = known
        return {key: known[*key, ids[key]] for key in ids if (*key, ids[key]) in known}


_FORMER = "the leader that answered is a former one: expected leader epoch {known} or a later one, found {found}"
_UNTOLD = "its leader, of epoch {found}, does not tell which epochs its log has"


class Checked(NamedTuple):
    """Which ends of logs are valid."""

    tables: Mapping[TopicPartition, EpochTable]
    """The leader epochs of the logs whose ends are valid, as far as brokers tell epochs."""
    refused: Mapping[TopicPartition, str]
    """Partition -> why its end is not valid."""


class LeaderEpochs:
    """The leader epochs of the logs, looked up once for every epoch of each leader.

    Several polls may check at once: one that was given up for another goes on until it is over.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # By topic, partition and topic id. Two mappings: pairs would be work for the garbage collector in every poll.
        self._latest: dict[tuple[str, int, str], int] = {}
        self._found: dict[tuple[str, int, str], EpochTable] = {}
        self._checked: tuple[Mapping[TopicPartition, str], Mapping[TopicPartition, int]] = {}, {}
        self._tables: Mapping[TopicPartition, EpochTable] = {}

    def check(
        self,
        port: ClusterPort,
        ids: Mapping[TopicPartition, str],
        epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
    ) -> Checked:
        """Check that no former leader answered; look up the leader epochs that are not known yet.

        As long as nothing changes, `tables` is one and the same object. Raises what `list_epochs` raises.

        Args:
            ids: the topic id of each key of `epochs`, and perhaps of more.
            epochs: the epoch of the leader that answered.
            starts: where the logs begin.
        """
        tables: dict[TopicPartition, EpochTable] = {}
        refused: dict[TopicPartition, str] = {}
        later: dict[TopicPartition, int] = {}
        with self._lock:
            # Usually nothing has changed, and whole mappings are compared faster than their entries in a loop.
            if (ids, epochs) == self._checked:
                return Checked(self._tables, {})
            for key, epoch in epochs.items():
                known = self._latest.get((*key, ids[key]), -1)
                # Without an id, a topic that was created anew cannot be told from the one before.
                if epoch > known or (0 <= epoch < known and not ids[key]):
                    later[key] = epoch
                elif 0 <= epoch < known:
                    refused[key] = _FORMER.format(known=known, found=epoch)
                elif epoch >= 0:
                    tables[key] = self._found[*key, ids[key]]
            former = {key: self._found.get((*key, ids[key]), ()) for key in later if ids[key]}
        found = port.list_epochs(later, starts, former) if later else {}
        with self._lock:
            for key in [*tables, *later]:
                epoch, known = epochs[key], self._latest.get((*key, ids[key]), -1)
                if epoch < known and ids[key]:
                    # Another poll has found a later one meanwhile.
                    refused[key] = _FORMER.format(known=known, found=epoch)
                    tables.pop(key, None)
                elif key in later and key not in found:
                    refused[key] = _UNTOLD.format(found=epoch)
                elif key in later:
                    self._latest[*key, ids[key]] = epoch
                    self._found[*key, ids[key]] = tables[key] = found[key]
            self._note_checked(ids, {key: epoch for key, epoch in epochs.items() if key not in refused}, tables)
            return Checked(self._tables, refused)

    def _note_checked(
        self,
        ids: Mapping[TopicPartition, str],
        epochs: Mapping[TopicPartition, int],
        tables: Mapping[TopicPartition, EpochTable],
    ) -> None:
        self._checked = ids, epochs
        tables = {key: table for key, table in tables.items() if table}
        if tables != self._tables:
            self._tables = tables
        if len(self._latest) > 2 * len(ids):
            # A partition that one listing lacks may be in the next, so only some of those not listed are forgotten.
            listed = frozenset((*key, ids[key]) for key in ids)
            self._latest = {key: epoch for key, epoch in self._latest.items() if key in listed}
            self._found = {key: table for key, table in self._found.items() if key in listed}


def open_log_ends(port: ClusterPort, latest: dict[TopicPartition, int], *, complete: bool) -> dict[TopicPartition, int]:
    """Return the log end offsets that are after the last stable offsets in `latest` (read_committed).

    A position between the two is no loss. Partitions without an answer are removed from `latest`.
    """
    ends = port.list_offsets(dict.fromkeys(latest, LATEST), complete=complete, undecided=True)
    for key in latest.keys() - ends.keys():
        del latest[key]
    return {key: end for key, end in ends.items() if end > latest[key]}
