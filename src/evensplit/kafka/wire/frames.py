"""Frames: the length, then a request behind its header, or a response behind the number of its request.

That number is Kafka's correlation id.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from evensplit.errors import AnswerRefused
from evensplit.kafka.wire.api import Api, Request
from evensplit.kafka.wire.primitives import Writer

BODY_BEGIN = 4
"""Where in a frame the response begins, after the number of the request."""

HEAD_BYTES = 1 << 20
"""How much of an overlong response to Fetch is received, to find the record batch that makes it so long."""

_LENGTH = Struct(">i")
_HEADER = Struct(">hhi")


class Frame:
    """A receive buffer for one response after the other; it grows to the longest and is never made smaller."""

    __slots__ = ("data",)

    def __init__(self, size_bytes: int = 0) -> None:
        self.data = bytearray(size_bytes)


class Sent(NamedTuple):
    """A request that has no response yet."""

    number: int
    api: Api[Any]
    version: int
    answer_bytes_max: int
    """A longer response is refused."""


def framed(api: Api[Any], version: int, number: int, client_id: str, request: Request) -> list[memoryview]:
    """A whole frame with a request that was written in `version`, in as many pieces as it came in."""
    first, *rest = request if isinstance(request, list) else [memoryview(request)]
    # Even behind it there may be tagged fields, but its text is as of old, so that every broker can read it.
    header = Writer(flexible=False)
    header.numbers(_HEADER, api.key, version, number)
    header.text(client_id)
    tags = b"\0" if api.is_flexible(version) else b""
    size = len(header.data) + len(tags) + first.nbytes + sum(piece.nbytes for piece in rest)
    return [memoryview(b"".join((_LENGTH.pack(size), header.data, tags, first))), *rest]


class AnswerTooLong(AnswerRefused):
    """A response claims to be longer than allowed. `received`: the bytes of its frame that were received anyway."""

    def __init__(self, cluster: str, detail: str, received: int) -> None:
        super().__init__(cluster, detail)
        self.received = received
        self.args = (cluster, detail, received)


def describe_length(prefix: bytes, length: int, expected: Sent) -> str:
    """Describe the wrong `length` that `prefix`, the first four bytes of a frame, claims."""
    what, bytes_max = expected.api.name, expected.answer_bytes_max
    if prefix == b"HTTP":
        return f"it answered {what} in HTTP, so the port belongs to another service"
    return f"its answer to {what} claims a length of {length} bytes, expected {BODY_BEGIN} to {bytes_max}"
