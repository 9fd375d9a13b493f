"""Responses of a real broker, recorded as bytes and replayed.

A file holds the responses to one kind of request in one version, each after its length and without its correlation id.
The addresses in them have port 9092; a replaying broker puts its own in their place.
"""

from __future__ import annotations

import socket
import socketserver
import struct
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from evensplit.kafka.wire.api import (
    API_VERSIONS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tests.support.scripted import Serving

NAMES = {
    api.key: api.name
    for api in (
        API_VERSIONS,
        METADATA,
        LIST_OFFSETS,
        FETCH,
        FIND_COORDINATOR,
        OFFSET_FETCH,
        OFFSET_COMMIT,
        DESCRIBE_LOG_DIRS,
    )
}
_PORT = 9092


def _place(port: int) -> bytes:
    """An address as Metadata (before version 9) and FindCoordinator (before version 3) write it."""
    host = b"127.0.0.1"
    return struct.pack(">h", len(host)) + host + struct.pack(">i", port)


class Replay:
    """A broker that replays the responses in `directory`, each kind in the order in which they were recorded.

    Where there are no more, it gives the last one again. `asked`: the requests, by name and version.
    """

    def __init__(self, directory: Path) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = {file.stem: _read(file) for file in directory.glob("*.bin")}
        self._given: defaultdict[str, int] = defaultdict(int)
        self._server = ""
        replay = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10

            def handle(self) -> None:
                with suppress(OSError):
                    while prefix := self.rfile.read(4):
                        request = self.rfile.read(*struct.unpack(">i", prefix))
                        key, version, number = struct.unpack(">hhi", request[:8])
                        body = replay.answer(key, version)
                        self.wfile.write(struct.pack(">ii", len(body) + 4, number) + body)

        self._serving = Serving(Handler)

    def __enter__(self) -> str:
        self._server = self._serving.__enter__()
        return self._server

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__()

    def answer(self, key: int, version: int) -> bytes:
        self.asked.append((NAMES[key], version))
        name = f"{NAMES[key]}-v{version}"
        listed = self._answers[name]
        number = min(self._given[name], len(listed) - 1)
        self._given[name] += 1
        return listed[number].replace(_place(_PORT), _place(int(self._server.rpartition(":")[2])))


class Recorder:
    """A proxy for a broker at `target` that records its responses. `save` writes them to files."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._answers: defaultdict[str, list[bytes]] = defaultdict(list)
        self._target = target
        self._server = ""
        recorder = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10

            def handle(self) -> None:
                with suppress(OSError), socket.create_connection(recorder._target, 10) as broker:
                    answers = broker.makefile("rb")
                    while prefix := self.rfile.read(4):
                        request = self.rfile.read(*struct.unpack(">i", prefix))
                        broker.sendall(prefix + request)
                        body = answers.read(*struct.unpack(">i", answers.read(4)))
                        key, version = struct.unpack(">hh", request[:4])
                        changed = recorder.keep(key, version, body[4:])
                        self.wfile.write(struct.pack(">i", len(changed) + 4) + body[:4] + changed)

        self._serving = Serving(Handler)

    def __enter__(self) -> str:
        self._server = self._serving.__enter__()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__()

    @property
    def names(self) -> list[str]:
        """The names and versions of the requests that were answered."""
        return sorted(self._answers)

    def keep(self, key: int, version: int, body: bytes) -> bytes:
        """Keep one answer; returns it with this recorder's address in place of the broker's."""
        theirs, ours = _place(self._target[1]), _place(int(self._server.rpartition(":")[2]))
        self._answers[f"{NAMES[key]}-v{version}"].append(body.replace(theirs, _place(_PORT)))
        return body.replace(theirs, ours)

    def save(self, directory: Path) -> None:
        for name, listed in self._answers.items():
            file = directory / f"{name}.bin"
            file.write_bytes(b"".join(struct.pack(">i", len(one)) + one for one in listed))


def _read(file: Path) -> list[bytes]:
    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found
