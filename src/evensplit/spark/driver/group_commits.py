"""Positions that are committed to consumer groups, so that the lag tools that people have show this source, too.

Nothing here ever reads a commit: what a query goes on from is in its checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import CommitRefused, line_of
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.options.parse import ClusterOptions

log = logging.getLogger("evensplit")

RETRY_S = 10.0
"""How long after a commit that failed the next attempt is made, unless there is something new to commit."""


class _Position(NamedTuple):
    """A position in one incarnation of a topic: brokers forget the positions that were committed for another one."""

    topic_id: str
    offset: int


class GroupCommitter:
    """Commits the positions of each cluster to its consumer group, in the background, each change once.

    A commit that fails is a line in the log, and is made again later; it never fails anything else.
    """

    def __init__(self, group: str, connect: Callable[[ClusterOptions], ClusterPort]) -> None:
        self._group = group
        self._connect = connect
        self._clusters: dict[str, _ClusterCommits] = {}

    def offer(self, state: EnumeratorState, options: Callable[[str], ClusterOptions | None]) -> None:
        """Commit the positions of `state`, the end of a batch that Spark has committed."""
        positions: dict[str, dict[TopicPartition, _Position]] = {}
        for key, split in state.splits.items():
            if split.position is not None and split.removed_at_ms is None:
                of = positions.setdefault(key.cluster, {})
                of[key.topic, key.partition] = _Position(split.topic_id, split.position)
        for name in sorted({*positions, *self._clusters}):
            reached, known = options(name), self._clusters.get(name)
            if name not in positions:
                self._clusters.pop(name).close()
            elif reached is not None:
                if known is None or known.options.settings != reached.settings:
                    known = _ClusterCommits(self._group, reached, self._connect(reached), known)
                    self._clusters[name] = known
                known.offer(positions[name])

    def retry(self) -> None:
        """Make failed commits again, when that is due."""
        for one in self._clusters.values():
            one.retry()

    def flush(self, timeout_s: float) -> None:
        """Wait until all offered positions are committed, or have failed, for at most `timeout_s` in all."""
        deadline = time.monotonic() + timeout_s
        for one in self._clusters.values():
            one.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close all connections; positions that are not committed by now will not be."""
        for one in self._clusters.values():
            one.close()


class _ClusterCommits:
    """One cluster's commits, made by a thread that lives as long as there are some."""

    def __init__(
        self, group: str, options: ClusterOptions, port: ClusterPort, previous: _ClusterCommits | None
    ) -> None:
        self.options = options
        self.committed: dict[TopicPartition, _Position] = {}
        self._previous = previous
        self._group = group
        self._port = port
        self._changed = threading.Condition()
        self._wanted: Mapping[TopicPartition, _Position] = {}
        self._working = False
        self._failed_at: float | None = None
        self._said = ""

    def offer(self, positions: Mapping[TopicPartition, _Position]) -> None:
        with self._changed:
            news = positions != self._wanted
            self._wanted = positions
            if news:
                self._start()
        self.retry()

    def retry(self) -> None:
        with self._changed:
            if self._failed_at is not None and time.monotonic() - self._failed_at >= RETRY_S:
                self._start()

    def wait(self, timeout_s: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._working, timeout_s)

    def close(self) -> None:
        self._port.close()

    def _start(self) -> None:
        if not self._working:
            self._working = True
            threading.Thread(target=self._work, name=f"evensplit-{self.options.id}-commit", daemon=True).start()

    def _work(self) -> None:
        if self._previous is not None:
            # A late commit of the previous connection would undo one from here.
            self._previous.wait(None)
            self.committed = dict(self._previous.committed)
            self._previous.close()
            self._previous = None
        while True:
            with self._changed:
                wanted = self._wanted
            # Brokers may forget positions that are not committed for a time.
            self.committed = {key: at for key, at in self.committed.items() if key in wanted}
            news = {key: at for key, at in wanted.items() if self.committed.get(key) != at}
            failed = self._commit(news) if news else None
            with self._changed:
                self._failed_at = time.monotonic() if failed else None
                if wanted is self._wanted:
                    self._working = False
                    self._changed.notify_all()
                    return

    def _commit(self, news: Mapping[TopicPartition, _Position]) -> bool:
        try:
            self._port.commit_offsets(self._group, {key: at.offset for key, at in news.items()})
        except Exception as error:
            refused = frozenset(error.refused if isinstance(error, CommitRefused) else news)
            self.committed.update((key, at) for key, at in news.items() if key not in refused)
            if str(error) != self._said:
                log.warning(
                    "group %s of cluster %s: could not commit %s, and will try again: %s",
                    self._group,
                    self.options.id,
                    counted(len(refused), "position"),
                    line_of(error),
                )
            self._said = str(error)
            return True
        self.committed.update(news)
        self._said = ""
        return False
