"""The listener that Spark has: it keeps what it hears, as Spark gives it, until somebody asks what it means.

Explaining a batch of 10,000 partitions takes a tenth of what the query takes for it, in the user's process. So nothing
is read from an event, or loaded, before it is asked for.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary, ref

from pyspark.sql import SparkSession
from pyspark.sql.streaming import listener as events
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.errors import line_of
from evensplit.spark.listen.registration import Registration
from evensplit.spark.listen.tally import TALLY

if TYPE_CHECKING:
    from evensplit.spark.listen.listener import Listener

log = logging.getLogger(__name__)

STARTED, PROGRESS, IDLE, TERMINATED = "Started", "Progress", "Idle", "Terminated"
"""The kinds of events, as Spark names them."""

EVENTS_MAX = 110
"""How many events of a query are kept: its last 100 batches, and when it started, was idle and ended."""

QUERIES_MAX = 100
"""Of how many queries: those that have ended go first, then those not heard of for longest."""

ENDED_MAX = 20
"""Of how many that have ended. At 10,000 partitions, each takes 30 MB."""


TOLD_WITHIN_S = 2.0
"""How long a process that ends waits at most to hear that its queries have ended."""


class Heard(NamedTuple):
    """One event.

    `number`: they are explained in this order. `at_ms`: when it was heard. `event`: of PySpark, or still in the JVM.
    """

    number: int
    kind: str
    at_ms: int
    event: Any


class JvmListener:
    """What the JVM calls: takes an event without reading it over the wire, which takes 30 ms at 10,000 partitions."""

    def __init__(self, hear: Callable[[str, str, Any], None]) -> None:
        self._hear = hear

    def onQueryStarted(self, event: Any) -> None:
        """A query was started, and waits for this."""
        self._hear(STARTED, event.id().toString(), event)

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done."""
        self._hear(PROGRESS, event.progress().id().toString(), event)

    def onQueryIdle(self, event: Any) -> None:
        """A query has nothing to read."""
        self._hear(IDLE, event.id().toString(), event)

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""
        self._hear(TERMINATED, event.id().toString(), event)

    class Java:
        """For Py4J."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class DeferredListener(StreamingQueryListener):
    """Hands events to a `Listener`, which explains them: when somebody asks, or at once as soon as somebody watches."""

    def __init__(self, queries: Callable[[], Iterable[StreamingQuery]] = tuple) -> None:
        """`queries`: returns the running queries of the session."""
        self.registration = Registration(self)
        self._queries = queries
        self._adding: threading.Thread | None = None
        self._lock = threading.Lock()
        self._explaining = threading.RLock()
        self._numbers = itertools.count()
        self._heard: dict[str, deque[Heard]] = {}
        self._listener: Listener | None = None
        self._explains_at_once = False
        self._catches_up = False
        self._in_jvm: Any = None
        self._running: set[str] = set()
        self._ended = threading.Condition()

    def add_to(self, spark: SparkSession, refused: Callable[[], None]) -> None:
        """Begin to add it to a session. If Spark refuses it, that is logged, and `refused` is called.

        It takes a thread, as the JVM loads classes for that for 0.3 s. A daemon: Spark Connect starts a thread for its
        listeners, which inherits that. Otherwise a program that ends without `spark.stop()` is held up by it, until it
        breaks with a warning that all listeners are gone.
        """

        def add() -> None:
            try:
                spark.streams.addListener(self)
            except Exception as error:
                log.warning("no batch can be explained, since Spark refused the listener: %s", error)
                refused()
                return
            if getattr(spark, "_sc", None) is not None:
                atexit.register(self._remove_from, spark)

        self._adding = threading.Thread(target=add, name="evensplit-listen", daemon=True)
        self._adding.start()

    def _remove_from(self, spark: SparkSession) -> None:
        """End before the process does: Spark logs an error with a stack for each event that nobody takes any more.

        That a query has ended is told a moment after `awaitTermination` has returned, so that is waited for.
        """
        if getattr(spark.sparkContext, "_jsc", None) is None:
            # It was stopped, and tells nothing any more.
            return
        try:
            active = {str(query.id) for query in spark.streams.active}
            with self._ended:
                self._ended.wait_for(lambda: self._running <= active, timeout=TOLD_WITHIN_S)
            spark.streams.removeListener(self)
        except Exception as error:
            log.debug("the session has ended before its listener: %s", error)

    def wait(self) -> None:
        """Wait until the session has it, so that no batch is missed from now on."""
        if self._adding is not None:
            self._adding.join()

    @property
    def _jlistener(self) -> Any:
        """The listener in the JVM, by PySpark's name for it; one that reads no event."""
        if self._in_jvm is None:
            from pyspark import SparkContext

            jvm: Any = getattr(SparkContext, "_jvm")  # noqa: B009
            self._in_jvm = jvm.PythonStreamingQueryListenerWrapper(JvmListener(self.hear))
        return self._in_jvm

    def onQueryStarted(self, event: events.QueryStartedEvent) -> None:
        """Hear it from PySpark, as under Spark Connect."""
        self.hear(STARTED, str(event.id), event)

    def onQueryProgress(self, event: events.QueryProgressEvent) -> None:
        """Hear it from PySpark."""
        self.hear(PROGRESS, str(event.progress.id), event)

    def onQueryIdle(self, event: events.QueryIdleEvent) -> None:
        """Hear it from PySpark."""
        self.hear(IDLE, str(event.id), event)

    def onQueryTerminated(self, event: events.QueryTerminatedEvent) -> None:
        """Hear it from PySpark."""
        self.hear(TERMINATED, str(event.id), event)

    def hear(self, kind: str, query: str, event: Any) -> None:
        """Keep an event of the query with this id, or explain it if somebody watches. Never raises."""
        at_ms = round(time.time() * 1000)
        if kind == STARTED:
            with self._ended:
                self._running.add(query)
        with self._lock:
            one, at_once = Heard(next(self._numbers), kind, at_ms, event), self._explains_at_once
            if not at_once:
                self._keep(query, one)
        if at_once:
            self._explain(one)
        elif kind == TERMINATED:
            self._read_all(query)
        if kind == TERMINATED:
            with self._ended:
                self._running.discard(query)
                self._ended.notify_all()

    def catch_up(self) -> None:
        """Explain all that has been heard. Whoever is told of it may ask for more."""
        with self._explaining:
            if self._catches_up:
                return
            self._catches_up = True
            try:
                # No query that starts has to wait until all is explained.
                with self._lock:
                    heard, self._heard = self._heard, {}
                for one in sorted(itertools.chain.from_iterable(heard.values())):
                    self._explain(one, late=True)
            finally:
                self._catches_up = False

    def explain_at_once(self) -> None:
        """Catch up, and explain every event as it comes from now on."""
        with self._explaining:
            self.catch_up()
            with self._lock:
                self._explains_at_once = True
            # What was heard meanwhile.
            self.catch_up()

    def _keep(self, query: str, one: Heard) -> None:
        own = self._heard.pop(query, None) or deque(maxlen=EVENTS_MAX)
        if own and own[-1].kind == IDLE and one.kind in (IDLE, PROGRESS):
            # What comes after it has all that it had.
            own.pop()
        own.append(one)
        # In the order in which they were last heard of.
        self._heard[query] = own
        has_ended = {known: heard[-1].kind == TERMINATED for known, heard in self._heard.items()}
        too_many = max(sum(has_ended.values()) - ENDED_MAX, len(has_ended) - QUERIES_MAX, 0)
        for known in sorted(has_ended, key=has_ended.__getitem__, reverse=True)[:too_many]:
            del self._heard[known]

    def _read_all(self, query: str) -> None:
        """Read the events of a query that has ended: the JVM may be gone when somebody asks.

        If it had batches of other sources only, and has not told of what it writes, they are dropped.
        """
        with self._lock:
            own = list(self._heard.get(query, ()))
        read: dict[int, Heard] = {}
        for one in own:
            with suppress(Exception):
                # What cannot be read now is said when it is explained.
                read[one.number] = one._replace(event=_read(one.kind, one.event))
        is_read = len(read) == len(own) and not TALLY.writes(query)
        is_other = is_read and _is_of_other_sources([one.event for one in read.values()])
        with self._lock:
            heard = self._heard.pop(query, ())
            now = [read.get(one.number, one) for one in heard if not (is_other and one.number in read)]
            if now:
                self._heard[query] = deque(now, maxlen=EVENTS_MAX)

    def _explain(self, one: Heard, *, late: bool = False) -> None:
        """Hand an event to the listener that explains it. `late`: long after it came."""
        with self._explaining:
            if self._listener is None:
                from evensplit.spark.listen.listener import Listener

                self._listener = Listener(self._queries, self.registration)
            listener = self._listener
        try:
            event = _read(one.kind, one.event)
        except Exception as error:
            log.info("an event of a query cannot be read any more: %s", line_of(error))
            return
        try:
            listener.hear(event, one.at_ms, late=late)
        except Exception as error:
            log.warning("an event of a query cannot be explained: %s", line_of(error))


