"""Takes what tasks tell of the records that they count, and the sink of what it has written, and keeps it by batch."""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evensplit.errors import line_of
from evensplit.spark.slots.answering import answerer
from evensplit.spark.task.receiving import CONNECTIONS_MAX, Receiver
from evensplit.spark.task.telling import Destination, Message, Sized, Told

if TYPE_CHECKING:
    from evensplit.explain.record_counts import RecordCounts
    from evensplit.explain.written import WriteReport

__all__ = ["CONNECTIONS_MAX", "TALLY", "Receiver", "Tally", "receive"]

log = logging.getLogger(__name__)

BATCHES_MAX = 12_000
"""How many batches are kept: more than there are events that wait to be explained."""

ENTRIES_MAX = 100_000
"""How many counts of clusters are kept; beyond it the oldest batches are forgotten, even if nobody has seen them."""

WRITERS_MAX = 1_000
"""Of how many queries reports of what was written are kept until somebody asks."""

REPORTS_MAX = 1_000
"""How many reports of one query are kept; then the oldest are forgotten."""

_LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class _Batch:
    tasks: int
    told: int = 0
    """A bit for each task that has told its counts."""
    clusters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As in `Told`."""


class Tally:
    """The sums of batches, each task once: attempts and copies of a task read the same. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[tuple[str, int], _Batch] = OrderedDict()
        self._entries = 0
        self._written: OrderedDict[str, deque[WriteReport]] = OrderedDict()

    def take(self, told: Message) -> None:
        """Add what a task, or the driver's side of a batch, tells."""
        if isinstance(told, Sized):
            # Not for this process.
            return
        if not isinstance(told, Told):
            self._keep(told)
            return
        key = (told.stream, told.revision)
        with self._lock:
            batch = self._batches.get(key)
            if batch is None:
                batch = self._batches[key] = _Batch(told.tasks)
            if told.tasks != batch.tasks or batch.told >> told.task & 1:
                return
            batch.told |= 1 << told.task
            self._entries -= len(batch.clusters)
            for name, (filtered, undecodable) in told.clusters.items():
                before = batch.clusters.get(name, (0, 0))
                batch.clusters[sys.intern(name)] = before[0] + filtered, before[1] + undecodable
            self._entries += len(batch.clusters)
            while len(self._batches) > BATCHES_MAX or (self._entries > ENTRIES_MAX and len(self._batches) > 1):
                self._entries -= len(self._batches.popitem(last=False)[1].clusters)

    def _keep(self, report: WriteReport) -> None:
        with self._lock:
            own = self._written.pop(report.query, None) or deque(maxlen=REPORTS_MAX)
            own.append(report)
            # In the order in which they were last heard of.
            self._written[report.query] = own
            if len(self._written) > WRITERS_MAX:
                self._written.popitem(last=False)

    def writes(self, query: str) -> bool:
        """Whether a query has told what it has written, and nobody has asked yet."""
        with self._lock:
            return query in self._written

    def written(self, query: str) -> tuple[WriteReport, ...]:
        """What a query, by its id, has written, in the order of its messages; it is then forgotten here."""
        with self._lock:
            return tuple(self._written.pop(query, ()))

    def pop(self, stream: str, revision: int, *, reads: Callable[[], bool] = lambda: True) -> RecordCounts | None:
        """The counts of a batch that is over, which are then forgotten; None if it does not count, which an empty
        `stream` says.

        `reads`: returns whether the batch has any task.
        """
        if not stream:
            return None
        # Who registers a session does not load what explains.
        from evensplit.explain.record_counts import Counted, RecordCounts

        with self._lock:
            batch = self._batches.pop((stream, revision), None)
            self._entries -= 0 if batch is None else len(batch.clusters)
        if batch is None:
            return RecordCounts({}, complete=not reads())
        return RecordCounts(
            {name: Counted(*counts) for name, counts in batch.clusters.items()},
            batch.told.bit_count() == batch.tasks,
        )


TALLY = Tally()
"""That of this process."""


def receive(context: Any, port: int) -> Destination | None:
    """Where the tasks of a session tell what they count; None where nothing can be received, which is logged.

    There is one receiver for each address, as long as the process lives.

    Args:
        context: the session's SparkContext; None, as under Spark Connect: executors need not reach this machine.
        port: where to listen; 0: any free port.
    """
    if context is None:
        return None
    try:
        bind, host = _addresses(context)
        with _lock:
            found = _receivers.get((bind, port))
            if found is None:
                found = _receivers[bind, port] = Receiver(TALLY, bind, host, port, answerer)
            return replace(found.destination, host=host)
    except Exception as error:
        log.warning("records that are left out, undecodable or written are not counted: %s", line_of(error))
        return None


_receivers: dict[tuple[str, int], Receiver] = {}
_lock = threading.Lock()


def _addresses(context: Any) -> tuple[str, str]:
    """Where the driver listens, and where executors reach it, as Spark's own settings say."""
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        return _LOOPBACK, _LOOPBACK
    conf = context.getConf()
    host = str(conf.get("spark.driver.host"))
    bind = str(conf.get("spark.driver.bindAddress", host))
    return bind.strip("[]"), host.strip("[]")
