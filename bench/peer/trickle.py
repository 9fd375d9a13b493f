"""Records that trickle into a topic at a steady rate, into its partitions in turn, as long as the block lasts."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from bench.peer.data import records

RATE_PER_S = 500
TICK_S = 0.02


class Trickle:
    """500 records of 100 bytes per second. Leaving the block raises RuntimeError if one was not accepted."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._over = threading.Event()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._write, name=f"trickle to {topic}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        left = self._producer.flush(30)
        if error is None and (left or self._failures):
            raise RuntimeError(f"{self._topic}: {left} records are not written, {len(self._failures)} failed")

    def _write(self) -> None:
        pool = records(100)
        began, written = time.monotonic(), 0
        while not self._over.wait(TICK_S):
            # By the clock: a thread that slept too long makes up for it.
            for number in range(written, int((time.monotonic() - began) * RATE_PER_S)):
                key, value = pool[number % len(pool)]
                self._producer.produce(self._topic, value, key, number % self._partitions, on_delivery=self._note)
                written = number + 1
            self._producer.poll(0)

    def _note(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(str(error))
