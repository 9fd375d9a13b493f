"""Metrics for Prometheus: a collector over recorders, and the page that a scraper asks for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from weakref import ReferenceType, ref

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Scope

from evensplit.errors import PortError, line_of
from evensplit.observe.metric import Names
from evensplit.observe.metrics import METRICS, samples
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.server import Server, shared

log = logging.getLogger(__name__)

PATH = "/metrics"

SCRAPES_AT_ONCE_MAX = 2
"""Others wait for their turn: the driver has other things to do."""


class EvenSplitCollector(Collector):
    """Collects the samples of recorders at each scrape; with metrics of partitions if `partitions` says so."""

    def __init__(self, recorders: Callable[[], Sequence[Recorder]], *, partitions: Callable[[], bool]) -> None:
        self._recorders = recorders
        self._partitions = partitions
        self._names = Names()

    def collect(self) -> Iterable[Metric]:
        """The metrics of `METRICS`, in that order."""
        partitions, recorders = self._partitions(), self._recorders()
        families = _families(partitions=partitions)
        watched = [one for recorder in recorders for one in recorder.watched()]
        begun = [one for recorder in recorders for one in recorder.begun()]
        sinks = [one for recorder in recorders for one in recorder.sinks.all()]
        for sample in samples(watched, begun, sinks, partitions=partitions, names=self._names):
            families[sample.name].add_metric([_text(label) for label in sample.labels], sample.value)
        return families.values()

    def describe(self) -> Iterable[Metric]:
        """The same without values, so that a scraper can select metrics by name."""
        return _families(partitions=True).values()


def _families(*, partitions: bool) -> dict[str, CounterMetricFamily | GaugeMetricFamily]:
    return {
        one.name: (CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily)(
            one.name, one.help, labels=one.labels
        )
        for one in METRICS
        if partitions or not one.by_partition
    }


class Metrics:
    """The metrics of recorders, for as long as these live, at `PATH`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorders: list[ReferenceType[Recorder]] = []
        self._partitions = False
        self._slots = asyncio.Semaphore(SCRAPES_AT_ONCE_MAX)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(EvenSplitCollector(self._living, partitions=lambda: self._partitions))
        self._app = make_asgi_app(registry)
        self.routes = (Route(PATH, self._scrape, methods=["GET"]),)

    def watch(self, recorder: Recorder, *, partitions: bool) -> None:
        """Add `recorder`. With `partitions`, from now on all partitions have series, those of other recorders too."""
        with self._lock:
            known = [one for one in self._recorders if one() is not None]
            self._recorders = known if any(one() is recorder for one in known) else [*known, ref(recorder)]
            self._partitions = self._partitions or partitions

    def watches(self, recorder: Recorder) -> bool:
        """Whether it shows `recorder`."""
        return any(one is recorder for one in self._living())

    async def _scrape(self, request: Request) -> Response:
        async with self._slots:
            start, body = await run_in_threadpool(self._answer, request.scope)
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Response(body["body"], start["status"], headers)

    def _answer(self, scope: Scope) -> Sequence[Message]:
        """The answer of the client's own application, which computes all of it before it awaits anything."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self._app(scope, receive, send))
        return sent

    def _living(self) -> Sequence[Recorder]:
        with self._lock:
            return [found for one in self._recorders if (found := one()) is not None]


def serve(
    recorder: Recorder, port: int, host: str, *, partitions: bool = False, token: str | None = None
) -> int | None:
    """Serve the metrics of `recorder` at `host`. Return the port, or None and log a warning if that cannot be.

    The process has one server for each host and port, for the dashboard and for metrics of all sessions. Port 0 is any
    free one; asked for again for the same recorder, it is the same. `token`: what a scraper has to send.
    """
    with _lock:
        known = (one for one, metrics in _served.items() if one.asked[0] == host and metrics.watches(recorder))
        try:
            server = (next(known, None) if port == 0 else None) or shared(host, port, token)
        except PortError as error:
            log.warning("no metrics: %s. The queries run on without them", line_of(error))
            return None
        if server not in _served:
            metrics = _served[server] = Metrics()
            server.add(*metrics.routes)
            asked = "" if server.token is None else "; they ask for the dashboard's token"
            log.info("the metrics are at %s%s%s", server.url, PATH.lstrip("/"), asked)
        _served[server].watch(recorder, partitions=partitions)
        return server.port


_served: dict[Server, Metrics] = {}
_lock = threading.Lock()


def _text(label: str) -> str:
    """The label in a form that can be encoded: names can have lone surrogates."""
    return label.encode("utf-8", "backslashreplace").decode()
