"""What responses arrive in: frames, each with its length and the number of the request that it answers."""

from __future__ import annotations

from typing import Any, NamedTuple

from evensplit.errors import AnswerRefused
from evensplit.kafka.wire.api import Api

BODY_BEGIN = 4
"""Where in a frame the rest begins, behind the number of the request that it answers."""

HEAD_BYTES = 1 << 20
"""Of an answer to Fetch that is too long so much is taken, which says why it is."""


class Frame:
    """A receive buffer for one response after the other; it grows to the longest and is never made smaller."""

    __slots__ = ("data",)

    def __init__(self, size_bytes: int = 0) -> None:
        self.data = bytearray(size_bytes)


class Sent(NamedTuple):
    """A request that has no response yet. `answer_bytes_max`: a longer one is none."""

    number: int
    api: Api[Any]
    version: int
    answer_bytes_max: int


class AnswerTooLong(AnswerRefused):
    """An answer claims more bytes than are taken. The first `received` bytes of its frame were taken all the same."""

    def __init__(self, cluster: str, detail: str, received: int) -> None:
        super().__init__(cluster, detail)
        self.received = received
        self.args = (cluster, detail, received)


def describe_length(prefix: bytes, length: int, expected: Sent) -> str:
    """What is wrong with the length that `prefix`, the first four bytes of a frame, claims."""
    what, bytes_max = expected.api.name, expected.answer_bytes_max
    if prefix == b"HTTP":
        return f"it answered {what} in HTTP, so the port belongs to another service"
    return f"its answer to {what} claims a length of {length} bytes, expected {BODY_BEGIN} to {bytes_max}"
