"""A query that is edited between its runs, killed in its batches, and started again: each offset as often as was said.

The driver's coordinator plans over a fake cluster, and the offset log is kept as Spark keeps it, in JSON. The sink
knows batches by their numbers: what is repeated replaces what it had, or is left out, as by Delta and by Spark's files.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.model import Range, SplitId
from evensplit.core.repair.edit import OpenBatch, Told, note, open_batch, rewind, skip
from evensplit.core.repair.past import past
from evensplit.core.repair.proof import check_edit, consequences
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import ClusterOptions, parse_options
from evensplit.spark.poll import cluster_poller
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock

Offset = tuple[SplitId, int]
PARTITIONS = 3


class Query:
    """A query and its checkpoint. `expected`: how often each offset is to be delivered in the end."""

    def __init__(self, options: dict[str, str], *, replaces: bool) -> None:
        self._options = options
        self._replaces = replaces
        self._clock = Clock()
        self.cluster = FakeKafka("default")
        self.cluster.create_topic("t", PARTITIONS)
        self.log: list[str] = []
        self.done = 0
        self.sink: dict[int, Counter[Offset]] = {}
        self.reads: dict[int, Counter[Offset]] = {}
        self.expected: Counter[Offset] = Counter()
        self._ends = [0] * PARTITIONS
        self._process: Coordinator | None = None
        self._last: EnumeratorState | None = None

    def append(self, partition: int, count: int) -> None:
        self.cluster.append("t", partition, count)
        key = SplitId("default", "t", partition)
        self.expected.update((key, at) for at in range(self._ends[partition], self._ends[partition] + count))
        self._ends[partition] += count

    def state(self, batch: int) -> EnumeratorState:
        return decode(json.loads(self.log[batch])) if batch >= 0 else EnumeratorState()

    def kill(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process, self._last = None, None

    def batch(self, *, dies: str = "") -> bool:
        """Do a batch; return whether there was one. `dies`: in which step the process is killed, if any."""
        number = len(self.log) - 1
        process = self._started()
        if number < 0 or self.done > number:
            number += 1
            start = self.state(number - 1) if self._last is None else self._last
            self._clock.now_s += 60
            end = process.plan(start, limited=True)
            if end is start:
                return False
            self._last = end
            self.log.append(json.dumps(encode(end)))
        if dies == "planned":
            self.kill()
            return True
        start, end = self.state(number - 1), self.state(number)
        plan = plan_batch(start, end, offsets_min=0)
        tasks = plan_tasks(plan, tasks_min=end.settings.tasks_min, offsets_max=end.settings.task_offsets_max)
        for task in tasks:
            of_split: dict[SplitId, int] = {}
            for part in sorted(task.ranges):
                assert part.start >= of_split.get(part.split, 0), "the reader of a task takes no ranges that overlap"
                of_split[part.split] = part.end
        rows = Counter((part.split, at) for task in tasks for part in task.ranges for at in range(part.start, part.end))
        self.reads[number] = rows
        if self._replaces or number not in self.sink:
            self.sink[number] = rows
        if dies == "delivered":
            self.kill()
            return True
        self.done = number + 1
        return True

    def edit(self, kind: str, partition: int, percent: int, size: int) -> None:
        """Stop it, edit its checkpoint at that part of a log, and say what is to be delivered by that."""
        self.kill()
        end = self._ends[partition]
        first = percent * end // 100
        size = min(size, end - first)
        if not self.log or not size:
            return
        number = len(self.log) - 1
        is_done = self.done > number
        try:
            batch: OpenBatch = open_batch(self.state(number - (not is_done)), self.state(number), done=is_done)
            key = SplitId("default", "t", partition)
            told = Told(kind, "", 1)
            position = batch.end.splits[key].position or 0
            if kind == "rewind":
                after = rewind(batch, {key: first}, told)
                self.expected.update((key, at) for at in range(first, position))
                self._check_past(batch, after, key, first, number + is_done)
            elif kind in ("skip", "skips"):
                behind = first + size + 2
                other = key._replace(partition=(partition + 1) % PARTITIONS)
                begin = batch.end.splits[other].position or 0
                ranges = [Range(key, first, first + size)]
                if kind == "skips" and behind < end and begin < self._ends[other.partition]:
                    ranges += [Range(key, behind, behind + 1), Range(other, begin, begin + 1)]
                after = skip(batch, ranges, told)
                # What a batch that is not done has delivered already is there, unless its repetition replaces it.
                before = [counts for at, counts in self.sink.items() if at < number + is_done or not self._replaces]
                for one in ranges:
                    for at in range(one.start, one.end):
                        self.expected[one.split, at] = sum(counts[one.split, at] for counts in before)
            else:
                after = note(batch, told)
        except EditRefused:
            return
        assert check_edit(batch, after) == ()
        if is_done:
            self.log.append(json.dumps(encode(after)))
        else:
            self.log[-1] = json.dumps(encode(after))

    def _check_past(self, batch: OpenBatch, after: EnumeratorState, key: SplitId, to: int, number: int) -> None:
        """What is said of how much is read again from `to` on, and of what was left out, is true of all reads."""
        before = [*map(self.state, range(-1, number)), batch.start]
        come = past(before, after)
        read = {at for one, rows in self.reads.items() if one < number for split, at in rows if split == key}
        ranges = [part for part in batch_ranges(batch.start, batch.end) if part.split == key]
        read.update(at for part in ranges for at in range(part.start, part.end))
        (found,) = consequences(batch, after, come)
        assert found.again == sum(at >= to for at in read)
        end = max(state.splits[key].position or 0 for state in (*before, batch.end) if key in state.splits)
        left_out = {at for one in come.left_out(key, to) for at in range(one.start, one.end)}
        assert left_out == set(range(to, end)) - read

    def delivered(self) -> Counter[Offset]:
        """How often each offset is in the sink."""
        return sum(self.sink.values(), Counter())

    def _started(self) -> Coordinator:
        if self._process is None:

            def connect(_: ClusterOptions) -> ClusterPort:
                return self.cluster

            given = {"kafka.bootstrap.servers": "e:9092", "subscribe": "t", "readers": "2", **self._options}
            self._process = Coordinator(
                parse_options(given),
                readers_default=1,
                starting_default=Earliest(),
                connect=connect,
                scheduler=Scheduler(self._clock, self._clock),
            )
        return self._process


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, PARTITIONS - 1), st.integers(1, 12)),
        st.tuples(st.just("batch"), st.sampled_from(["", "planned", "delivered"])),
        st.tuples(st.just("kill")),
        st.tuples(
            st.sampled_from(["rewind", "skip", "skip", "skips", "skips", "note"]),
            st.integers(0, PARTITIONS - 1),
            st.integers(0, 99),
            st.integers(1, 8),
        ),
    ),
    min_size=3,
    max_size=24,
)
"""What happens, after each partition has got some records."""
OPTIONS: list[dict[str, str]] = [
    {},
    {"maxOffsetsPerTrigger": "7"},
    {"failOnDataLoss": "false"},
    {"plan": "level", "maxRecordsPerPartition": "3"},
    {"balance": "rate", "minPartitions": "4"},
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question asks the cluster anew."""
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(OPTIONS), st.booleans(), steps)
def test_each_offset_is_delivered_as_often_as_was_said(
    options: dict[str, str], replaces: bool, what: list[tuple[Any, ...]]
) -> None:
    query = Query(options, replaces=replaces)
    try:
        for partition in range(PARTITIONS):
            query.append(partition, 10)
        for kind, *how in what:
            if kind == "append":
                query.append(*how)
            elif kind == "batch":
                query.batch(dies=how[0])
            elif kind == "kill":
                query.kill()
            else:
                query.edit(kind, *how)
        for _ in range(200):
            if not query.batch():
                break
        assert query.delivered() == Counter({one: times for one, times in query.expected.items() if times})
    finally:
        query.kill()