def _read(kind: str, event: Any) -> Any:
    """The event as PySpark's object."""
    of_spark: Any = getattr(events, f"Query{kind}Event")
    if isinstance(event, of_spark):
        return event
    return _progress_of(event.progress()) if kind == PROGRESS else of_spark.fromJObject(event)


def _progress_of(batch: Any) -> events.QueryProgressEvent:
    """The event of a batch in the JVM, with what explains it.

    Each value is a call over the wire: reading all of them takes 20 ms here, and 60 ms of the JVM's processor.
    """
    sources = [
        events.SourceProgress(
            description="",
            startOffset=source.startOffset(),
            endOffset=source.endOffset(),
            latestOffset=source.latestOffset(),
            numInputRows=source.numInputRows(),
            inputRowsPerSecond=0.0,
            processedRowsPerSecond=0.0,
            metrics={},
        )
        for source in batch.sources()
    ]
    return events.QueryProgressEvent(
        events.StreamingQueryProgress(
            id=UUID(batch.id().toString()),
            runId=UUID(batch.runId().toString()),
            name=batch.name(),
            timestamp=batch.timestamp(),
            batchId=batch.batchId(),
            batchDuration=batch.batchDuration(),
            durationMs={},
            eventTime={},
            stateOperators=[],
            sources=sources,
            sink=events.SinkProgress("", 0, {}),
            numInputRows=None,
            inputRowsPerSecond=None,
            processedRowsPerSecond=None,
            observedMetrics={},
        )
    )


