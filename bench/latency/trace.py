"""Timelines of a start and of a batch, from processes that are traced: slower than others, so no figure is theirs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.latency import jfr
from bench.latency.measure import Bench
from bench.latency.plan import START_CORES, TIMELINE_CORES, TOPIC, TRICKLE, TRICKLE_PARTITIONS, Side
from bench.latency.spans import (
    NS_PER_MS,
    USER,
    Kind,
    Span,
    Timeline,
    condensed,
    in_rows,
    median_batch,
    of_hook,
    of_phases,
    within,
)
from bench.peer.processes import Worker
from bench.peer.trickle import Trickle
from bench.processes import command_of, java_below

HOOK = Path(__file__).parent / "hook"
HOOK_FILE = "EVENSPLIT_SPANS"
JVM_ENDS_S = 60.0
START_LEAST_MS, START_GAP_MS = 8.0, 5.0
BATCH_LEAST_MS, BATCH_GAP_MS = 0.3, 6.0
STEPS = "steps"
FIRST_ROWS = (STEPS, "phases", USER, jfr.DRIVER, jfr.QUERY, jfr.TASKS, jfr.ADMIN)


@dataclass(slots=True)
class Traced:
    """A process that is traced, and what its files say once it has ended."""

    worker: Worker
    port: int
    spans: list[Span] = field(default_factory=list)

    def ms(self, at_ns: float) -> float:
        """Since the process was started."""
        return (at_ns - self.worker.began_ns) / NS_PER_MS


@contextmanager
def traced(bench: Bench, side: Side, cores: int, what: str) -> Iterator[Traced]:
    """A process of a side that is traced as long as the block runs; its spans are there afterwards."""
    hook, recording = (bench.logs / f"{what}-{side.slug}.{end}" for end in ("spans", "jfr"))
    paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"PYTHONPATH": os.pathsep.join(paths), HOOK_FILE: str(hook)}
    program = jfr.tool()
    worker = bench.worker(side, cores, jfr.options(recording) if program else "", environment)
    found = Traced(worker, int(bench.bootstrap.rpartition(":")[2]))
    try:
        yield found
        java = java_below(worker.pid)
    finally:
        worker.close()
    found.spans += of_hook(hook.read_text().splitlines(), worker.pid, worker.began_ns)
    if program:
        # It writes its recording when it ends, which is after the process that started it.
        deadline = time.monotonic() + JVM_ENDS_S
        while command_of(java) and time.monotonic() < deadline:
            time.sleep(0.1)
        found.spans += jfr.spans(jfr.read(program, recording), found.port, worker.began_ns)


def start_line(bench: Bench, side: Side) -> Timeline:
    """A start, from the start of the process to the first row."""
    with traced(bench, side, START_CORES, "start") as run:
        answer = run.worker.ask("first", **side.asks(bench.bootstrap, TOPIC, START_CORES))
    steps = [Span(STEPS, "to the session", Kind.PHASE, 0.0, run.ms(run.worker.ready_ns))]
    for name, began_ns, ended_ns in answer["steps"]:
        steps.append(Span(STEPS, name, Kind.PHASE, run.ms(began_ns), (ended_ns - began_ns) / NS_PER_MS))
    return _line(side, START_CORES, [*steps, *run.spans], 0.0, steps[-1].end_ms, START_LEAST_MS, START_GAP_MS)


def batch_line(bench: Bench, side: Side) -> Timeline:
    """The batch of median duration among the last ones of a query."""
    with traced(bench, side, TIMELINE_CORES, "batch") as run, Trickle(bench.bootstrap, TRICKLE, TRICKLE_PARTITIONS):
        ask = side.asks(bench.bootstrap, TRICKLE, TIMELINE_CORES, latest=True)
        many = {"skip": bench.scale.skip, "batches": bench.scale.traced_batches}
        answer = run.worker.ask("stream", **ask, **many)
    if not answer["milliseconds"]:
        raise RuntimeError(f"{side.name} did not end a batch in time")
    place = median_batch(answer["milliseconds"])
    begin_ms = run.ms(answer["began_s"][place] * 1e9)
    phases = [
        Span(one.row, one.name, one.kind, one.start_ms + begin_ms, one.took_ms)
        for one in of_phases(answer["phases_ms"][place])
    ]
    # The user's process only asks for progress meanwhile, which is part of the measuring.
    spans = [one for one in run.spans if one.row not in (USER, jfr.DRIVER)]
    length_ms = answer["milliseconds"][place]
    return _line(side, TIMELINE_CORES, [*phases, *spans], begin_ms, length_ms, BATCH_LEAST_MS, BATCH_GAP_MS)


def _line(
    side: Side, cores: int, spans: Sequence[Span], begin_ms: float, length_ms: float, least_ms: float, gap_ms: float
) -> Timeline:
    seen = condensed(within(spans, begin_ms, length_ms), least_ms, gap_ms)
    return Timeline(side.name, cores, length_ms, in_rows(seen, FIRST_ROWS))
