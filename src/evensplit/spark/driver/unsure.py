"""Decides whether a run that ends polls again: until everything is sure, or no later poll would tell more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from evensplit.core.state.open_questions import open_questions, open_since_ms
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import counted, some
from evensplit.errors import ClusterError
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

SURE_WITHIN = 3
"""A run that ends waits this many discovery intervals for a listing that confirms that something is missing."""


class Unsure:
    """Tells whether to poll again.

    Args:
        interval_ms: the discovery interval; 0 or less where nothing is discovered.
        deadline_ms: cluster -> its request deadline.
    """

    def __init__(self, interval_ms: int, deadline_ms: Callable[[str], int]) -> None:
        self._interval_ms = interval_ms
        self._deadline_ms = deadline_ms
        self._waits = False
        self._waits_for_read = False
        self._since: dict[tuple[str, str], int] = {}
        self.notices: tuple[str, ...] = ()
        """Missing clusters, topics and partitions that no second listing confirmed in time."""

    def is_unsure(self, state: EnumeratorState, answers: Mapping[str, PollResult], *, last: bool) -> bool:
        """Whether another poll may give another result.

        Args:
            last: there is no later poll in this run. So it waits for partitions that are missing, also for those that
                were read and still have to be compared, SURE_WITHIN intervals at most; and for logs that end before
                their positions, other topic ids and former leaders, until these are settled.

        Raises:
            ClusterError: something was not settled within the request deadline of its cluster.
        """
        views = {name: view for name, view in answers.items() if isinstance(view, ClusterSnapshot)}
        if not state.begun and any(not view.whole for view in views.values()):
            # A topic was created anew during the poll.
            return True
        if not last:
            return False
        unsettled = self._is_unsettled(state.session, views)
        missing, read = self._is_missing(state.session, views), self.is_unsure_of_read(state.session)
        return missing or read or unsettled

    def is_unsure_of_read(self, session: Session) -> bool:
        """Whether what was read is missing, or brokers name two ids of its topic, and another poll may tell."""
        wait_ms = SURE_WITHIN * session.discovery_interval_ms
        since = open_since_ms(session)
        waits = any((session.now_ms or 0) - since_ms < wait_ms for since_ms in since)
        if waits and not self._waits_for_read:
            missing = len(session.read_missing)
            found = [f"{counted(missing, 'partition')} not listed any more"] if missing else []
            if missing < len(since):
                found.append(f"{counted(len(since) - missing, 'topic')} of which brokers name two ids")
            log.info(
                "the last batch read %s; waiting up to %g s (%d x discoveryInterval) for another listing before "
                "declaring a loss",
                " and ".join(found),
                wait_ms / 1000,
                SURE_WITHIN,
            )
        self._waits_for_read = waits
        return waits

    def _is_unsettled(self, session: Session, views: Collection[str]) -> bool:
        now_ms = session.now_ms or 0
        found = [one for one in open_questions(session) if one.cluster in views]
        # The question about a topic may change; the time counts from its first one.
        self._since = {one[:2]: self._since.get(one[:2], now_ms) for one in found}
        for one in found:
            waited_ms = now_ms - self._since[one[:2]]
            if waited_ms >= one.wait_ms + self._deadline_ms(one.cluster):
                raise ClusterError(
                    one.cluster,
                    f"topic {one.topic!r}: {one.why}; this has not been settled for {waited_ms / 1000:.0f} s "
                    "(kafka.request.timeout.ms), although brokers were asked in turn. All positions are in the "
                    "checkpoint: see which of the brokers lags, and start the query again",
                )
        return bool(found)

    def _is_missing(self, session: Session, views: Collection[str]) -> bool:
        missing = {
            str(key): since
            for key, since in session.missing_since.items()
            if isinstance(key, str) or key.cluster in views
        }
        wait_ms = SURE_WITHIN * self._interval_ms
        waits = any((session.now_ms or 0) - since < wait_ms for since in missing.values())
        if waits and not self._waits:
            log.info(
                "%d clusters, topics or partitions are missing; waiting up to %g s (%d x discoveryInterval) for a "
                "second listing before removing them",
                len(missing),
                wait_ms / 1000,
                SURE_WITHIN,
            )
        self._waits = waits
        if missing and not waits and self._interval_ms > 0:
            # Otherwise incomplete listings, or clusters that do not answer, would be waited for without end.
            self.notices = (
                f"{some(sorted(missing))}: missing from a complete listing, and no second one confirmed it within "
                f"{wait_ms / 1000:g} s ({SURE_WITHIN} x discoveryInterval); positions are kept, and the next run looks "
                "again",
            )
            log.warning(self.notices[0])
        return waits
