"""The listener that Spark has: it keeps what it hears, as Spark gives it, until somebody asks what it means.

Explaining a batch of 10,000 partitions takes a tenth of what the query takes for it, in the user's process. So nothing
is read from an event, or loaded, before it is asked for.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary, ref

from pyspark.sql import SparkSession
from pyspark.sql.streaming import listener as events
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.errors import line_of
from evensplit.spark.listen.registration import Registration

if TYPE_CHECKING:
    from evensplit.spark.listen.listener import Listener

log = logging.getLogger(__name__)

STARTED, PROGRESS, IDLE, TERMINATED = "Started", "Progress", "Idle", "Terminated"
"""The kinds of events, as Spark names them."""

EVENTS_MAX = 110
"""How many events of a query are kept: its last 100 batches, and when it started and ended."""

QUERIES_MAX = 100
"""Of how many queries, those that were heard of last."""


class Heard(NamedTuple):
    """One event. `number`: they are explained in this order. `event`: of PySpark, or still in the JVM."""

    number: int
    kind: str
    event: Any


class Ears:
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
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._heard: dict[str, deque[Heard]] = {}
        self._listener: Listener | None = None
        self._explains_at_once = False
        self._catches_up = False
        self._in_jvm: Any = None

    @property
    def _jlistener(self) -> Any:
        """The listener in the JVM, by PySpark's name for it; one that reads no event."""
        if self._in_jvm is None:
            from pyspark import SparkContext

            jvm: Any = getattr(SparkContext, "_jvm")  # noqa: B009
            self._in_jvm = jvm.PythonStreamingQueryListenerWrapper(Ears(self.hear))
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
        """Keep an event of the query with this id, or explain it if somebody watches."""
        with self._lock:
            if not self._explains_at_once:
                self._keep(kind, query, event)
                return
        # Outside of the lock: whoever is told may ask for more, from any thread.
        self._explain(kind, event)

    def catch_up(self) -> None:
        """Explain all that has been heard."""
        with self._lock:
            if self._catches_up:
                return
            self._catches_up = True
            try:
                heard = sorted(itertools.chain.from_iterable(self._heard.values()), key=lambda one: one.number)
                self._heard.clear()
                for one in heard:
                    self._explain(one.kind, one.event)
            finally:
                self._catches_up = False

    def explain_at_once(self) -> None:
        """Catch up, and explain every event as it comes from now on."""
        with self._lock:
            self.catch_up()
            self._explains_at_once = True

    def _keep(self, kind: str, query: str, event: Any) -> None:
        own = self._heard.pop(query, None) or deque(maxlen=EVENTS_MAX)
        if kind == IDLE and own and own[-1].kind == IDLE:
            # Each one has all of the one before.
            own.pop()
        if kind == TERMINATED:
            # The JVM may be gone when somebody asks.
            own = deque((one._replace(event=_read(one.kind, one.event)) for one in own), maxlen=EVENTS_MAX)
            event = _read(kind, event)
        own.append(Heard(next(self._numbers), kind, event))
        # In the order in which they were last heard of.
        self._heard[query] = own
        if len(self._heard) > QUERIES_MAX:
            del self._heard[next(iter(self._heard))]

    def _explain(self, kind: str, event: Any) -> None:
        if self._listener is None:
            from evensplit.spark.listen.listener import Listener

            self._listener = Listener(self._queries, self.registration)
        try:
            found = _read(kind, event)
        except Exception as error:
            log.info("an event of a query cannot be read any more: %s", line_of(error))
            return
        getattr(self._listener, f"onQuery{kind}")(found)


def _read(kind: str, event: Any) -> Any:
    """The event as PySpark's object."""
    of_spark: Any = getattr(events, f"Query{kind}Event")
    return event if isinstance(event, of_spark) else of_spark.fromJObject(event)


def listen(spark: SparkSession) -> Registration:
    """The registration of `spark`. The first call adds its listener, which `Registration.wait` waits for."""
    key = _key(spark)
    with _lock:
        known = _listeners.get(key)
        if known is not None:
            return known.registration
        session = ref(spark)
        listener = DeferredListener(lambda: () if (found := session()) is None else found.streams.active)
        _listeners[key] = listener
        listener.registration.adding = _add(spark, listener, key)
        return listener.registration


# A listener lives as long as Spark has it, which is as long as its session.
_listeners: WeakValueDictionary[str, DeferredListener] = WeakValueDictionary()
_lock = threading.Lock()


def _add(spark: SparkSession, listener: DeferredListener, key: str) -> threading.Thread:
    """Add the listener, in a daemon thread. If Spark refuses it, that is logged, and the next call tries again.

    The JVM loads classes for that for 0.3 s. Spark Connect starts a thread for its listeners, which inherits that this
    one is a daemon; otherwise a program that ends without `spark.stop()` is held up by it, until it breaks with a
    warning that all listeners are gone.
    """

    def add() -> None:
        try:
            spark.streams.addListener(listener)
        except Exception as error:
            log.warning("no batch can be explained, since Spark refused the listener: %s", error)
            with _lock:
                _listeners.pop(key, None)

    thread = threading.Thread(target=add, name="evensplit-listen", daemon=True)
    thread.start()
    return thread


def _key(spark: SparkSession) -> str:
    """The session itself: there can be several objects for it in Python."""
    session = getattr(spark, "_jsparkSession", None)
    return str(spark.session_id if session is None else session.sessionUUID())  # type: ignore[attr-defined]
