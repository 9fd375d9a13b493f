"""One run of the shipped reader over a simulated cluster, all chosen by one seed, and held against the model."""

from __future__ import annotations

import base64
import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

import pyarrow as pa

from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.errors import EvenSplitError, SimulationFailed
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.options.client import ClientSettings
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.fetch.broker import SimulatedBroker
from evensplit.testing.sim.fetch.cluster import FAULTS, Cluster
from evensplit.testing.sim.fetch.expected import CLUSTER, Expected, is_overdue_right, is_right
from evensplit.testing.sim.fetch.log import Log
from evensplit.testing.sim.fetch.network import SimulatedClock, SimulatedNetwork

TASKS_MAX = 2
STORY_LINES = 40
STYLES = ("plain", "plain", "compacted", "transactional")
FETCH_VERSIONS = (4, 7, 10, 11, 12, 12, 12, 13, 13, 13)
EPOCHS_TOLD_FETCH = 11
"""The version of Fetch in Kafka 2.3, the first whose brokers tell the driver the epochs of a log (KIP-320)."""

CALM_S = 5.0
"""How much longer than its deadlines a reader may take to end."""


class FetchSimulationFailed(SimulationFailed):
    """A simulated read broke a law; `law` is F1 .. F6, or `crash`."""

    @property
    def again(self) -> str:
        """How to see it again."""
        return f"again: evensplit simulate --part fetch --seed {self.seed}"


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What one run did. `ends`: how its reads ended. `trace`: its schedule, a line each. `digest` is of all of that."""

    seed: int
    events: int
    """Messages between the reader and brokers, a request or an answer each, and faults."""

    digest: int
    rows: int
    skipped: int
    seconds: float
    faults: dict[str, int]
    ends: dict[str, int]
    trace: tuple[str, ...]


def simulate_fetch(seed: int) -> FetchReport:
    """Run one seed: a task, or two with the connections of the first one.

    Raises FetchSimulationFailed for the first law that does not hold.
    """
    run = FetchSimulation(seed)
    try:
        for _ in range(run.random.randint(1, TASKS_MAX)):
            run.read()
    except Broken as broken:
        story = tuple(run.cluster.trace[-STORY_LINES:])
        raise FetchSimulationFailed(seed, broken.law, len(run.cluster.trace), 10**9, broken.detail, story) from broken
    return run.report()


class FetchSimulation:
    """The state of one run."""

    def __init__(self, seed: int, faults: frozenset[str] | None = None) -> None:
        self.seed = seed
        # Not for secrets: the same seed has to give the same run.
        self.random = random = Random(seed)  # noqa: S311
        share = random.choice((0.0, 0.1, 0.3, 0.6))
        drawn = frozenset(name for name in FAULTS if random.random() < share)
        self.clock = SimulatedClock()
        self.network = SimulatedNetwork(self.clock)
        nodes = random.randint(1, 4)
        self.cluster = Cluster(random, drawn if faults is None else faults, nodes, self.network)
        self.fetch_highest = random.choice(FETCH_VERSIONS)
        self.ids = self.fetch_highest > 12 or (self.fetch_highest == 12 and random.random() < 0.7)
        self.limits = LaneLimits(
            rows_max=random.choice((1, 5, 50)),
            bytes_max=random.choice((200, 100_000)),
            response_bytes_max=random.choice((500, 5_000, 100_000)),
            batch_bytes_max=3_000,
        )
        servers = tuple(f"b{number}:9092" for number in range(random.randint(1, nodes)))
        self.settings = ClientSettings(
            servers,
            client_rack=random.choice(("", "r")),
            request_timeout_ms=random.choice((4_000, 30_000)),
            poll_timeout_ms=random.choice((None, 6_000)),
            retry_backoff_ms=random.choice((20, 100)),
            max_partition_fetch_bytes=random.choice((300, 3_000, 100_000)),
            fetch_max_wait_ms=random.choice((0, 500)),
            read_committed=random.random() < 0.5,
        )
        self.pool = Pool(network=self.network)
        for number in range(nodes):
            bytes_max = max(self.limits.response_bytes_max, self.limits.batch_bytes_max)
            broker = SimulatedBroker(self.cluster, number, self.fetch_highest, ids=self.ids, bytes_max=bytes_max)
            broker.progress = self.note_progress
            self.network.peers[broker.address] = broker
        self._rows = self._skipped = 0
        self._ends: Counter[str] = Counter()
        for topic in ("t", "u")[: random.randint(1, 2)]:
            self._create(topic)

    def _create(self, topic: str) -> None:
        self.cluster.create(topic, [self.random.choice(STYLES) for _ in range(self.random.randint(1, 3))], 25)
        for placed in self.cluster.view[topic].partitions:
            log = placed.log
            for fault, size in (("large", 4_000), ("huge", 1_500_000)):
                if self.cluster.strikes(fault, 0.2):
                    log.grow(self.random, placed.epoch, "plain", size)
                    self.cluster.note(f"{log.name}: a record batch of {len(log.batches[-1].raw)} bytes")
            if "remote" in self.cluster.faults and self.fetch_highest > 12:
                # Brokers before Kafka 3.0 cannot have it.
                log.local = min(self.random.randint(0, log.end), log.newest)

    def note_progress(self) -> None:
        """The reader has got on: so long it has from now."""
        timeouts_ms = 2 * self.settings.progress_timeout_ms + self.settings.request_timeout_ms
        self.clock.stalled_at_us = self.clock.now_us + 1000 * timeouts_ms + int(CALM_S * 1e6)

    def read(self) -> None:
        """One task: plan ranges by the truth, and read them."""
        random, cluster = self.random, self.cluster
        expected = self._plan()
        if not expected:
            return
        skip_lost, known = random.random() < 0.5, self.ids and random.random() < 0.8
        told = [one for one in expected.values() if random.random() < 0.8 and self.fetch_highest >= EPOCHS_TOLD_FETCH]
        for one in expected.values():
            one.epochs_known, one.id_known, one.by_id = one in told, known, known and self.fetch_highest > 12
        cluster.note(f"read {[part for one in expected.values() for part in one.ranges]} {self.settings} {self.limits}")
        cluster.note(f"skip_lost {skip_lost}, ids {known}, epochs {[one.epochs for one in told]}")
        begun_us = self.clock.now_us
        self.note_progress()
        with _warnings(cluster, expected) as losses:
            try:
                batches = read_ranges(
                    [part for one in expected.values() for part in one.ranges],
                    {CLUSTER: self.settings},
                    columns=COLUMNS,
                    topic_ids={one.split[:2]: id_text(one.topic_id.bytes) for one in expected.values() if known},
                    cluster_ids={CLUSTER: "simulated"} if random.random() < 0.5 else None,
                    epochs={one.split: one.epochs for one in told},
                    skip_lost=skip_lost,
                    limits=self.limits,
                    pool=self.pool,
                )
                for batch in batches:
                    self._take(batch, expected)
                    if self.cluster.strikes("left", 0.1):
                        self._ends["left"] += 1
                        batches.close()  # type: ignore[attr-defined]
                        return
            except Broken:
                raise
            except EvenSplitError as error:
                self._judge(error, expected, begun_us, skip_lost=skip_lost)
            except Exception as error:
                raise Broken("crash", repr(error)) from error
            else:
                self._ends["read"] += 1
                losses.check(skip_lost=skip_lost)
                for one in expected.values():
                    one.finish()
        losses.check(skip_lost=skip_lost)
        self._skipped += losses.skipped
        self.clock.stalled_at_us = 0

    def _plan(self) -> dict[SplitId, Expected]:
        random, planned = self.random, {}
        for name, topic in self.cluster.view.items():
            for number, placed in enumerate(topic.partitions):
                log = placed.log
                for producer in sorted(log.open):
                    wait_us, how = self.cluster.lasting_us(2.0), random.choice(("commit", "abort"))
                    self.clock.after_us(wait_us, partial(_end, log, producer, how))
                bounds = sorted(random.randint(log.start, log.end) for _ in range(random.choice((2, 2, 4))))
                if random.random() < 0.4:
                    bounds = [log.start, log.end]
                split = SplitId(CLUSTER, name, number)
                ranges = [Range(split, *pair) for pair in zip(bounds[::2], bounds[1::2], strict=True)]
                epochs = RangeEpochs(bounds[0], log.epoch_before(bounds[0]), bounds[-1], log.epoch_before(bounds[-1]))
                if bounds[-1] > bounds[0]:
                    planned[split] = Expected(self.cluster, split, topic.id, log, ranges, epochs, self.settings)
        if any(one.log.open for one in planned.values()):
            self.cluster.troubled_until_us = max(self.cluster.troubled_until_us, self.clock.now_us + 2_000_000)
        return planned

    def _take(self, batch: pa.RecordBatch, expected: dict[SplitId, Expected]) -> None:
        self.note_progress()
        if not batch.num_rows:
            raise Broken("F6", "a batch without rows was handed out")
        if batch.num_rows > 1 and batch.nbytes > 4 * self.limits.bytes_max + 200 * batch.num_rows:
            raise Broken("F6", f"a batch of {batch.num_rows} rows has {batch.nbytes} bytes")
        rows = list(zip(*(_cells(batch, name) for name in COLUMNS), strict=True))
        for key, value, topic, partition, offset, timestamp, kind, headers, cluster in rows:
            split = SplitId(cluster, topic, partition)
            if split not in expected:
                raise Broken("F2", f"a record of {split} came, which was not asked for")
            listed = None if headers is None else tuple((one["key"], one["value"]) for one in headers)
            expected[split].take(offset, (timestamp, kind, key, value, listed), self.limits.batch_bytes_max)
        self._rows += len(rows)
        self.cluster.note(f"rows {[(row[2], row[3], row[4]) for row in rows]} {zlib.crc32(repr(rows).encode()):08x}")
        if self.cluster.strikes("idle", 0.1, 1_000_000):
            wait_us = self.cluster.lasting_us(20)
            self.cluster.note(f"the rows are worked on for {wait_us / 1e6:.3f} s")
            self.clock.stalled_at_us += wait_us
            self.clock.pass_us(wait_us)
            for socket in list(self.network.sockets.values()):
                if self.random.random() < 0.5:
                    socket.break_off("closed")

    def _judge(
        self, error: EvenSplitError, expected: dict[SplitId, Expected], begun_us: int, *, skip_lost: bool
    ) -> None:
        told = f"{type(error).__name__}: {error}"
        self.cluster.note(told)
        self._ends[type(error).__name__] += 1
        in_time_us = 1000 * (2 * self.settings.progress_timeout_ms + self.settings.request_timeout_ms)
        troubled = self.cluster.troubled_until_us >= max(begun_us, self.clock.now_us - in_time_us)
        right = is_right(error, expected, self.limits.batch_bytes_max, skip_lost=skip_lost)
        if right is None:
            right = troubled and is_overdue_right(error, begun_us, self.clock.now_us, self.settings)
        if not right:
            raise Broken("F4", f"there is no reason for this error: {told}")

    def report(self) -> FetchReport:
        """See `FetchReport`."""
        trace = tuple(self.cluster.trace)
        faults = {name: self.cluster.happened[name] for name in FAULTS}
        seconds = self.clock.now_us / 1e6
        digest = zlib.crc32("\n".join(trace).encode())
        events = self.cluster.messages + sum(faults.values())
        ends = dict(self._ends)
        return FetchReport(self.seed, events, digest, self._rows, self._skipped, seconds, faults, ends, trace)


class _Losses(logging.Handler):
    """Takes the reader's warnings: what is skipped."""

    def __init__(self, cluster: Cluster, expected: dict[SplitId, Expected]) -> None:
        super().__init__(logging.WARNING)
        self._cluster = cluster
        self._expected = expected
        self.skipped = 0
        self._failure: Broken | None = None

    def check(self, *, skip_lost: bool) -> None:
        """Raise what is wrong with the warnings so far."""
        if self._failure is not None:
            raise self._failure
        if not skip_lost and self.skipped:
            raise Broken("F3", "something was skipped, and skip_lost is off")

    def emit(self, record: logging.LogRecord) -> None:
        """A warning. What is wrong with it is raised when the read is over."""
        assert isinstance(record.args, tuple)
        self._cluster.note(record.getMessage())
        cluster, topic, partition, found, skipped = record.args
        self.skipped += int(str(skipped))
        try:
            self._expected[SplitId(str(cluster), str(topic), int(str(partition)))].skip(str(found), int(str(skipped)))
        except Broken as broken:
            self._failure = self._failure or broken


@contextmanager
def _warnings(cluster: Cluster, expected: dict[SplitId, Expected]) -> Iterator[_Losses]:
    log, handler = logging.getLogger("evensplit"), _Losses(cluster, expected)
    log.addHandler(handler)
    try:
        yield handler
    finally:
        log.removeHandler(handler)


def id_text(raw: bytes) -> str:
    """A topic's id as listings have it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _end(log: Log, producer: int, how: str) -> None:
    if producer in log.open:
        log.end_transaction(producer, how, log.batches[-1].epoch)


def _cells(batch: pa.RecordBatch, name: str) -> list[object]:
    column = batch.column(name)
    return list((column.cast(pa.int64()) if name == "timestamp" else column).to_pylist())
