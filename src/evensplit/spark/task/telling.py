"""How Spark's other processes tell the user's what they have counted: small messages over TCP, which may get lost.

Spark has no way for that: it drops the accumulators of Python sources, and their metrics are fixed. A message is not
secret, but signed, so that nobody else can add to the counts.

    32 bytes            HMAC-SHA256 of the rest, with the secret of `Destination`
    JSON, in UTF-8      of a task that has read:
                        {"stream": text, "revision": number, "task": number, "tasks": number,
                         "clusters": {cluster: [filtered, undecodable]}}
                        of a task that has read, to what plans the batches:
                        {"sizes": [[cluster, topic, partition, offsets, bytes], …]}
                        of the driver's side of a batch that was written:
                        {"written": `WriteReport.to_json`}

The sender closes its side after it, and is answered with `TAKEN`.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from evensplit.core.model import SplitId

if TYPE_CHECKING:
    from evensplit.explain.written import WriteReport

log = logging.getLogger(__name__)

MESSAGE_BYTES_MAX = 64 << 10
"""A longer message is neither sent nor taken."""

TASKS_MAX = 1 << 17
"""Of a batch with more tasks, none tells anything."""

TAKEN = b"\x06"
"""The answer to a message that was taken."""

WAIT_S = 0.5
"""For so long a task waits until its message is taken, at most."""

REST_S = 60.0
"""For so long a process sends nothing after a message that was not taken in time."""

_SIZE_BYTES_MAX = 48 << 10
_MAC_BYTES = 32
_SIZES = "sizes"
_WRITTEN = "written"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages go. Anyone who has the secret can add to the counts."""

    host: str
    port: int
    secret: bytes = field(repr=False)
    bind: str = ""
    """The address that is listened at; empty: `host`."""


class Told(NamedTuple):
    """What one task has counted."""

    stream: str
    """Names one source of one run of a query."""
    revision: int
    """That of the state at the end of the batch."""
    task: int
    """Its number in the batch, from 0; the same for each attempt."""
    tasks: int
    """How many tasks the batch has."""
    clusters: Mapping[str, tuple[int, int]]
    """Cluster -> filtered, undecodable."""


class Telling(NamedTuple):
    """How the tasks of one batch tell what they count. Fields are as in `Told`."""

    to: Destination
    stream: str
    revision: int
    tasks: int


class Sized(NamedTuple):
    """What a task has read of some splits. A task of many splits has several messages."""

    splits: Mapping[SplitId, tuple[int, int]]
    """Split -> offsets, at least 1, and the bytes of keys, values and headers in rows."""


Message: TypeAlias = "Told | Sized | WriteReport"


def pack(message: Message, secret: bytes) -> bytes:
    """The bytes of a message."""
    said: dict[str, Any]
    if isinstance(message, Told):
        said = message._asdict()
    elif isinstance(message, Sized):
        said = {_SIZES: [[*split, *size] for split, size in message.splits.items()]}
    else:
        said = {_WRITTEN: message.to_json()}
    body = json.dumps(said, separators=(",", ":")).encode()
    return hmac.digest(secret, body, "sha256") + body


def unpack(message: bytes, secret: bytes) -> Message | None:
    """What a message says; None if it was not made with this secret, or says nothing that can be."""
    signature, body = message[:_MAC_BYTES], message[_MAC_BYTES:]
    if not hmac.compare_digest(signature, hmac.digest(secret, body, "sha256")):
        return None
    try:
        said: Any = json.loads(body)
        if _WRITTEN in said:
            # Who reads alone, or registers a session, does not load it.
            from evensplit.explain.written import written_of

            return written_of(said[_WRITTEN])
        if _SIZES in said:
            return _sized(said[_SIZES])
        clusters = {str(name): (int(filtered), int(bad)) for name, (filtered, bad) in said["clusters"].items()}
        told = Told(str(said["stream"]), int(said["revision"]), int(said["task"]), int(said["tasks"]), clusters)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        # Another version of this package made it.
        return None
    possible = 0 <= told.task < told.tasks <= TASKS_MAX and all(min(one) >= 0 for one in clusters.values())
    return told if possible else None


