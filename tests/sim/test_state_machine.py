"""The same core and the same laws under Hypothesis, which shrinks what breaks one to the fewest events."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from evensplit.core.machine.effects import ListPartitions, RefuseCluster, ReportLoss, ResolveStart
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    RecordsLost,
    SettingsChanged,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.invariants import check
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import (
    Cause,
    Cluster,
    EpochStart,
    EpochTable,
    ListedPartition,
    Loss,
    Readable,
    SplitId,
    Topic,
    Topics,
)
from evensplit.core.policies import POLICIES
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.settings import REBALANCES, SCOPES, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.impossible import impossible_events
from evensplit.testing.sim.oracle.laws import Laws, check_harmless, is_stale
from evensplit.testing.sim.oracle.splits import Model
from tests.sim.planted import PLANTED

CLUSTERS = ("a", "a-b")
TOPICS = ("b-c", "c")
READERS_MAX = 4

clusters = st.sampled_from(CLUSTERS)
readers = st.integers(0, READERS_MAX)
offsets = st.integers(0, 9)
splits = st.builds(SplitId, clusters, st.sampled_from(TOPICS), st.integers(0, 2))
readable: st.SearchStrategy[Readable] = st.one_of(
    st.builds(Cluster, clusters), st.builds(Topic, clusters, st.sampled_from(TOPICS)), splits
)
topic_ids = st.sampled_from(("x", "y", "z"))
listings = st.builds(
    lambda named, found: tuple(ListedPartition(topic, number, named[topic]) for topic, number in found),
    st.fixed_dictionaries(dict.fromkeys(TOPICS, topic_ids)),
    st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), unique=True, max_size=6),
)
"""One answer has one id for each topic."""
elections = st.lists(st.integers(0, 3), unique=True, max_size=3).map(lambda found: sorted(found, reverse=True))
tables = st.builds(
    lambda epochs, begins: tuple(map(EpochStart, epochs, sorted(begins, reverse=True))),
    elections,
    st.lists(offsets, unique=True, min_size=3, max_size=3),
)
"""The leader epochs of a log, the latest first."""
subscriptions = st.none() | st.builds(Topics, st.sampled_from((TOPICS, TOPICS[:1], TOPICS[1:])))


class Enumeration(RuleBasedStateMachine):
    """Any event at any time that a host could tell, with the oracle and the laws of the simulator."""

    def __init__(self) -> None:
        super().__init__()
        self.state = EnumeratorState()
        self.model = Model()
        self.laws = Laws(self.model)
        self.epoch = 0
        self.now_ms = 0
        self.answers = 0
        self.pending: dict[SplitId, str] = {}
        self.asked: dict[str, bool] = {}
        self.last: dict[str, PartitionsListed] = {}

    def tell(self, event: Event) -> Step:
        before = self.state
        done = step(before, event)
        if is_stale(event, before):
            self.model.expect_nothing()
            check_harmless(event, before, done)
        else:
            self.model.observe(event, before, done.effects)
        self.laws.check(event, before, done)
        self.state = done.state
        for effect in done.effects:
            if isinstance(effect, ListPartitions):
                self.asked[effect.cluster] = True
            if isinstance(effect, ResolveStart):
                self.pending.update((key, self.state.splits[key].topic_id) for key in effect.splits)
        if any(isinstance(one, RefuseCluster) or (isinstance(one, ReportLoss) and one.fatal) for one in done.effects):
            # That ends the run.
            self.driver_starts_again()
        return done

    @initialize(
        count=st.integers(1, READERS_MAX),
        policy=st.sampled_from(POLICIES),
        rebalance=st.sampled_from(REBALANCES),
        scope=st.sampled_from(SCOPES),
        retention_ms=st.sampled_from((0, 50, 1_000)),
        loss=st.sampled_from(("fail", "declare")),
        eligible=st.just({}) | st.dictionaries(readers, st.lists(readable, max_size=2).map(tuple), max_size=3),
    )
    def begin(
        self,
        count: int,
        policy: str,
        rebalance: str,
        scope: str,
        retention_ms: int,
        loss: str,
        eligible: dict[int, tuple[Readable, ...]],
    ) -> None:
        chosen = Settings(policy=policy, rebalance=rebalance, scope=scope, retention_ms=retention_ms)
        self.told = SettingsChanged(chosen, eligible, discovery_interval_ms=10, loss=loss)
        self.tell(self.told)
        self.tell(ParallelismChanged(count))

    @rule(count=st.integers(1, READERS_MAX))
    def parallelism_changes(self, count: int) -> None:
        self.tell(ParallelismChanged(count))

    @rule(reader=readers, late=st.integers(0, 3), back=st.integers(0, 3), generation=st.none() | st.integers(0, 9))
    def reader_registers(self, reader: int, late: int, back: int, generation: int | None) -> None:
        """With what it owns, or what it owned a while ago, as far as it was read then."""
        self.epoch += 1
        own = [split for split in self.state.splits.values() if split.owner == reader and split.position is not None]
        reported = {split.id: max(0, (split.position or 0) - back) for split in own}
        topic_ids = {split.id: split.topic_id for split in own}
        self.tell(ReaderRegistered(reader, max(0, self.epoch - late), reported, generation, topic_ids=topic_ids))

    @rule(reader=readers, key=splits, at=offsets, topic_id=st.sampled_from(("", "x", "y")))
    def reader_registers_with_a_split_of_its_own(self, reader: int, key: SplitId, at: int, topic_id: str) -> None:
        self.epoch += 1
        self.tell(ReaderRegistered(reader, self.epoch, {key: at}, None, topic_ids={key: topic_id}))

    @rule()
    def all_readers_register(self) -> None:
        for reader in range(self.state.readers):
            self.epoch += 1
            self.tell(ReaderRegistered(reader, self.epoch))

    @rule(reader=readers, late=st.integers(0, 3))
    def reader_is_lost(self, reader: int, late: int) -> None:
        self.tell(ReaderLost(reader, max(0, self.epoch - late)))

    @rule(reader=readers)
    def reader_is_removed(self, reader: int) -> None:
        if reader < self.state.readers:
            self.tell(ReaderRemoved(reader))

    @rule(reader=readers, key=splits, at=offsets)
    def split_is_given_back(self, reader: int, key: SplitId, at: int) -> None:
        self.tell(SplitsGivenBack(reader, {key: at}))

    @rule(named=st.sets(clusters), subscription=subscriptions, confirmed=st.booleans(), strategy=st.booleans())
    def clusters_are_listed(
        self, named: set[str], subscription: Topics | None, confirmed: bool, strategy: bool
    ) -> None:
        listed = tuple(ListedCluster(name, (name,), strategy, subscription) for name in sorted(named))
        self.tell(ClustersListed(listed, confirmed))

    def answerer(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.asked)))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), listed=listings, complete=st.booleans(), kafka_id=st.sampled_from(("", "", "k", "l")))
    def cluster_answers(
        self, data: st.DataObject, listed: tuple[ListedPartition, ...], complete: bool, kafka_id: str
    ) -> None:
        """One that was asked, perhaps before it was forgotten."""
        self.answers += 1
        cluster = self.answerer(data)
        self.last[cluster] = PartitionsListed(cluster, listed, complete, kafka_id, answer=self.answers)
        self.tell(self.last[cluster])

    @precondition(lambda self: self.last)
    @rule(data=st.data(), again=st.booleans(), passed_ms=st.sampled_from((0, 10)))
    def cluster_says_the_same(self, data: st.DataObject, again: bool, passed_ms: int) -> None:
        """By another answer, or by one that comes again, and perhaps late."""
        cluster = data.draw(st.sampled_from(sorted(self.last)))
        self.time_passes(passed_ms)
        if not again:
            self.answers += 1
            self.last[cluster] = replace(self.last[cluster], answer=self.answers)
        if cluster in self.last:
            self.tell(self.last[cluster])

    @precondition(lambda self: self.state.splits)
    @rule(
        data=st.data(),
        found=st.lists(st.tuples(offsets, st.none() | offsets, tables), min_size=12, max_size=12),
        tells_epochs=st.booleans(),
    )
    def logs_are_observed(
        self, data: st.DataObject, found: list[tuple[int, int | None, EpochTable]], tells_epochs: bool
    ) -> None:
        """Of one cluster, its leaders agreeing with nothing that was said before; perhaps once more."""
        cluster = data.draw(st.sampled_from(sorted(self.state.clusters)))
        ends: dict[SplitId, int] = {}
        starts: dict[SplitId, int] = {}
        epochs: dict[SplitId, EpochTable] = {}
        for key, (end, start, table) in zip(self.state.splits, found, strict=False):
            if key.cluster == cluster:
                ends[key] = end
                if start is not None:
                    starts[key] = start
                if tells_epochs:
                    epochs[key] = tuple(one for one in table if one.start <= end)
        self.answers += data.draw(st.integers(0, 1))
        self.tell(LogsObserved(cluster, ends, starts, self.answers, epochs))

    @rule(key=splits, cause=st.sampled_from(Cause), at=offsets, found=st.none() | offsets)
    def host_finds_a_loss(self, key: SplitId, cause: Cause, at: int, found: int | None) -> None:
        self.tell(RecordsLost((Loss(key, cause, at, found),)))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cluster_does_not_answer(self, data: st.DataObject) -> None:
        self.tell(ClusterPollFailed(self.answerer(data), "no broker answered"))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), start=offsets)
    def start_is_resolved(self, data: st.DataObject, start: int) -> None:
        """Perhaps for the second time, and perhaps of an incarnation that is gone."""
        key = data.draw(st.sampled_from(sorted(self.pending)))
        self.tell(OffsetsResolved({key: start}, topic_ids={key: self.pending[key]}))

    @precondition(lambda self: self.pending)
    @rule(start=offsets)
    def all_starts_are_resolved(self, start: int) -> None:
        self.tell(OffsetsResolved(dict.fromkeys(self.pending, start), topic_ids=dict(self.pending)))
        self.pending.clear()

    @rule(passed_ms=st.sampled_from((1, 10, 60, 2_000)))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.tell(TimePassed(self.now_ms))

    @rule(back=st.none() | st.integers(0, 2))
    def batch_is_opened(self, back: int | None) -> None:
        """With the state kept that the last batch ended at, or with an earlier one that was kept last."""
        self.tell(BatchOpened(None if back is None else max(0, self.state.revision - back)))

    @precondition(lambda self: self.state.settled and self.state.session.assigned)
    @rule(step_size=st.integers(0, 3))
    def batch_is_planned(self, step_size: int) -> None:
        """Owners are decided with it, if it was opened; so nobody has to have the splits before."""
        session, nobody = self.state.session, unreadable_splits(self.state)
        read = [
            split
            for split in self.state.load()
            if (self.state.participants and split.id not in nobody if session.open else split.owner is not None)
        ]
        self.tell(BatchPlanned({split.id: (split.position or 0) + step_size for split in read}))

    @rule()
    def driver_starts_again(self) -> None:
        """S10: what was written down is what there was, and equal states are written down equally."""
        text = json.dumps(encode(self.state))
        back = decode(json.loads(text))
        assert back == self.state
        assert json.dumps(encode(back)) == text
        self.state, self.model, self.now_ms = back, self.model.copy(), 0
        self.laws.restored(self.model)
        for kept in (self.pending, self.asked, self.last):
            kept.clear()
        self.tell(self.told)

    @rule(place=st.integers(0, 30))
    def the_impossible_is_refused(self, place: int) -> None:
        events = impossible_events(self.state)
        with pytest.raises(TransitionError):
            step(self.state, events[place % len(events)])

    @invariant()
    def the_core_finds_no_fault(self) -> None:
        assert check(self.state) == ()


Enumeration.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestEnumeration = Enumeration.TestCase


def test_the_machine_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug is found."""
    planted = PLANTED["later-by-strategy"]
    monkeypatch.setitem(Enumeration.tell.__globals__, "step", planted.rules.step)
    found = settings(max_examples=800, stateful_step_count=20, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises(Broken) as caught:
        run_state_machine_as_test(Enumeration, settings=found)
    assert caught.value.law in planted.laws
