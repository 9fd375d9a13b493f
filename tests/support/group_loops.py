"""Consumers of a group, each with an ordinary loop of polls in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support.waiting import wait_for

SESSION_TIMEOUT_MS = 6000  # the least that brokers allow by default


class Loop:
    """A thread that polls its consumer again and again.

    `timeout_ms`: of each poll; may be changed. `polls`: how many calls of poll have come back. `records`: what they
    returned, in order. `error`: what a poll raised, if it did; the loop polls on.
    """

    def __init__(self, consumer: Any, *, timeout_ms: int = 500, pause_s: float = 0.0) -> None:
        self.consumer = consumer
        self.polls = 0
        self.records: list[Any] = []
        self.error: Exception | None = None
        self.timeout_ms = timeout_ms
        self._pause_s = pause_s
        self._orders: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._may_poll = threading.Event()
        self._may_poll.set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def do(self, action: Callable[[], Any]) -> Any:
        """Have the loop's thread do something between two polls."""
        done: Future[Any] = Future()
        self._orders.append((action, done))
        return done.result(60)

    def hold(self) -> None:
        """Poll no more, from the end of the present poll on; on return it has ended."""
        self._may_poll.clear()
        before = self.polls
        wait_for(lambda: self.polls > before or self._waiting)

    def resume(self) -> None:
        """Poll on."""
        self._may_poll.set()

    def end(self) -> None:
        """Leave the group."""
        self._over.set()
        self._may_poll.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def owned(self) -> set[int]:
        """The numbers of the partitions that are assigned to it."""
        return {one.partition for one in self.consumer.assignment()}

    def settled(self) -> bool:
        """Whether it is in a generation of the group as far as it knows."""
        return bool(self.consumer.group_metadata().state == "<stable>")

    def generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)

    _waiting = False

    def _run(self) -> None:
        while not self._over.is_set():
            while self._orders:
                action, done = self._orders.pop(0)
                try:
                    done.set_result(action())
                except Exception as error:
                    done.set_exception(error)
            self._waiting = not self._may_poll.is_set()
            if not self._may_poll.wait(0.02):
                continue
            self._waiting = False
            try:
                for records in self.consumer.poll(timeout_ms=self.timeout_ms).values():
                    self.records.extend(records)
            except Exception as error:
                self.error = error
            self.polls += 1
            self._over.wait(self._pause_s)
        self.consumer.close()


def shared_out(loops: list[Loop], partitions: int) -> bool:
    """Whether all are in one generation, and each partition is with exactly one of them."""
    owned = [number for loop in loops for number in sorted(loop.owned())]
    same = len({loop.generation() for loop in loops}) == 1 and all(loop.settled() for loop in loops)
    return same and sorted(owned) == list(range(partitions))
