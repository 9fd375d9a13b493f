"""The question of how many tasks the session can run at once, asked by the process that plans batches.

It goes to the user's process over the connection on which tasks tell what they count (`spark/task/telling.py`), signed
in the same way. Question and answer are

    32 bytes            HMAC-SHA256 of the rest, with the secret of `Destination`
    JSON, in UTF-8      the question: {"asks": "slots", "nonce": text}
                        the answer: {"slots": number, "nonce": that of the question}

A receiver of an earlier version closes the connection without an answer.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from evensplit.spark.task.telling import Destination

WAIT_S = 1.0
"""For so long a plan waits for the answer, at most."""

REST_S = 10.0
"""For so long nothing is asked after a question that was not answered in time."""

ANSWER_BYTES_MAX = 4096
_MAC_BYTES = 32
_NONCE_BYTES = 8


def question(nonce: str, secret: bytes) -> bytes:
    """The bytes of a question."""
    return _signed({"asks": "slots", "nonce": nonce}, secret)


def nonce_of(message: bytes, secret: bytes) -> str | None:
    """What names a question; None if `message` is none, or was not made with this secret."""
    said = _read(message, secret)
    if said.get("asks") != "slots" or not isinstance(said.get("nonce"), str):
        return None
    return str(said["nonce"])


def answer(slots: int, nonce: str, secret: bytes) -> bytes:
    """The bytes of the answer to a question."""
    return _signed({"slots": slots, "nonce": nonce}, secret)


def slots_of(message: bytes, nonce: str, secret: bytes) -> int | None:
    """What the answer to a question says; None if `message` is not that answer."""
    said = _read(message, secret)
    slots = said.get("slots")
    return slots if said.get("nonce") == nonce and isinstance(slots, int) else None


class SlotsQuestion:
    """Asks again and again, and never keeps anyone waiting for longer than `wait_s`.

    `exchange`: sends bytes, and returns what is answered.
    """

    def __init__(
        self,
        to: Destination,
        exchange: Callable[[Destination, bytes], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
    ) -> None:
        self._to = to
        self._exchange = exchange or _exchange
        self._clock = clock
        self._wait_s = wait_s
        self._rests_until_s = float("-inf")

    def ask(self) -> int | None:
        """Return how many tasks the session can run at once; None if there was no answer in time. Never raises."""
        if self._clock() < self._rests_until_s:
            return None
        nonce, found, over = secrets.token_hex(_NONCE_BYTES), list[int | None](), threading.Event()

        def exchange() -> None:
            # Whatever goes wrong, there is no answer.
            with suppress(Exception):
                found.append(
                    slots_of(self._exchange(self._to, question(nonce, self._to.secret)), nonce, self._to.secret)
                )
            over.set()

        try:
            # Looking up a name cannot be given a deadline.
            threading.Thread(target=exchange, name="evensplit-slots", daemon=True).start()
            over.wait(self._wait_s)
        except RuntimeError:
            # No thread can be started.
            pass
        slots = found[0] if found else None
        if slots is None:
            self._rests_until_s = self._clock() + REST_S
        return slots


def _exchange(to: Destination, message: bytes) -> bytes:
    with socket.create_connection((to.host, to.port), timeout=WAIT_S) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        answered = b""
        while len(answered) <= ANSWER_BYTES_MAX and (more := connection.recv(ANSWER_BYTES_MAX)):
            answered += more
        return answered


def _signed(said: dict[str, Any], secret: bytes) -> bytes:
    body = json.dumps(said, separators=(",", ":")).encode()
    return hmac.digest(secret, body, "sha256") + body


def _read(message: bytes, secret: bytes) -> dict[str, Any]:
    """What a message says; empty if it was not made with this secret."""
    signature, body = message[:_MAC_BYTES], message[_MAC_BYTES:]
    if not hmac.compare_digest(signature, hmac.digest(secret, body, "sha256")):
        return {}
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
