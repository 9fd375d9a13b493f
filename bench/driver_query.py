"""A real query next to the figures of `driver_bench`: how long Spark says it waited, and what idling takes.

Spark's `latestOffset` is this source's latestOffset and report, and the connection to the JVM; for a query that was
just started, nothing else. Processor time is that of the process that Spark asks, as Linux counts it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.processes import PLANNER, command_of, cpu_s, descendants
from bench.session import directory_and_session


@dataclass
class QueryResult:
    """Of each batch with records, milliseconds of latestOffset and in all; and the processor time of idling."""

    latest_offset_ms: list[int]
    batch_ms: list[int]
    idle_cpu_share: float

    def sentence(self) -> str:
        """The result as a sentence."""
        latest, batch = statistics.median(self.latest_offset_ms), statistics.median(self.batch_ms)
        return (
            f"Real query: latestOffset {latest:,.0f} ms ({min(self.latest_offset_ms):,} to "
            f"{max(self.latest_offset_ms):,}), of {batch:,.0f} ms for the whole batch. Idle: {self.idle_cpu_share:.0%} "
            f"of a processor, in the process that Spark asks."
        )


def run_query(options: dict[str, str], write: Callable[[], None], runs: int, idle_s: float) -> QueryResult:
    """Run a query over records that `write` writes, `runs` times after one uncounted, then let it idle."""
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
