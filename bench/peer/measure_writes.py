"""How workloads that write are measured: each turn writes into a topic of its own, which is looked at and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.peer.abilities import Reach
from bench.peer.outcome import Outcome
from bench.peer.plan import Host, Kind, Side, Workload
from bench.peer.processes import Hosts
from bench.peer.writes import PARTITIONS_WRITTEN

MB = MILLION = 1_000_000
COMPARED = ["key", "value"]


@dataclass
class Writing:
    """One workload. `what`: a side's request to read."""

    reach: Reach
    hosts: Hosts
    workload: Workload
    outcome: Outcome
    what: Callable[[Side], dict[str, Any]]
    _digests: dict[str, str] = field(default_factory=dict)

    def turn(self, side: Side, number: int) -> None:
        """Write once, as `side`; in round 0, which does not count, also look at what every record is.

        Raises RuntimeError if there are not as many records as rows, or others than the other side has written.
        """
        topic = f"{self.workload.key}-{'ours' if side.host is Host.OURS else 'theirs'}-{number}"
        self.reach.broker.create_topic(topic, partitions=PARTITIONS_WRITTEN)
        try:
            took = self._write(side, topic)
            self._check(side, topic, number)
            if self.workload.kind is Kind.SIZE:
                took = {"value": self._bytes(topic) / MB}
        finally:
            self.reach.broker.delete_topic(topic)
        if number:
            self.outcome.values.setdefault(side.name, []).append(took["value"])
            if "cpu_s" in took:
                self.outcome.cpu_s.setdefault(side.name, []).append(took["cpu_s"])

    @property
    def _rows(self) -> int:
        """How many rows a batch has."""
        return self.workload.written_rows or self.workload.topic.rows

    def _write(self, side: Side, topic: str) -> dict[str, float]:
        """Rows per second, and seconds of processor time for a million."""
        options = {"kafka.bootstrap.servers": self.reach.plain, "topic": topic, **side.sink_options}
        request = {
            **self.what(side),
            "sink": side.sink,
            "sink_options": options,
            "rows": self._rows,
            "batches": self.workload.batches,
            "tasks": self.workload.cores,
            "value_bytes": self.workload.topic.value_bytes,
        }
        if side.host is Host.OURS:
            request["register"] = {}
        answer = self.hosts.get(side.host, self.workload.cores).ask("write", **request)
        return {"value": self._rows / answer["seconds"], "cpu_s": answer["cpu_s"] / self._rows * MILLION}

    def _check(self, side: Side, topic: str, number: int) -> None:
        """Look at what is there, as a reader sees it who wants only what is committed."""
        options = {"kafka.bootstrap.servers": self.reach.plain, "subscribe": topic}
        options["kafka.isolation.level"] = "read_committed"
        rows = self._rows * max(self.workload.batches, 1)
        # Spark's own compares every record of the first round; counting the others is faster with ours.
        host, source = (Host.OURS, "evensplit") if number else (Host.SPARK, "kafka")
        reader = self.hosts.get(host, self.workload.cores)
        if number == 0:
            answer = reader.ask("digest", source=source, options=options, steps=[COMPARED])
            self._digests[side.name] = answer["digest"]
            if len(set(self._digests.values())) > 1:
                raise RuntimeError(f"{self.workload.key}: the sides have not written the same: {self._digests}")
        else:
            answer = reader.ask("count", source=source, options=options)
        if (found := answer["rows"]) != rows:
            raise RuntimeError(f"{self.workload.key}: {side.name} wrote {rows:,} rows, but there are {found:,} records")

    def _bytes(self, topic: str) -> int:
        """Of all record batches, as the broker has them."""
        logs = [
            log for number in range(PARTITIONS_WRITTEN) for log in self.reach.files.rglob(f"{topic}-{number}/*.log")
        ]
        return sum(log.stat().st_size for log in logs)
