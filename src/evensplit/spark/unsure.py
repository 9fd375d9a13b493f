"""What is not sure yet when a run looks for the last time: it looks again, until it is, or nobody will say more."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from evensplit.core.state import EnumeratorState
from evensplit.spark.skips import SURE_WITHIN
from evensplit.spark.view import Answer, View

log = logging.getLogger("evensplit")

SHOWN_MAX = 3


class Unsure:
    """Tells whether to look again. `interval_ms`: the discovery interval; 0 or less where nothing is discovered.

    `notices`: what could not be confirmed for so long that the run went on without.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._waits = False
        self.notices: tuple[str, ...] = ()

    def is_unsure(self, state: EnumeratorState, answers: Mapping[str, Answer], *, last: bool) -> bool:
        """Whether another look may say something else than these answers.

        `last`: there will be no other one in this run, so what is missing, ends too early or has another id is waited
        for. What a complete answer lacked and no other one confirms is waited for SURE_WITHIN intervals.
        """
        views = {name: view for name, view in answers.items() if isinstance(view, View)}
        if not state.begun and any(not view.whole for view in views.values()):
            # A topic was created anew at this very moment.
            return True
        if not last:
            return False
        session = state.session
        missing = {
            str(key): since
            for key, since in session.missing_since.items()
            if isinstance(key, str) or key.cluster in views
        }
        missing.update(("/".join(key), seen.since_ms) for key, seen in session.doubts.items() if key[0] in views)
        wait_ms = SURE_WITHIN * self._interval_ms
        waits = any((session.now_ms or 0) - since < wait_ms for since in missing.values())
        if waits and not self._waits:
            log.info(
                "%d clusters, topics or partitions are missing or have other ids; waiting until that is sure "
                "(discoveryInterval)",
                len(missing),
            )
        self._waits = waits
        if waits or any(key.cluster in views for key in session.sightings):
            return True
        if missing and self._interval_ms > 0:
            # Answers with gaps, or none at all: they would be waited for without end.
            names = sorted(missing)
            shown = ", ".join(names[:SHOWN_MAX]) + (", …" if len(names) > SHOWN_MAX else "")
            self.notices = (
                f"{shown}: missing from a complete answer, or named with another id, which no other answer has "
                f"confirmed for {wait_ms / 1000:g} s ({SURE_WITHIN} times discoveryInterval); positions are kept, and "
                "the next run looks again",
            )
            log.warning(self.notices[0])
        return False
