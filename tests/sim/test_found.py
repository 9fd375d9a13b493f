"""What the simulator found, each as the shortest story of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.machine.effects import ReportLoss
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    ReaderRemoved,
    ReadLogsPolled,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Range, SplitId
from evensplit.core.repair.edit import Told, open_batch, rewind, skip
from evensplit.core.repair.places import rewindable
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.settings import DECLARE, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.testing.sim.oracle.splits import Model
from tests.support.enumeration import EAST, listed, run, starts, twice

SPLIT = SplitId("east", "orders", 0)


def ranges(start: EnumeratorState, end: EnumeratorState) -> list[Range]:
    return [part for plan in plan_batch(start, end).readers for part in plan.ranges]


def started(splits: int = 1, readers: int = 1, *, bounded: bool = False) -> EnumeratorState:
    """Splits of one topic that begin at 5, assigned."""
    return run(
        SettingsChanged(Settings(bounded=bounded), loss=DECLARE),
        ParallelismChanged(readers),
        *(ReaderRegistered(reader, 1) for reader in range(readers)),
        ClustersListed((EAST,)),
        PartitionsListed("east", listed("orders", splits)),
        OffsetsResolved(starts("east", "orders", splits, at=5)),
    )[0]


def test_the_last_range_of_a_split_is_read_by_the_reader_that_had_it() -> None:
    """A finished split has no owner, and what it was finished by has to be read all the same."""
    start, _ = run(BatchPlanned({}), state=run(OffsetsResolved({}, {SPLIT: 9}), state=started(2, 2, bounded=True))[0])
    owner = start.splits[SPLIT].owner
    end, _ = run(BatchOpened(), BatchPlanned({SPLIT: 9}), state=start)
    assert end.splits[SPLIT].finished
    assert [(plan.reader, plan.ranges) for plan in plan_batch(start, end).readers] == [(owner, (Range(SPLIT, 5, 9),))]


def test_a_split_that_begins_and_ends_in_one_batch_is_read() -> None:
    end, _ = run(OffsetsResolved({}, {SPLIT: 9}), BatchPlanned({SPLIT: 9}), state=started(bounded=True))
    assert end.splits[SPLIT].owner is None
    assert ranges(EnumeratorState(), end) == [Range(SPLIT, 5, 9)]


def test_a_topic_that_was_created_anew_is_read_from_its_own_beginning() -> None:
    """Its first batch began at the position in the topic that is gone: records were skipped, or nothing was read."""
    start, _ = run(BatchPlanned({SPLIT: 100}), state=started())
    for position in (30, 300):
        end, _ = run(
            BatchOpened(),
            *twice(PartitionsListed("east", listed("orders", 1, "id-2"))),
            OffsetsResolved({SPLIT: 0}),
            BatchPlanned({SPLIT: position}),
            state=start,
        )
        assert ranges(start, end) == [Range(SPLIT, 0, position)]


def test_a_topic_that_was_taken_for_another_for_a_while_can_be_read_on() -> None:
    """Old answers name the id before; the next one is true again, and all of it is in one batch.

    One old answer is not believed. Two of them are, and what they deny is believed by another process only.
    """
    start, _ = run(BatchPlanned({SPLIT: 9}), state=started())
    old = PartitionsListed("east", listed("orders", 1, "id-0"))
    true = PartitionsListed("east", listed("orders", 1), answer=3)
    end, _ = run(BatchOpened(), replace(old, answer=1), true, BatchPlanned({SPLIT: 12}), state=start)
    assert ranges(start, end) == [Range(SPLIT, 9, 12)]
    taken, _ = run(BatchOpened(), *twice(old), true, OffsetsResolved({SPLIT: 5}), BatchPlanned({SPLIT: 7}), state=start)
    assert taken.splits[SPLIT].topic_id == "id-0"
    assert ranges(start, taken) == [Range(SPLIT, 5, 7)]
    again, _ = run(
        BatchOpened(),
        SettingsChanged(loss=DECLARE),
        ReaderRegistered(0, 1),
        ClustersListed((EAST,)),
        *twice(true),
        OffsetsResolved({SPLIT: 5}),
        BatchPlanned({SPLIT: 8}),
        state=decode(encode(taken)),
    )
    assert again.splits[SPLIT].topic_id == "id-1"
    assert ranges(taken, again) == [Range(SPLIT, 5, 8)]


def test_readers_that_were_removed_and_numbered_away_are_ordinary_ones_when_they_are_many_again() -> None:
    """They counted as removed for ever: loads were uneven although every reader was there."""
    state, _ = run(
        ReaderRemoved(3), ParallelismChanged(2), ParallelismChanged(4), ReaderRegistered(2, 2), state=started(4, 4)
    )
    assert state.participants == (0, 1, 2, 3)
    assert sorted(split.owner for split in state.splits.values() if split.owner is not None) == [0, 1, 2, 3]


def test_what_a_reader_has_read_further_than_the_checkpoint_says_is_not_read_again() -> None:
    """A split is adopted from an old report, and then the newer one comes."""
    start, _ = run(
        ParallelismChanged(1),
        ReaderRegistered(0),
        ClustersListed((EAST,)),
        PartitionsListed("east", ()),
        BatchPlanned({}),
    )
    end, _ = run(
        ReaderRegistered(0, 1, {SPLIT: 52}),
        ReaderRegistered(0, 2, {SPLIT: 53}),
        ClustersListed((EAST,)),
        PartitionsListed("east", listed("orders", 1)),
        BatchPlanned({SPLIT: 60}),
        state=decode(encode(start)),
    )
    assert ranges(start, end) == [Range(SPLIT, 53, 60)]


def test_a_split_that_is_rewound_in_its_first_batch_is_sound_in_a_process_before_it_opens_one() -> None:
    """The state kept where the split began, and not that it had been rewound: it stood before its beginning."""
    end, _ = run(BatchPlanned({SPLIT: 9}), state=started())
    batch = open_batch(EnumeratorState(), end, done=False)
    after = decode(encode(rewind(batch, {SPLIT: 2}, Told("rewind", "", 1))))
    events = SettingsChanged(), ParallelismChanged(1), TimePassed(1), BatchOpened(), BatchPlanned({SPLIT: 3})
    later, _ = run(*events, state=after)
    assert (later.splits[SPLIT].position, later.edits) == (3, ())


def test_what_was_read_to_its_end_in_a_cluster_that_is_gone_is_not_rewound() -> None:
    """It was to be read again in a cluster that was not read any more, and forgotten with it, unread."""
    end, _ = run(OffsetsResolved({}, {SPLIT: 9}), BatchPlanned({SPLIT: 9}), state=started(bounded=True))
    gone = ClustersListed(()), TimePassed(600_000), ClustersListed(())
    end, _ = run(TimePassed(1), BatchOpened(), *gone, BatchPlanned({}), state=end)
    assert end.clusters["east"].removed_at_ms is not None
    assert end.splits[SPLIT].finished
    batch = open_batch(end, end, done=True)
    assert rewindable(batch.end) == []
    with pytest.raises(EditRefused, match="nothing goes back"):
        rewind(batch, {SPLIT: 2}, Told("rewind", "", 1))


@pytest.mark.parametrize("first, to, lost", [(5, 7, 0), (5, 12, 0), (6, 8, 1)])
def test_what_was_left_out_is_not_told_as_skipped_by_tasks(first: int, to: int, lost: int) -> None:
    """The state said that the batch read it, so records of it that had gone were declared lost."""
    end, _ = run(BatchOpened(), BatchPlanned({SPLIT: 9}), state=started())
    batch = open_batch(EnumeratorState(), end, done=False)
    after = decode(encode(skip(batch, [Range(SPLIT, first, to)], Told("skip", "", 1))))
    poll = ReadLogsPolled("east", {SPLIT: end.splits[SPLIT].topic_id}, {SPLIT: to}, answer=2)
    opened = BatchOpened(repeated=batch_ranges(EnumeratorState(), after))
    declared = 0
    for event in (SettingsChanged(loss=DECLARE), opened, poll):
        after, effects = run(event, state=after)
        declared += sum(effect.loss.offsets_max or 0 for effect in effects if isinstance(effect, ReportLoss))
    assert declared == lost


def test_a_split_whose_end_is_behind_its_start_is_finished_where_it_starts() -> None:
    """Records expired and the end went back: there is nothing to read. The model took the end that was told."""
    before = run(
        SettingsChanged(Settings(bounded=True), loss=DECLARE),
        ParallelismChanged(1),
        ClustersListed((EAST,)),
        PartitionsListed("east", listed("orders", 1)),
    )[0]
    event = OffsetsResolved({SPLIT: 49}, {SPLIT: 15})
    model = Model(known={SPLIT: "id-1"})
    model.observe(event, before, ())
    split = run(event, state=before)[0].splits[SPLIT]
    assert split.finished
    assert split.position == model.stops[SPLIT] == 49
