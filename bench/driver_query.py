"""A real query beside the figures of `driver_bench`: what Spark itself says that it waited for, and what idling takes.

What Spark calls `latestOffset` is this source's latest offset and its report, the wire to the JVM, and for a query that
was just started, nothing else. The processor time is that of the process that Spark asks, as Linux counts it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import command_of, descendants
from bench.session import directory_and_session

PLANNER = "python_streaming_source_runner"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class QueryResult:
    """Of each batch with records: milliseconds of latestOffset, and of all of it; and the idle planner's processor."""

    latest_offset_ms: list[int]
    batch_ms: list[int]
    idle_cpu_share: float

    def sentence(self) -> str:
        """For people."""
        latest, batch = statistics.median(self.latest_offset_ms), statistics.median(self.batch_ms)
        return (
            f"A real query: latestOffset {latest:,.0f} ms ({min(self.latest_offset_ms):,} to "
            f"{max(self.latest_offset_ms):,}), of {batch:,.0f} ms for the whole batch; idle, the process that Spark "
            f"asks takes {self.idle_cpu_share:.0%} of a processor."
        )


def run_query(options: dict[str, str], write: Callable[[], None], runs: int, idle_s: float) -> QueryResult:
    """Run a query over records that `write` writes, `runs` times and once before, and then idle for so long."""
    with directory_and_session("local[2]") as (directory, spark):
        frame = spark.readStream.format("evensplit").options(**options).load()
        sink = frame.writeStream.format("noop").option("checkpointLocation", f"{directory}/checkpoint")
        query = sink.start()
        for _ in range(runs + 1):
            write()
            query.processAllAvailable()
        # The first one finds the topics, and what was there before.
        found = [one["durationMs"] for one in query.recentProgress if one["numInputRows"]][1:]
        planners = [pid for pid in descendants() if PLANNER in command_of(pid)]
        time.sleep(2)
        before, began = sum(map(cpu_s, planners)), time.perf_counter()
        time.sleep(idle_s)
        share = (sum(map(cpu_s, planners)) - before) / (time.perf_counter() - began)
        query.stop()
    return QueryResult([one["latestOffset"] for one in found], [one["triggerExecution"] for one in found], share)


def cpu_s(pid: int) -> float:
    """Seconds of the processor that a process has used, as Linux counts them, in hundredths."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