def _sized(rows: list[list[Any]]) -> Sized | None:
    splits: dict[SplitId, tuple[int, int]] = {}
    for cluster, topic, partition, offsets, taken in rows:
        splits[SplitId(str(cluster), str(topic), int(partition))] = int(offsets), int(taken)
    return Sized(splits) if all(offsets > 0 <= taken for offsets, taken in splits.values()) else None


class Messenger:
    """Sends messages, and never keeps anyone waiting for longer than `WAIT_S`; after a failure not at all for a while.

    `send`: sends bytes, and returns whether they were taken.
    """

    def __init__(
        self,
        send: Callable[[Destination, bytes], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
    ) -> None:
        self._send = send or _send
        self._clock = clock
        self._wait_s = wait_s
        self._rests_until_s = float("-inf")

    def tell(self, told: Message, to: Destination) -> bool:
        """Return whether the message was taken in time. Never raises."""
        if self._clock() < self._rests_until_s or (isinstance(told, Told) and told.tasks > TASKS_MAX):
            return False
        message = pack(told, to.secret)
        if len(message) > MESSAGE_BYTES_MAX:
            return False
        taken, over = threading.Event(), threading.Event()

        def deliver() -> None:
            # Whatever goes wrong, it is not taken.
            with suppress(Exception):
                if self._send(to, message):
                    taken.set()
            over.set()

        try:
            # Looking up a name cannot be given a deadline.
            threading.Thread(target=deliver, name="evensplit-telling", daemon=True).start()
            over.wait(self._wait_s)
        except RuntimeError:
            # No thread can be started.
            pass
        if not taken.is_set():
            self._rests_until_s = self._clock() + REST_S
        return taken.is_set()


def _send(to: Destination, message: bytes) -> bool:
    with socket.create_connection((to.host, to.port), timeout=WAIT_S) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1) == TAKEN


MESSENGER = Messenger()
"""That of this process."""


def tell(telling: Telling | None, task: int, counted: Mapping[str, tuple[int, int]]) -> None:
    """Tell what a task has counted once it has read everything; if nobody can be told, log it unless it is nothing.

    `counted`: cluster -> filtered, undecodable.
    """
    if telling is not None:
        told = Told(telling.stream, telling.revision, task, telling.tasks, counted)
        if MESSENGER.tell(told, telling.to):
            return
    filtered, undecodable = (sum(one[place] for one in counted.values()) for place in (0, 1))
    if filtered or undecodable:
        log.log(
            logging.WARNING if undecodable else logging.INFO,
            "task %d: records left out by the condition: %s; keys and values that could not be decoded: %s",
            task,
            f"{filtered:,}",
            f"{undecodable:,}",
        )


def tell_sizes(to: Destination, sizes: Mapping[SplitId, tuple[int, int]]) -> None:
    """Tell what a task has read of each split, once it has read everything. What does not arrive is not missed."""
    rest = {split: size for split, size in sizes.items() if size[0] > 0}
    while rest:
        part: dict[SplitId, tuple[int, int]] = {}
        length = 0
        for split, size in rest.items():
            length += len(json.dumps([*split, *size])) + 1
            if part and length > _SIZE_BYTES_MAX:
                break
            part[split] = size
        rest = {split: size for split, size in rest.items() if split not in part}
        if not MESSENGER.tell(Sized(part), to):
            return


def tell_written(to: Destination | None, report: WriteReport) -> None:
    """Tell what the driver's side of a batch has written; if nobody can be told, log it. Never raises."""
    if to is not None and MESSENGER.tell(report, to):
        return
    from evensplit.explain.written import VISIBLE

    # What was not written is an error besides, which is logged by whoever raises it.
    if report.outcome in VISIBLE:
        log.info("query %s, batch %d: %s", report.query, report.batch, report.sentence())
