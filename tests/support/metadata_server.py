"""An HTTP server in this process, for metadata services: it answers as the test says, and remembers the requests."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

CERTIFICATE = Path(__file__).resolve().parents[1] / "data" / "tls" / "localhost.pem"
"""A self-signed certificate of localhost and 127.0.0.1, with its key."""

Respond = Callable[["Exchange"], None]


class Exchange(BaseHTTPRequestHandler):
    """One request, and how to answer it."""

    server: Server
    body = b""

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """A whole answer. A Content-Length among `headers` is sent instead of the right one."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def trickle(self, data: bytes) -> None:
        """`data` again and again, a byte at a time, for 30 s or until the client has gone or the server is closed."""
        for place in range(1500):
            if self.server.closing.wait(0.02):
                return
            self.wfile.write(data[place % len(data) :][:1])

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        try:
            self.server.respond(self)
        except OSError:
            # The client has gone, as it should when the answer never ends.
            self.server.left.set()

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.bodies.append(self.body)
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        return


class Server(ThreadingHTTPServer):
    """Answers on 127.0.0.1 with `respond`, which can be changed at any time. `requests`: paths and headers; `bodies`:
    of those that have one."""

    daemon_threads = True

    def __init__(self, respond: Respond, *, tls: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.respond = respond
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.closing = threading.Event()
        self.left = threading.Event()
        self._scheme = "https" if tls else "http"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def url(self, path: str = "/fleet", host: str = "127.0.0.1") -> str:
        """The address of `path` here."""
        return f"{self._scheme}://{host}:{self.server_port}{path}"

    def handle_error(self, *_: Any) -> None:
        # A client that does not trust the certificate ends the handshake, which is no matter of the server's.
        self.left.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
