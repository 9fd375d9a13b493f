"""What is not sure yet when a run looks for the last time: it looks again, until it is, or nobody will say more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from typing import NamedTuple

from evensplit.core.machine.data_loss import sighting_ms
from evensplit.core.machine.identity import DOUBT_MS_MAX
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import some
from evensplit.errors import ClusterError
from evensplit.spark.driver.skipped_records import SURE_WITHIN
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

_ANOTHER_ID = "a broker says that its id is {}, which is another one than is read, and the others do not confirm it"


class _Open(NamedTuple):
    """A question about a topic of a cluster that is open; `why`, and how long an answer that settles it may take."""

    cluster: str
    topic: str
    why: str
    wait_ms: int


class Unsure:
    """Tells whether to look again. `interval_ms`: the discovery interval; 0 or less where nothing is discovered.

    `deadline_ms`: cluster -> its request deadline. `notices`: what could not be confirmed for so long that the run went
    on without.
    """

    def __init__(self, interval_ms: int, deadline_ms: Callable[[str], int]) -> None:
        self._interval_ms = interval_ms
        self._deadline_ms = deadline_ms
        self._waits = False
        self._since: dict[tuple[str, str], int] = {}
        self.notices: tuple[str, ...] = ()

    def is_unsure(self, state: EnumeratorState, answers: Mapping[str, PollResult], *, last: bool) -> bool:
        """Whether another look may say something else than these answers.

        `last`: there will be no other one in this run, so what is missing, ends too early or has another id is waited
        for. What a complete answer lacked and no other one confirms is waited for SURE_WITHIN intervals; everything
        else until it is settled, and for the request deadline of its cluster at most.

        Raises:
            ClusterError: something was not settled in that time.
        """
        views = {name: view for name, view in answers.items() if isinstance(view, ClusterSnapshot)}
        if not state.begun and any(not view.whole for view in views.values()):
            # A topic was created anew at this very moment.
            return True
        if not last:
            return False
        unsettled = self._is_unsettled(state, views)
        return self._is_missing(state, views) or unsettled

    def _is_unsettled(self, state: EnumeratorState, views: Collection[str]) -> bool:
        now_ms = state.session.now_ms or 0
        found = _open(state, views)
        # What is unsure about a topic may change; that it is does not.
        self._since = {one[:2]: self._since.get(one[:2], now_ms) for one in found}
        for one in found:
            waited_ms = now_ms - self._since[one[:2]]
            if waited_ms >= one.wait_ms + self._deadline_ms(one.cluster):
                raise ClusterError(
                    one.cluster,
                    f"topic {one.topic!r}: {one.why}; this has not been settled for {waited_ms / 1000:.0f} s "
                    "(kafka.request.timeout.ms), although brokers were asked in turn. All positions are in the "
                    "checkpoint: see which of the brokers lags behind, and start the query again",
                )
        return bool(found)

    def _is_missing(self, state: EnumeratorState, views: Collection[str]) -> bool:
        session = state.session
        missing = {
            str(key): since
            for key, since in session.missing_since.items()
            if isinstance(key, str) or key.cluster in views
        }
        wait_ms = SURE_WITHIN * self._interval_ms
        waits = any((session.now_ms or 0) - since < wait_ms for since in missing.values())
        if waits and not self._waits:
            log.info(
                "%d clusters, topics or partitions are missing; waiting until that is sure (discoveryInterval)",
                len(missing),
            )
        self._waits = waits
        if missing and not waits and self._interval_ms > 0:
            # Answers with gaps, or none at all: they would be waited for without end.
            self.notices = (
                f"{some(sorted(missing))}: missing from a complete answer, which no other answer has confirmed for "
                f"{wait_ms / 1000:g} s ({SURE_WITHIN} times discoveryInterval); positions are kept, and the next run "
                "looks again",
            )
            log.warning(self.notices[0])
        return waits


def _open(state: EnumeratorState, views: Collection[str]) -> list[_Open]:
    """The questions that are open about the clusters in `views`."""
    session = state.session
    found = [_Open(*key, _ANOTHER_ID.format(seen.topic_id), DOUBT_MS_MAX) for key, seen in session.doubts.items()]
    for key in session.sightings:
        why = (
            f"the log of partition {key.partition} ends before its position, and no other answer confirms or denies it"
        )
        found.append(_Open(key.cluster, key.topic, why, sighting_ms(session)))
    found.extend(
        _Open(key.cluster, key.topic, f"a former leader answers for partition {key.partition}", 0)
        for key in chain.from_iterable(session.late.values())
    )
    return [one for one in found if one.cluster in views]


def unsure_of(session: Session) -> Collection[str]:
    """The clusters of which every answer counts, and that of another broker most."""
    return {
        *(key.cluster for key in session.sightings),
        *(name for name, _ in session.doubts),
        *(name for name, splits in session.late.items() if splits),
    }