def _is_of_other_sources(heard: Iterable[Any]) -> bool:
    """Whether there are batches among the events, and none has an offset that names this package."""
    from evensplit.core.state.codec import SIGNATURE

    batches = [one.progress for one in heard if isinstance(one, events.QueryProgressEvent)]
    ends = (source["endOffset"] for batch in batches for source in batch.sources)
    return bool(batches) and not any(SIGNATURE in str(end) for end in ends)


def listen(spark: SparkSession) -> DeferredListener:
    """The listener of `spark`. The first call begins to add it; if Spark refuses it, the next call tries again."""
    key = _key(spark)

    def forget() -> None:
        with _lock:
            _listeners.pop(key, None)

    with _lock:
        found = _listeners.get(key)
        if found is None:
            session = ref(spark)
            found = DeferredListener(lambda: () if (known := session()) is None else known.streams.active)
            _listeners[key] = found
            found.add_to(spark, forget)
        return found


# A listener lives as long as Spark has it, which is as long as its session.
_listeners: WeakValueDictionary[str, DeferredListener] = WeakValueDictionary()
_lock = threading.Lock()


def _key(spark: SparkSession) -> str:
    """The session itself: there can be several objects for it in Python."""
    session = getattr(spark, "_jsparkSession", None)
    return str(spark.session_id if session is None else session.sessionUUID())  # type: ignore[attr-defined]
