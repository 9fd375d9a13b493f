"""Metrics for Prometheus: a collector over recorders, and the server that it is asked at.

Nothing here ever fails or holds up a query: what goes wrong is logged, and each request has a thread of its own.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evensplit.observe.metrics import METRICS, Names, samples
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.hosts import is_loopback, is_meant

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

REQUESTS_MAX = 8
"""So many requests are answered at a time; the connections of others are closed."""

TIMEOUT_S = 10.0
"""For so long is waited for the next bytes of a request, or until some of an answer are taken."""

DEADLINE_S = 30.0
"""So long a connection lasts at most, however often some bytes come: Prometheus itself gives a scrape 10 s."""


class EvenSplitCollector(Collector):
    """Asks for what is known each time that it is asked. Metrics of partitions are there only if they are wanted."""

    def __init__(self, recorders: Callable[[], Sequence[Recorder]], *, partitions: Callable[[], bool]) -> None:
        self._recorders = recorders
        self._partitions = partitions
        self._names = Names()

    def collect(self) -> Iterable[Metric]:
        """The metrics of `METRICS`, in their order."""
        partitions, recorders = self._partitions(), self._recorders()
        families = _families(partitions=partitions)
        watched = [one for recorder in recorders for one in recorder.watched()]
        begun = [one for recorder in recorders for one in recorder.begun()]
        for sample in samples(watched, begun, partitions=partitions, names=self._names):
            families[sample.name].add_metric([_text(label) for label in sample.labels], sample.value)
        return families.values()

    def describe(self) -> Iterable[Metric]:
        """The same without values, so that a scraper can ask for some by their names."""
        return _families(partitions=True).values()


def _families(*, partitions: bool) -> dict[str, CounterMetricFamily | GaugeMetricFamily]:
    return {
        one.name: (CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily)(
            one.name, one.help, labels=one.labels
        )
        for one in METRICS
        if partitions or not one.by_partition
    }


class MetricsServer:
    """Serves the metrics of recorders, for as long as these live, at `host` and `port`. Raises OSError if it cannot."""

    def __init__(self, host: str, port: int) -> None:
        self._lock = threading.Lock()
        self._recorders: list[ReferenceType[Recorder]] = []
        self._partitions = False
        registry = CollectorRegistry(auto_describe=False)
        registry.register(EvenSplitCollector(self._living, partitions=lambda: self._partitions))
        self._server = _Server(host, port)
        app = make_wsgi_app(registry)
        self._server.set_app(_for_this_machine(app) if is_loopback(str(self._server.server_address[0])) else app)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="evensplit-metrics", daemon=True).start()

    def watch(self, recorder: Recorder, *, partitions: bool) -> None:
        """Serve what `recorder` knows, too; with `partitions`, from now on those of all."""
        with self._lock:
            known = [one for one in self._recorders if one() is not None]
            self._recorders = known if any(one() is recorder for one in known) else [*known, ref(recorder)]
            self._partitions = self._partitions or partitions

    def watches(self, recorder: Recorder) -> bool:
        """Whether it serves what `recorder` knows."""
        with self._lock:
            return any(one() is recorder for one in self._recorders)

    def close(self) -> None:
        """End it; requests that are being answered are left to themselves."""
        self._server.shutdown()
        self._server.server_close()

    def _living(self) -> Sequence[Recorder]:
        with self._lock:
            return [found for one in self._recorders if (found := one()) is not None]


def serve(recorder: Recorder, port: int, host: str, *, partitions: bool = False) -> int | None:
    """Serve what `recorder` knows; returns the port, or None where that cannot be, which is logged as a warning.

    There is one server for each host and port of a process, whoever asks. Port 0 is any free one, the first time that
    it is asked for; then it is that.
    """
    with _lock:
        server = _servers.get((host, port))
        if port == 0:
            server = next((one for (at, _), one in _servers.items() if at == host and one.watches(recorder)), None)
        if server is None:
            try:
                server = MetricsServer(host, port)
            except OSError as error:
                log.warning(
                    "no metrics are served at %s, port %d: %s. Free the port (`ss -ltnp` says who has it), or set "
                    "metrics_port to another one, or to 0 for any free one. The queries run on without",
                    host,
                    port,
                    error.strerror or error,
                )
                return None
            _servers[host, server.port] = server
            log.info("metrics are served at %s, port %d", host, server.port)
        server.watch(recorder, partitions=partitions)
        return server.port


_servers: dict[tuple[str, int], MetricsServer] = {}
_lock = threading.Lock()


def _for_this_machine(app: WSGIApplication) -> WSGIApplication:
    """The same for those who call this machine by a name that only it has (see `hosts`)."""

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", ""))
        if is_meant(host):
            return app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        text = (
            f"These metrics are for this machine alone, and it is not known as {host[:260]!r}: ask http://127.0.0.1 or "
            "http://localhost with the port. To serve them to others, set metrics_host.\n"
        )
        return [text.encode("utf-8", "backslashreplace")]

    return guarded


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """A scrape is no news."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without looking up the machine's name, which can take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there are not too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer it, if it comes in time."""
        late = threading.Timer(DEADLINE_S, _cut_off, (request,))
        late.daemon = True
        try:
            late.start()
            super().process_request_thread(request, client_address)
        except RuntimeError:
            # There are no more threads; without a deadline nothing is answered.
            self.shutdown_request(request)
            log.debug("a request for metrics was not answered", exc_info=True)
        finally:
            late.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that has gone is no error."""
        log.debug("a request for metrics was not answered: %r", sys.exception())


def _cut_off(connection: socket.socket) -> None:
    """End it for the thread that waits for it."""
    # It may have ended a moment ago.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _text(label: str) -> str:
    """A label that can be written: names can have halves of characters in them."""
    return label.encode("utf-8", "backslashreplace").decode()
