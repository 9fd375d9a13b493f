"""Whatever happens to a host of the enumerator, each record arrives once, and the owners are what they have to be.

The machine knows `evensplit.enumerator` only: what it finds is what any host would find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import evensplit.enumerator as en
from tests.support.hosting import INTERVAL_MS, Host

pytestmark = pytest.mark.lengthy

CLUSTERS, TOPICS = ("east", "west"), ("t", "u")
READERS_MAX = 4
RATED_MS = 90_000
"""So long after the first batch that reads something, the next one gives splits rates."""

clusters = st.sampled_from(CLUSTERS)
numbers = st.integers(0, READERS_MAX - 1)
wanted = st.dictionaries(clusters, st.sampled_from((("t",), ("u",), TOPICS)), max_size=2)
EVERYTHING = dict.fromkeys(CLUSTERS, TOPICS)


class Hosting(RuleBasedStateMachine):
    """Any host: clusters that come, fail and go, readers that do, and a host that dies at any order."""

    host: Host

    @initialize(
        readers=st.integers(1, READERS_MAX),
        policy=st.sampled_from(("balanced", *en.POLICIES)),
        rebalance=st.sampled_from(("always", *en.REBALANCES)),
        scope=st.sampled_from(en.SCOPES),
        balance=st.sampled_from(en.BALANCES),
        capacities=st.dictionaries(numbers, st.integers(1, 5), max_size=2),
        moves_per_hour=st.none() | st.integers(0, 4),
        retention_ms=st.sampled_from((0, 3 * INTERVAL_MS, 10**9)),
        bounded=st.booleans(),
        fenced=st.booleans(),
    )
    def begin(self, readers: int, fenced: bool, capacities: dict[int, int], **chosen: object) -> None:
        chosen["capacities"] = tuple(sorted(capacities.items()))
        if chosen["balance"] == "rate":
            chosen["policy"] = "sticky" if chosen["policy"] == "sticky" else "balanced"
        self.host = Host(en.Settings(**chosen), readers, fenced=fenced)  # type: ignore[arg-type]
        for cluster in CLUSTERS:
            self.partition_appears(cluster, "t", 0, 3)

    @rule(cluster=clusters, topic=st.sampled_from(TOPICS), begin=st.integers(0, 2), count=st.integers(0, 4))
    def partition_appears(self, cluster: str, topic: str, begin: int, count: int) -> None:
        host, known = self.host, [key for key in self.host.begins if key[:2] == (cluster, topic)]
        if len(known) < 3:
            split = en.SplitId(cluster, topic, len(known))
            host.begins[split], host.logs[split] = begin, begin + count

    @rule(place=st.integers(0, 11), count=st.integers(1, 4))
    def records_are_written(self, place: int, count: int) -> None:
        keys = sorted(self.host.logs)
        if keys:
            self.host.logs[keys[place % len(keys)]] += count

    @rule(place=st.integers(0, 11))
    def partition_is_not_listed_any_more(self, place: int) -> None:
        keys = sorted(self.host.logs)
        if keys:
            key = keys[place % len(keys)]
            self.host.gone[key] = self.host.logs.pop(key)

    @rule()
    def partitions_are_listed_again(self) -> None:
        self.host.logs.update(self.host.gone)
        self.host.gone.clear()

    @rule(
        topics=wanted, passed_ms=st.sampled_from((0, 1, INTERVAL_MS, 4 * INTERVAL_MS, RATED_MS)), complete=st.booleans()
    )
    def clusters_are_listed(self, topics: dict[str, tuple[str, ...]], passed_ms: int, complete: bool) -> None:
        self.host.list(topics, passed_ms, complete=complete)

    @rule()
    def all_clusters_are_listed_and_answer(self) -> None:
        self.host.list(EVERYTHING, INTERVAL_MS)
        self.clusters_answer()
        self.host.resolve()

    @rule()
    def clusters_answer(self) -> None:
        for cluster in sorted(self.host.asked):
            self.host.answer(cluster)

    @rule(cluster=clusters)
    def cluster_does_not_answer(self, cluster: str) -> None:
        if cluster in self.host.asked:
            self.host.fail(cluster)

    @rule(cluster=clusters)
    def logs_are_observed(self, cluster: str) -> None:
        if cluster in self.host.state.clusters:
            self.host.observe(cluster)

    @rule()
    def starts_are_resolved(self) -> None:
        self.host.resolve()

    @rule(number=numbers)
    def reader_starts(self, number: int) -> None:
        self.host.start(number)

    @rule(number=numbers, reports=st.booleans())
    def reader_registers(self, number: int, reports: bool) -> None:
        self.host.register(number, reports=reports)

    @rule()
    def all_readers_start(self) -> None:
        for number in range(self.host.readers):
            self.host.start(number)
            self.host.register(number)

    @rule(number=numbers)
    def reader_dies(self, number: int) -> None:
        if number in self.host.processes:
            self.host.processes[number].alive = False

    @rule(number=numbers, gives_back=st.booleans())
    def reader_is_lost(self, number: int, gives_back: bool) -> None:
        self.host.lose(number, gives_back=gives_back)

    @rule(number=numbers, epoch=st.integers(0, 3))
    def loss_of_earlier_reader_is_told(self, number: int, epoch: int) -> None:
        process = self.host.processes.get(number)
        if process is not None and process.registered and epoch < process.epoch:
            self.host.tell(en.ReaderLost(number, epoch))

    @rule(number=numbers)
    def reader_is_removed(self, number: int) -> None:
        self.host.remove(number)

    @rule(readers=st.integers(1, READERS_MAX))
    def parallelism_changes(self, readers: int) -> None:
        self.host.rescale(readers)

    @rule(most=st.integers(1, 3), given_up=st.booleans())
    def readers_read(self, most: int, given_up: bool) -> None:
        """Those of the host, or those that nobody expects any more."""
        for process in self.host.given_up if given_up else list(self.host.processes.values()):
            self.host.read(process, most)

    @rule(number=numbers)
    def reader_is_at_the_end(self, number: int) -> None:
        if self.host.fenced and number in self.host.processes:
            self.host.finish(self.host.processes[number])

    @rule(keep=st.booleans())
    def positions_are_told(self, keep: bool) -> None:
        self.host.checkpoint(keep=keep)

    @rule(heavy=st.integers(0, 11))
    def rates_are_measured(self, heavy: int) -> None:
        """All readers are there, and have read something, twice, with a while in between."""
        self.all_clusters_are_listed_and_answer()
        self.all_readers_start()
        for _ in range(2):
            for place, key in enumerate(sorted(self.host.logs)):
                self.host.logs[key] += 9 if place == heavy else 1 + place % 3
            self.readers_read(10**6, given_up=False)
            self.host.checkpoint(keep=False)
            self.host.now_ms += RATED_MS
            self.host.tell(en.TimePassed(self.host.now_ms))

    @rule()
    def state_is_kept(self) -> None:
        self.host.keep()

    @rule()
    def host_dies(self) -> None:
        self.host.begin()

    @rule(orders=st.integers(0, 12))
    def host_will_die(self, orders: int) -> None:
        self.host.orders_left = orders

    @rule()
    def world_is_quiet(self) -> None:
        """Everything is listed, every reader is there: then all is read, and every split has an owner."""
        host = self.host
        host.orders_left = None
        self.partitions_are_listed_again()
        for _ in range(4):
            self.all_clusters_are_listed_and_answer()
            for number in range(host.readers):
                if number in host.processes and not host.processes[number].alive:
                    host.lose(number, gives_back=False)
            self.all_readers_start()
            self.readers_read(10**6, given_up=False)
            host.checkpoint(keep=True)
        for key in host.logs:
            split = host.state.splits[key]
            end = host.logs[key] if split.stop is None else split.stop
            assert host.records.get(key, []) == list(range(host.begins[key], end)), f"{key} was not read once"
            assert (split.finished, split.owner) == (host.settings.bounded, host.holders.get(key))
            assert split.finished or split.owner is not None
        assert all(proof.even for proof in en.evenness(host.state, host.state) if proof.promised)
        assert en.step(host.state, en.BatchPlanned({})).effects == ()

    def teardown(self) -> None:
        if hasattr(self, "host") and self.host.sound:
            self.world_is_quiet()


TestHosting = Hosting.TestCase
TestHosting.settings = settings(max_examples=60, stateful_step_count=40)


def without_revokes(effect: en.Effect) -> en.Effect | None:
    return None if isinstance(effect, en.Revoke) else effect


def one_further(effect: en.Effect) -> en.Effect | None:
    """A split that moves begins after the next record."""
    moves = isinstance(effect, en.Assign) and effect.previous not in (None, effect.reader)
    return replace(effect, position=effect.position + 1) if isinstance(effect, en.Assign) and moves else effect


@pytest.mark.parametrize("broken", [without_revokes, one_further])
def test_the_machine_can_fail(broken: Callable[[en.Effect], en.Effect | None], monkeypatch: pytest.MonkeyPatch) -> None:
    right = en.step

    def wrong(state: en.EnumeratorState, event: en.Event) -> en.Step:
        done = right(state, event)
        return replace(done, effects=tuple(one for effect in done.effects if (one := broken(effect)) is not None))

    monkeypatch.setattr(en, "step", wrong)
    found = settings(
        max_examples=400,
        stateful_step_count=30,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
    )
    wrong_ways = r"is given to|is assigned at|is retained: it is not to be read"
    with pytest.raises((AssertionError, en.TransitionError), match=wrong_ways):
        run_state_machine_as_test(Hosting, settings=found)
