"""An enumerator whose tasks may have skipped records, and the polls that say so."""

from __future__ import annotations

from evensplit.core.machine.effects import ReportLoss
from evensplit.core.machine.events import (
    NOW,
    BatchOpened,
    BatchPlanned,
    Event,
    ReadLogsPolled,
    TimePassed,
)
from evensplit.core.model import Cause, HandedOut, Loss, SplitId
from evensplit.core.state.settings import DECLARE
from tests.support.enumeration import ONE, TWO, Enumeration, running

EARLIER, BEFORE_RESTART = HandedOut.EARLIER, HandedOut.BEFORE_RESTART
GONE = Loss(TWO, Cause.DELETED, 10, None, 20, EARLIER)


def reading(loss: str = DECLARE) -> Enumeration:
    """A batch is being read of three partitions: 10 offsets of the first, 20 of the second, none of the third."""
    one = running(3, 1, loss=loss)
    one.tell(BatchOpened(), BatchPlanned({ONE: 20, TWO: 30}))
    return one


def has_read() -> Enumeration:
    """The same when it has been read; 5 polls have been sent by then, and the next batch is open."""
    one = reading()
    one.tell(BatchOpened(polls=5))
    return one


def polled(
    *starts: int | None, number: int = 6, topic_id: str = "id-t", complete: bool = True, turned: bool = True
) -> ReadLogsPolled:
    """Partitions from 0 on are listed, and begin there; None: the leader does not say."""
    keys = [SplitId("east", "t", partition) for partition in range(len(starts))]
    found = {key: start for key, start in zip(keys, starts, strict=True) if start is not None}
    asked = NOW._replace(turned=turned)
    return ReadLogsPolled("east", dict.fromkeys(keys, topic_id), found, number, number if complete else 0, asked)


def lost(one: Enumeration, *events: Event) -> list[Loss]:
    """What is lost by `events`; none of it ends the run."""
    reports = [effect for effect in one.tell(*events) if isinstance(effect, ReportLoss)]
    assert not any(report.fatal for report in reports)
    return [report.loss for report in reports]


def at(seconds: float) -> TimePassed:
    """So many seconds after `running`."""
    return TimePassed(1000 + int(1000 * seconds))


def aged(key: SplitId, position: int, start: int, size: int, handed_out: HandedOut = EARLIER) -> Loss:
    return Loss(key, Cause.AGED_OUT, position, start, size, handed_out)
