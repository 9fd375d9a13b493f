"""One partition of the ledger as it is read: the last record of a key, found from the end of the log backwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import NamedTuple

from evensplit.core.model import Range, SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import POOL, Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.options.client import ClientSettings

FIRST_OFFSETS = 64
"""So many offsets before the end are read first, and then twice as many, until the key is found.

An append takes four or five. So a query that is alive is found at once, however long the ledger is.
"""

UNUSED_SHARE = 0.9
"""As long as so much of the time is left, a read has the connections that are there, and may take all of it anew."""


class _Seen(NamedTuple):
    """The last value of a key before an offset."""

    value: bytes | None
    end: int


class LedgerLog:
    """Committed records of one partition. It keeps what it has read, so that the next time only what is new is read.

    `settings`: with `read_committed`.
    """

    def __init__(self, split: SplitId, settings: ClientSettings, pool: Pool = POOL) -> None:
        self._split = split
        self._settings = settings
        self._pool = pool
        self._seen: dict[bytes, _Seen] = {}

    def last(self, key: bytes, begin: int, end: int, deadline: Deadline) -> bytes | None:
        """The last value of `key` in the log, which has the offsets from `begin` to before `end`; None if it has none.

        What is open before `end` is waited for, until the deadline. Raises what `read_ranges` does.
        """
        seen = self._seen.get(key)
        if seen is None or seen.end > end:
            found, value = self._search(key, begin, end, deadline)
        else:
            found, value = self._last_in(key, seen.end, end, deadline)
            value = value if found else seen.value
        self._seen[key] = _Seen(value, end)
        return value

    def entries(self, begin: int, end: int, deadline: Deadline | None = None) -> Iterator[tuple[bytes, bytes | None]]:
        """All keys and values from `begin` to before `end`, in order. Raises what `read_ranges` does.

        `deadline`: until when it is waited for something to come; None: as long as settings say, each time.
        """
        if begin >= end:
            return
        ranges = [Range(self._split, begin, end)]
        with self._patient(deadline) as (settings, pool):
            clusters = {self._split.cluster: settings}
            for batch in read_ranges(ranges, clusters, columns=("key", "value"), pool=pool):
                for key, value in zip(batch.column("key"), batch.column("value"), strict=True):
                    yield key.as_py() or b"", value.as_py()

    @contextmanager
    def _patient(self, deadline: Deadline | None) -> Iterator[tuple[ClientSettings, Pool]]:
        """With what to read, so that nothing is waited for after the deadline."""
        whole_s = self._settings.progress_timeout_ms / 1000
        if deadline is None or deadline.remaining_s > whole_s * UNUSED_SHARE:
            yield self._settings, self._pool
            return
        if deadline.passed:
            what = f"topic {self._split.topic!r}, partition {self._split.partition}: no time was left to read it"
            raise ClusterUnreachable(self._split.cluster, what)
        # The shared pool would keep connections for these settings, which nobody has again.
        with closing(Pool(network=self._pool.network)) as pool:
            yield replace(self._settings, poll_timeout_ms=max(int(deadline.remaining_s * 1000), 1)), pool

    def _search(self, key: bytes, begin: int, end: int, deadline: Deadline) -> tuple[bool, bytes | None]:
        """Read backwards, longer and longer parts."""
        stop, length = end, FIRST_OFFSETS
        while stop > begin:
            start = max(begin, stop - length)
            found, value = self._last_in(key, start, stop, deadline)
            if found:
                return True, value
            stop, length = start, 2 * length
        return False, None

    def _last_in(self, key: bytes, begin: int, end: int, deadline: Deadline) -> tuple[bool, bytes | None]:
        found, last = False, None
        for one, value in self.entries(begin, end, deadline):
            if one == key:
                found, last = True, value
        return found, last
