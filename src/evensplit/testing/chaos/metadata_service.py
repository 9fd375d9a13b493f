"""The metadata service of a run: it says which clusters and topics are to be read, and can be down, slow and wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.events import ClusterNamed, ClusterRemoved
from evensplit.testing.chaos.history.recorder import Recorder

if TYPE_CHECKING:
    from evensplit.testing.chaos.workload.workload import Workload

STREAM = "chaos"
LIES: Mapping[str, tuple[int, bytes]] = {
    "an internal error": (500, b"internal error"),
    "a page of HTML": (200, b"<html><body>Please log in</body></html>"),
    "half a document": (200, b'[{"streamId": "chaos", "clusterMetadataList": [{"clusterId": "ea'),
    "numbers for names": (200, b'[{"streamId": 7, "clusterMetadataList": "none"}]'),
    "nothing": (200, b""),
    "a cluster without servers": (
        200,
        b'[{"streamId": "chaos", "clusterMetadataList": [{"clusterId": "east", "topics": ["orders"]}]}]',
    ),
}
"""Answers that say nothing about clusters, and must not be taken as if they did: status and body."""


class MetadataService:
    """An HTTP server on 127.0.0.1, for as long as the `with` block lasts.

    It lists each cluster with the topics that the workload has there, those that are deleted for a while, too. Safe to
    use from several threads.
    """

    def __init__(self, recorder: Recorder, clusters: Mapping[str, ChaosCluster], workload: Workload) -> None:
        self.is_down = False
        """Connections are closed without an answer."""
        self.slow_s = 0.0
        """How long each answer takes."""
        self.lie = ""
        """One of `LIES`, which is answered instead of the document; empty: none."""
        self.asked = 0
        """How often it was asked."""
        self._recorder = recorder
        self._clusters = clusters
        self._workload = workload
        self._lock = threading.Lock()
        self._listed: dict[str, str] = {name: name for name in clusters}
        """Name in the metadata -> the cluster that has it."""
        self._document = b"[]"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        for name, cluster in self._listed.items():
            self._recorder.record(ClusterNamed(cluster=cluster, name=name))
        self.publish()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}/clusters"

    def options(self) -> dict[str, str]:
        """The options with which the source reads what it lists."""
        files = [
            path
            for cluster in self._clusters.values()
            if (path := cluster.source_properties().get("ssl.truststore.location"))
        ]
        return {"metadata": self.url, "metadata.allow": ",".join(files), "metadataTimeout": "5s"}

    def publish(self) -> None:
        """List the clusters as they are now: with their servers, topics and logins."""
        with self._lock:
            listed = [
                {
                    "clusterId": name,
                    "bootstrapServers": self._clusters[cluster].servers,
                    "topics": [topic.name for topic in self._workload.topics(cluster)],
                    "properties": self._clusters[cluster].source_properties(),
                }
                for name, cluster in self._listed.items()
            ]
            self._document = json.dumps([{"streamId": STREAM, "clusterMetadataList": listed}]).encode()

    def rename(self, cluster: str, name: str) -> None:
        """List a cluster under this name alone from now on, also if it was not listed."""
        self._list(cluster, name, instead=True)

    def list_again(self, cluster: str, name: str) -> None:
        """List a cluster under one more name from now on."""
        self._list(cluster, name, instead=False)

    def remove(self, *clusters: str) -> None:
        """List some clusters no longer."""
        with self._lock:
            self._listed = {name: one for name, one in self._listed.items() if one not in clusters}
        for cluster in clusters:
            self._recorder.record(ClusterRemoved(cluster=cluster))
        self.publish()

    def _list(self, cluster: str, name: str, *, instead: bool) -> None:
        # Recorded first: rows may have the name as soon as it is listed.
        self._recorder.record(ClusterNamed(cluster=cluster, name=name))
        with self._lock:
            others = {its: one for its, one in self._listed.items() if not instead or one != cluster}
            self._listed = {**others, name: cluster}
        self.publish()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked += 1
                if service.is_down:
                    self.close_connection = True
                    return
                time.sleep(service.slow_s)
                status, body = LIES[service.lie] if service.lie else (200, service._document)
                # A client that has waited for long enough has gone.
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        return Handler
