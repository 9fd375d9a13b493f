"""Answers about metadata that a broker gave once, to be given again when they are no longer true."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

METADATA = 3
SIZE = struct.Struct(">i")
# API key, API version and correlation id, with which each request begins.
REQUEST_HEAD = struct.Struct(">hhi")
CORRELATION = struct.Struct(">i")


class MetadataMemory:
    """The newest answer to each request for metadata: of the same version, client and topics."""

    def __init__(self) -> None:
        self.answers: dict[bytes, bytes] = {}
        """Request, without its correlation id -> answer, without it."""


class Conversation:
    """One connection of Kafka's protocol, without TLS. Bytes go in as they come, and come out as they are to go on.

    All of a request for metadata and of its answer are waited for; the rest passes at once.
    """

    def __init__(self, memory: MetadataMemory) -> None:
        self._memory = memory
        self._asked: dict[int, bytes] = {}
        self._requests = _Frames(REQUEST_HEAD.size)
        self._answers = _Frames(CORRELATION.size)

    def request(self, data: bytes) -> bytes:
        """What goes on to the broker."""
        return b"".join(self._requests.pass_on(data, self._is_request, self._remember_request))

    def answer(self, data: bytes, *, stale: bool) -> bytes:
        """What goes on to the client; `stale`: an answer about metadata is an earlier one, if there is one."""

        def changed(frame: bytes) -> bytes:
            (correlation,) = CORRELATION.unpack_from(frame)
            shape = self._asked.pop(correlation)
            if not stale:
                self._memory.answers[shape] = frame[CORRELATION.size :]
            known = self._memory.answers.setdefault(shape, frame[CORRELATION.size :])
            return CORRELATION.pack(correlation) + known

        return b"".join(self._answers.pass_on(data, self._is_answer, changed))

    def _is_request(self, head: bytes) -> bool:
        api_key, _, _ = REQUEST_HEAD.unpack(head)
        return bool(api_key == METADATA)

    def _remember_request(self, frame: bytes) -> bytes:
        _, _, correlation = REQUEST_HEAD.unpack_from(frame)
        # The version stays in the shape, and so do the client and the topics.
        self._asked[correlation] = frame[2:4] + frame[REQUEST_HEAD.size :]
        return frame

    def _is_answer(self, head: bytes) -> bool:
        return CORRELATION.unpack(head)[0] in self._asked


class _Frames:
    """Cuts a stream into frames, each with its size first, and holds only those that are to be seen whole."""

    def __init__(self, head: int) -> None:
        self._head = head
        self._held = bytearray()
        self._passing = 0
        """So many bytes of a frame are still to pass unseen."""

    def pass_on(
        self, data: bytes, is_wanted: Callable[[bytes], bool], change: Callable[[bytes], bytes]
    ) -> Iterator[bytes]:
        """The bytes to go on, after those frames that `is_wanted` knows by their first bytes have been changed."""
        self._held += data
        while self._held:
            if self._passing:
                yield self._taken(min(self._passing, len(self._held)), passing=True)
                continue
            if len(self._held) < SIZE.size + self._head:
                return
            (size,) = SIZE.unpack_from(self._held)
            if not is_wanted(bytes(self._held[SIZE.size : SIZE.size + self._head])):
                self._passing = SIZE.size + size
                continue
            if len(self._held) < SIZE.size + size:
                return
            changed = change(self._taken(SIZE.size + size)[SIZE.size :])
            yield SIZE.pack(len(changed)) + changed

    def _taken(self, count: int, *, passing: bool = False) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        if passing:
            self._passing -= count
        return taken
