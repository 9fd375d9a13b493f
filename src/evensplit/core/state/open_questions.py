"""Open questions of a session: which later polls settle them, and when time alone changes something."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import NamedTuple

from evensplit.core.state.state import EnumeratorState, Session

DUE_INTERVAL_MS = 1000
"""How often to try again what is due, and cannot be decided because a cluster gives no complete listing."""

TRUNCATION_WAIT_MS_MIN = 3_000
"""For so long, and for a discovery interval, a log has to end before its position: polls in quick succession may all
reach one stale broker."""

ID_CONFLICT_ANSWERS_MIN = 2
"""So many polls have to name a new id of a topic until it counts; the driver asks another broker for the second. Where
it is not known which brokers answered, they have to come in a row, and it takes as many that name the known id until
that one counts again."""

ID_CONFLICT_MS_MAX = 2_000
"""So much time has to pass from the first to the last answer that names an id of a topic until it counts; less, if a
discovery interval is less."""

_ANOTHER_ID = "a broker says that its id is {}, which is another one than is read, and the others do not confirm it"
_ENDS_BEFORE = "the log of partition {} ends before its position, and no other answer confirms or denies it"
_FORMER_LEADER = "a former leader answers for partition {}"


class OpenQuestion(NamedTuple):
    """Something about a topic that a later poll settles."""

    cluster: str
    topic: str
    why: str
    wait_ms: int
    """How long that may take, beside the deadline of a request."""


def open_questions(session: Session) -> list[OpenQuestion]:
    """List what is open about topics: another id, a log that ends before its position, a former leader."""
    found = [
        OpenQuestion(*key, _ANOTHER_ID.format(seen.topic_id), ID_CONFLICT_MS_MAX)
        for key, seen in session.id_conflicts.items()
    ]
    found.extend(
        OpenQuestion(key.cluster, key.topic, _ENDS_BEFORE.format(key.partition), truncation_wait_ms(session))
        for key in session.truncation_observations
    )
    found.extend(
        OpenQuestion(key.cluster, key.topic, _FORMER_LEADER.format(key.partition), 0)
        for key in chain.from_iterable(session.former_leaders.values())
    )
    return found


def id_conflict_wait_ms(session: Session) -> int:
    """Return the time that has to pass from the first to the last answer that names an id until it counts."""
    return min(session.discovery_interval_ms, ID_CONFLICT_MS_MAX)


def truncation_wait_ms(session: Session) -> int:
    """Return for how long a log has to end before its position until it counts as truncated."""
    return max(session.discovery_interval_ms, TRUNCATION_WAIT_MS_MIN)


def unsure_clusters(session: Session) -> Collection[str]:
    """Return the clusters of which every poll counts, best one of another broker; ascending."""
    return sorted(
        {
            *(key.cluster for key in session.truncation_observations),
            *(name for name, _ in session.id_conflicts),
            *(name for name, splits in session.former_leaders.items() if splits),
            *(name for (name, _), one in session.read_conflicts.items() if one.since_ms is not None),
        }
    )


def open_since_ms(session: Session) -> tuple[int, ...]:
    """Return since when it is open whether tasks skipped something: one time in ms since 1970 for each question.

    Partitions that were read are missing, or polls name two ids of a topic that was read.
    """
    conflicts = (one.since_ms for one in session.read_conflicts.values())
    return (*session.read_missing.values(), *(since_ms for since_ms in conflicts if since_ms is not None))


def next_due_ms(state: EnumeratorState) -> int | None:
    """Return when time alone may change `state`, in ms since 1970; None if it cannot.

    Then another complete listing removes something that is missing, another observation of a log that ends before its
    position makes that a loss, or a position has been retained for long enough. If that time has passed, a cluster does
    not answer: it is tried again after DUE_INTERVAL_MS.
    """
    session, now_ms = state.session, state.session.now_ms or 0
    # A cluster that is removed is not polled, so nothing is settled there until it is back.
    removed = {name for name, cluster in state.clusters.items() if cluster.removed_at_ms is not None}
    read_since = [since for key, since in session.read_missing.items() if key.cluster not in removed]
    due = [since + session.discovery_interval_ms for since in (*session.missing_since.values(), *read_since)]
    due.extend(seen.since_ms + truncation_wait_ms(session) for seen in session.truncation_observations.values())
    removed_at_ms = [
        *(split.removed_at_ms for split in state.splits.values()),
        *(cluster.removed_at_ms for cluster in state.clusters.values()),
    ]
    due.extend(at + state.settings.retention_ms for at in removed_at_ms if at is not None)
    return min((at if at > now_ms else now_ms + DUE_INTERVAL_MS for at in due), default=None)
