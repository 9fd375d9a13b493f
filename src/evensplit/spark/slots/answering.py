"""Answers, in the user's process, how many tasks the session can run at once."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from evensplit.errors import line_of
from evensplit.spark.slots.asking import answer, nonce_of

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 5.0


def answerer(message: bytes, secret: bytes) -> Callable[[socket.socket], None] | None:
    """What answers a question, and closes its connection; None if `message` is none, or was not made with `secret`."""
    nonce = nonce_of(message, secret)
    return None if nonce is None else lambda connection: answer_soon(connection, nonce, secret)


def answer_soon(connection: socket.socket, nonce: str, secret: bytes) -> None:
    """Answer a question in a thread of its own, and close the connection: the JVM may take its time."""
    threading.Thread(
        target=_answer, args=(connection, nonce, secret), name="evensplit-slots-answer", daemon=True
    ).start()


def _answer(connection: socket.socket, nonce: str, secret: bytes) -> None:
    with connection:
        try:
            slots = current_slots()
            if slots is not None:
                connection.settimeout(SEND_TIMEOUT_S)
                connection.sendall(answer(slots, nonce, secret))
        except Exception as error:
            # Whoever asks keeps what was answered before.
            log.info("how many tasks the session runs at once cannot be said: %s", line_of(error))


def current_slots(context: Any = None) -> int | None:
    """How many tasks the session can run at once, with the executors that it has; None if there is no session.

    0 while it has no executor. `context`: a SparkContext; None: that of this process.
    """
    if context is None:
        from pyspark import SparkContext

        context = getattr(SparkContext, "_active_spark_context", None)
    java = getattr(context, "_jsc", None)
    if context is None or java is None:
        return None
    jvm = java.sc()
    try:
        # By the cores of executors and what a task takes. `defaultParallelism` is at least 2, and a fixed number where
        # `spark.default.parallelism` is set.
        return int(jvm.maxNumConcurrentTasks(jvm.resourceProfileManager().defaultResourceProfile()))
    except Exception as error:
        log.debug("Spark does not tell its slots, so its default parallelism is taken: %s", line_of(error))
        return int(context.defaultParallelism)
