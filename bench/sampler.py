"""The processor time of each kind of process of a driver's machine, sampled while a query runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from bench.processes import PLANNER, command_of, cpu_s, descendants, reaped_cpu_s

JVM, SOURCE, TASKS, USER, HELPERS = "jvm", "source", "tasks", "user", "helpers"
PARTS = (JVM, SOURCE, TASKS, USER, HELPERS)
"""Spark's JVM; the process that Spark asks about offsets; other Python workers; the user's process, which is this one;
what the JVM has started and has ended, such as `chmod`."""

SAMPLE_S = 0.05
FIND_SAMPLES = 20


class Sampler:
    """Samples the clock and the processor time of processes.

    `besides`: threads of this process that do not count, since they measure.
    """

    def __init__(self, jvm: int, besides: Sequence[int] = ()) -> None:
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._jvm = jvm
        self._clocks = [time.pthread_getcpuclockid(thread) for thread in besides]
        self._part: dict[int, str] = {}
        self._used: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Sample as long as the block runs, and once more at its end."""
        self._thread.start()
        try:
            yield
        finally:
            self._done.set()
            self._thread.join()

    def between(self, begin_s: float, end_s: float) -> dict[str, float]:
        """Seconds of processor time of each part from one time to another."""
        return {part: self._at(end_s, part) - self._at(begin_s, part) for part in PARTS}

    def _at(self, when_s: float, part: str) -> float:
        """What a part had used at a time, between two samples."""
        after = next(place for place, (at, _) in enumerate(self._samples) if at >= when_s or at is self._samples[-1][0])
        (from_s, before), (to_s, then) = self._samples[max(0, after - 1)], self._samples[after]
        share = 1.0 if to_s == from_s else min(1.0, max(0.0, (when_s - from_s) / (to_s - from_s)))
        return before[part] + share * (then[part] - before[part])

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            if len(self._samples) % FIND_SAMPLES == 0:
                self._find()
            self._sample()
        self._sample()

    def _find(self) -> None:
        """Find the processes: Spark starts workers when it needs them."""
        self._part |= {os.getpid(): USER, self._jvm: JVM}
        for pid in descendants(self._jvm):
            # Looked at again: one that was just forked does not yet have a command of its own.
            command = command_of(pid)
            self._part[pid] = SOURCE if PLANNER in command else TASKS if "python" in command else HELPERS

    def _sample(self) -> None:
        sums = dict.fromkeys(PARTS, 0.0)
        for pid, part in self._part.items():
            # One that has ended has used what it had used when it was last there.
            with suppress(FileNotFoundError, ProcessLookupError):
                # Of its own process Linux says it exactly.
                self._used[pid] = time.process_time() if pid == os.getpid() else cpu_s(pid)
            # A helper that has ended counts below.
            if part != HELPERS:
                sums[part] += self._used.get(pid, 0.0)
        with suppress(FileNotFoundError, ProcessLookupError):
            sums[HELPERS] = reaped_cpu_s(self._jvm)
        # What it takes to look at all this is no part of it.
        sums[USER] -= time.thread_time() + sum(map(time.clock_gettime, self._clocks))
        self._samples.append((time.time(), sums))


def start_s(progress: Mapping[str, Any]) -> float:
    """When a batch began, in seconds since 1970."""
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def end_s(progress: Mapping[str, Any]) -> float:
    """When a batch ended."""
    return start_s(progress) + float(progress["durationMs"]["triggerExecution"]) / 1e3
