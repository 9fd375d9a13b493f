"""What is not sure yet: which later answers count, and when time alone changes something."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import NamedTuple

from evensplit.core.state.state import EnumeratorState, Session

DUE_INTERVAL_MS = 1000
"""How often to look again for what is due, and cannot be decided because a cluster gives no complete answer."""

SIGHTING_MS_MIN = 3_000
"""For so long, and for a discovery interval, a log has to end before its position: quick answers are not time."""

DOUBT_MS_MAX = 2_000
"""So much time has to pass from the first to the last answer that names a new id of a topic; less, if a discovery
interval is less."""

_ANOTHER_ID = "a broker says that its id is {}, which is another one than is read, and the others do not confirm it"
_ENDS_BEFORE = "the log of partition {} ends before its position, and no other answer confirms or denies it"
_FORMER_LEADER = "a former leader answers for partition {}"


class OpenQuestion(NamedTuple):
    """Something about a topic that a later answer settles."""

    cluster: str
    topic: str
    why: str
    wait_ms: int
    """How long an answer that settles it may take, beside the deadline of a request."""


def open_questions(session: Session) -> list[OpenQuestion]:
    """What is open about topics: another id, a log that ends before its position, a former leader."""
    found = [
        OpenQuestion(*key, _ANOTHER_ID.format(seen.topic_id), DOUBT_MS_MAX) for key, seen in session.doubts.items()
    ]
    found.extend(
        OpenQuestion(key.cluster, key.topic, _ENDS_BEFORE.format(key.partition), sighting_ms(session))
        for key in session.sightings
    )
    found.extend(
        OpenQuestion(key.cluster, key.topic, _FORMER_LEADER.format(key.partition), 0)
        for key in chain.from_iterable(session.late.values())
    )
    return found


def sighting_ms(session: Session) -> int:
    """For how long a log has to be seen to end before its position, until that is believed."""
    return max(session.discovery_interval_ms, SIGHTING_MS_MIN)


def unsure_clusters(session: Session) -> Collection[str]:
    """The clusters of which every answer counts, that of another broker most; ascending."""
    return sorted(
        {
            *(key.cluster for key in session.sightings),
            *(name for name, _ in session.doubts),
            *(name for name, splits in session.late.items() if splits),
        }
    )


def next_due_ms(state: EnumeratorState) -> int | None:
    """When time alone may change `state`, in ms; None if it cannot.

    Then another complete answer makes something that is missing gone, another look at a log that ends before its
    position makes that a loss, or something retained has been kept long enough. What is due already waits for an answer
    that does not come, and is tried again after DUE_INTERVAL_MS.
    """
    session, now_ms = state.session, state.session.now_ms or 0
    missing_since = (*session.missing_since.values(), *session.read_missing.values())
    due = [since + session.discovery_interval_ms for since in missing_since]
    due.extend(seen.since_ms + sighting_ms(session) for seen in session.sightings.values())
    removed_at_ms = [
        *(split.removed_at_ms for split in state.splits.values()),
        *(cluster.removed_at_ms for cluster in state.clusters.values()),
    ]
    due.extend(at + state.settings.retention_ms for at in removed_at_ms if at is not None)
    return min((at if at > now_ms else now_ms + DUE_INTERVAL_MS for at in due), default=None)
