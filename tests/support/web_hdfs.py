"""A server that speaks WebHDFS as HDFS does, with files in memory: name node and data node in one.

Source: Hadoop's WebHDFS REST API; for renames with options, NamenodeWebHdfsMethods and FSDirRenameOp.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = "/webhdfs/v1"


class Refused(Exception):
    """What a Java exception says: its name, its message."""


class NameNode(ThreadingHTTPServer):
    """Files: path -> bytes and when they were written (ms). Directories are there by themselves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, tuple[bytes, int]] = {}
        self.directories = {"/"}
        self.lock = threading.RLock()

    @property
    def address(self) -> str:
        """Its URL, for a checkpoint."""
        return f"webhdfs://127.0.0.1:{self.server_port}"

    def status(self, path: str) -> dict[str, Any]:
        """What it says of a file or directory."""
        if path in self.files:
            data, written_ms = self.files[path]
            return {"type": "FILE", "length": len(data), "modificationTime": written_ms}
        if path not in self.directories:
            raise Refused("FileNotFoundException", f"File does not exist: {path}")
        return {"type": "DIRECTORY", "length": 0, "modificationTime": 0}

    def children(self, path: str) -> list[str]:
        """The names in a directory."""
        below = f"{path.rstrip('/')}/"
        every = {*self.files, *self.directories} - {"/"}
        return sorted(
            one.removeprefix(below) for one in every if one.startswith(below) and "/" not in one[len(below) :]
        )

    def write(self, path: str, data: bytes) -> None:
        """Let a file be there, and the directories that it is in."""
        self.files[path] = data, time.time_ns() // 1_000_000
        self.make(path.rpartition("/")[0])

    def make(self, path: str) -> None:
        """Let a directory be there."""
        while path and path not in self.directories:
            if path in self.files:
                raise Refused("FileAlreadyExistsException", f"{path} is a file")
            self.directories.add(path)
            path = path.rpartition("/")[0]

    def rename(self, path: str, target: str, options: str | None) -> bool:
        """Without options, as users of old know it; with them, strictly."""
        taken = target in self.files or target in self.directories
        if options is None:
            if target in self.directories:
                target, taken = f"{target}/{path.rpartition('/')[2]}", False
            if taken or target.rpartition("/")[0] not in self.directories:
                return False
        elif taken and not (options == "OVERWRITE" and target in self.files):
            raise Refused("FileAlreadyExistsException", f"rename destination {target} already exists")
        self.status(path)
        for known in [one for one in self.files if one == path or one.startswith(f"{path}/")]:
            self.files[target + known.removeprefix(path)] = self.files.pop(known)
        for known in [one for one in self.directories if one == path or one.startswith(f"{path}/")]:
            self.directories.remove(known)
            self.directories.add(target + known.removeprefix(path))
        return True

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Remove a file, or a directory."""
        if path not in self.files and path not in self.directories:
            return False
        if self.children(path) and not recursive:
            raise Refused("PathIsNotEmptyDirectoryException", f"{path} is non empty")
        for known in [one for one in self.files if one == path or one.startswith(f"{path}/")]:
            del self.files[known]
        self.directories = {one for one in self.directories if one != path and not one.startswith(f"{path}/")}
        return True


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: NameNode
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path).removeprefix(ROOT) or "/"
        try:
            with self.server.lock:
                self._answer(path.rstrip("/") or "/", asked, body)
        except Refused as error:
            name, message = error.args
            said = json.dumps({"RemoteException": {"exception": name, "message": message}})
            self._send(404 if name == "FileNotFoundException" else 403, said.encode())

    def _answer(self, path: str, asked: dict[str, str], body: bytes) -> None:
        node, op = self.server, asked["op"]
        if op in ("OPEN", "CREATE", "APPEND") and "datanode" not in asked:
            if op == "OPEN":
                node.status(path)
            self._send(307, b"", f"http://127.0.0.1:{node.server_port}{self.path}&datanode=1")
        elif op == "OPEN":
            begin = int(asked.get("offset", 0))
            self._send(200, node.files[path][0][begin : begin + int(asked["length"])])
        elif op == "CREATE":
            node.write(path, body)
            self._send(201, b"")
        elif op == "APPEND":
            node.write(path, node.files[path][0] + body)
            self._send(200, b"")
        elif op == "GETFILESTATUS":
            self._json({"FileStatus": {**node.status(path), "pathSuffix": ""}})
        elif op == "LISTSTATUS":
            names = [""] if node.status(path)["type"] == "FILE" else node.children(path)
            found = [{**node.status(f"{path.rstrip('/')}/{name}".rstrip("/")), "pathSuffix": name} for name in names]
            self._json({"FileStatuses": {"FileStatus": found}})
        elif op == "MKDIRS":
            node.make(path)
            self._json({"boolean": True})
        elif op == "RENAME":
            self._json({"boolean": node.rename(path, asked["destination"], asked.get("renameoptions"))})
        elif op == "DELETE":
            self._json({"boolean": node.delete(path, recursive=asked.get("recursive") == "true")})
        else:
            raise Refused("UnsupportedOperationException", f"{op} is not known")

    def _json(self, document: object) -> None:
        self._send(200, json.dumps(document).encode())

    def _send(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def web_hdfs() -> Iterator[NameNode]:
    """A server for as long as it takes."""
    with NameNode() as node:
        thread = threading.Thread(target=node.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield node
        finally:
            node.shutdown()
            thread.join()
