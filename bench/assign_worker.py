"""Assigns once for each line it reads, in a process of its own, so that its memory can be measured.

    python -m bench.assign_worker ids|interned|weighted|increments SPLITS READERS CLASSES PRIOR

It prints "ready", and answers each line "assign" or "verify" with a line of JSON, as KafkaAssignors.java does.

ids: the public function, from ids and names to the certified assignment. interned: solver and certificate, on arrays.
weighted: as ids, with weights. increments: `after` with a single split added or removed, in turn.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.assign_instances import CLUSTER, Shape
from evensplit import Assignment, SplitId, assign
from evensplit.core.assign.assignment import solve
from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.proof import certify

Answer = dict[str, Any]
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def described(certificate: Certificate, load_min: int) -> Answer:
    """What the benchmark compares."""
    return {
        "load_max": certificate.load_max,
        "load_min": load_min,
        "squares": certificate.squares,
        "moved": certificate.moved,
        "proven": certificate.even and certificate.fewest_moves,
        "gap": certificate.gap,
    }


class Ids:
    """By the public function."""

    def __init__(self, shape: Shape, *, weighted: bool = False) -> None:
        self._splits, self._readers = shape.split_ids(), shape.names()
        self._given: dict[str, Any] = {"previous": shape.previous(), "eligible": shape.eligible()}
        if weighted:
            self._given["weight"] = shape.weights()
        self._made: Assignment | None = None

    def assign(self) -> Callable[[], Answer]:
        self._made = None
        result = self._made = assign(self._splits, self._readers, **self._given)
        return lambda: described(result.certificate, min(result.loads.values()))

    def verify(self) -> Callable[[], Answer]:
        result = self._made
        assert result is not None
        problems = result.problems()
        if problems:
            raise AssertionError(f"the assignment does not verify: {problems}")
        return lambda: described(result.certificate, min(result.loads.values()))


class Interned:
    """From arrays to owners and certificate."""

    def __init__(self, shape: Shape) -> None:
        self._problem = shape.problem()

    def assign(self) -> Callable[[], Answer]:
        owner = solve(self._problem)
        certificate = certify(self._problem, owner, None, "balanced")
        return lambda: described(certificate, int(np.bincount(owner, minlength=self._problem.readers).min()))


class Increments:
    """One split more, then one less, starting from an even assignment."""

    def __init__(self, shape: Shape) -> None:
        self._made = assign(shape.split_ids(), shape.names(), previous=shape.previous(), eligible=shape.eligible())
        self._turn = 0

    def assign(self) -> Callable[[], Answer]:
        change: dict[str, list[SplitId]] = {"added": [SplitId(CLUSTER, f"t{self._turn % 7}", 10**6 + self._turn)]}
        if self._turn % 2:
            change = {"removed": [SplitId(CLUSTER, f"t{self._turn % 7}", self._turn)]}
        self._turn += 1
        result = self._made = self._made.after(**change)
        return lambda: described(result.certificate, min(result.loads.values()))


def main() -> None:
    """Answer until there are no more lines."""
    mode, splits, readers, classes, prior = sys.argv[1:]
    shape = Shape(int(splits), int(readers), int(classes), prior)
    made: dict[str, Callable[[], Ids | Interned | Increments]] = {
        "ids": lambda: Ids(shape),
        "weighted": lambda: Ids(shape, weighted=True),
        "interned": lambda: Interned(shape),
        "increments": lambda: Increments(shape),
    }
    worker = made[mode]()
    print('"ready"', flush=True)
    for line in sys.stdin:
        began, cpu_began = time.perf_counter(), time.thread_time()
        describe = getattr(worker, line.strip())()
        answer = {
            "milliseconds": (time.perf_counter() - began) * 1e3,
            "cpu_milliseconds": (time.thread_time() - cpu_began) * 1e3,
            "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES,
        }
        print(json.dumps({**answer, **describe()}), flush=True)


if __name__ == "__main__":
    main()
