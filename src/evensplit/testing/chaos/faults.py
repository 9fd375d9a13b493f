"""Makes the faults of a schedule happen, each in a thread of its own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from random import Random

from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.history.events import FaultBegan, FaultEnded, FaultFailed
from evensplit.testing.chaos.nemesis.base import Nemesis
from evensplit.testing.chaos.schedule import Planned

ENDS_WITHIN_S = 180.0
"""So long the end of a fault may take; a broker that was killed needs some seconds to be back."""


class Faults:
    """Begins and ends the faults of a schedule, and records when.

    `began_s`: the time in the run at which the schedule begins. A fault that cannot be made, or not be ended, is
    recorded as that, and the run goes on. A fault waits for an earlier one of its resource that ends late.
    """

    def __init__(
        self, arena: Arena, nemeses: Mapping[str, Nemesis], schedule: Sequence[Planned], began_s: float
    ) -> None:
        self._arena = arena
        self._nemeses = nemeses
        self._schedule = schedule
        self._began_s = began_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._resources = {nemeses[one.nemesis].kind.resource: threading.Lock() for one in schedule}
        self._on: dict[int, str] = {}
        self._threads: list[threading.Thread] = []
        self.done = 0
        """How many are over."""
        self.failed = 0
        """How many of them could not be made, or not be ended."""

    @property
    def on(self) -> tuple[str, ...]:
        """The faults that are on now, in a sentence each."""
        with self._lock:
            return tuple(self._on.values())

    def start(self) -> None:
        """Let the schedule begin; returns at once."""
        self._threads = [threading.Thread(target=self._make, args=(one,), daemon=True) for one in self._schedule]
        for thread in self._threads:
            thread.start()

    def are_over(self) -> bool:
        """Whether every fault is over."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End those that are on, and begin no others; returns when all are over, or after `ENDS_WITHIN_S` each."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)

    def _make(self, planned: Planned) -> None:
        recorder = self._arena.recorder
        if self._stopping.wait(max(0.0, self._began_s + planned.begins_s - recorder.now_s)):
            return
        nemesis = self._nemeses[planned.nemesis]
        with self._resources[nemesis.kind.resource]:
            if self._stopping.is_set():
                return
            self._make_now(planned, nemesis)

    def _make_now(self, planned: Planned, nemesis: Nemesis) -> None:
        recorder = self._arena.recorder
        # A choice of its own for each fault: threads come in any order.
        dice = Random(planned.dice)  # noqa: S311
        begins_s = recorder.now_s
        began = False
        try:
            with nemesis.do(self._arena, dice) as harm:
                # It may have taken a while to come about, and had its effects from the beginning.
                recorder.record(
                    FaultBegan(
                        at_s=round(begins_s if harm.since_s is None else harm.since_s, 4),
                        fault=planned.number,
                        nemesis=planned.nemesis,
                        what=harm.what,
                        clusters=harm.clusters,
                    )
                )
                began = True
                with self._lock:
                    self._on[planned.number] = harm.what
                self._stopping.wait(planned.lasts_s)
            recorder.record(FaultEnded(fault=planned.number))
        except Exception as error:
            with self._lock:
                self.failed += 1
            if not began:
                what = "it could not be made"
                recorder.record(
                    FaultBegan(at_s=round(begins_s, 4), fault=planned.number, nemesis=planned.nemesis, what=what)
                )
            problem = "".join(traceback.format_exception(error, limit=-4))
            recorder.record(FaultFailed(fault=planned.number, nemesis=planned.nemesis, problem=problem, made=began))
        finally:
            with self._lock:
                self._on.pop(planned.number, None)
                self.done += 1
