"""Answers like the API server of a Kubernetes cluster, as far as `spark-submit` asks, and keeps what it is sent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class ApiServer:
    """Takes everything that is created, and starts nothing. `created`: what it was sent, by kind."""

    def __init__(self) -> None:
        self.created: dict[str, list[dict[str, Any]]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def _take(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        _, _, below = path.partition("/namespaces/")
        given = {"namespace": below.partition("/")[0], "uid": f"uid-{sent['kind']}", "resourceVersion": "1"}
        sent["metadata"] = given | sent["metadata"]
        self.created.setdefault(sent["kind"], []).append(sent)
        return sent

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self._answer(201, take(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

            do_PATCH = do_POST  # noqa: N815

            def do_GET(self) -> None:
                self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

            def _answer(self, code: int, what: dict[str, Any]) -> None:
                body = json.dumps(what).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
