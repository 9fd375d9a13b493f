"""What tasks are told of the leader epochs around what a batch reads."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

from evensplit.core.batch.plan import ReaderPlan
from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.options.reading import ReadOptions
from evensplit.spark.task.partition import ReaderPartition, input_partitions

ONE, OTHER = SplitId("east", "t", 0), SplitId("east", "t", 1)
READING = ReadOptions(
    columns=("value",), fail_on_data_loss=True, null_timestamps=False, batch_bytes_max=1 << 20, poll_timeout_ms=None
)


def state(revision: int = 1, **splits: Any) -> Any:
    """A state as far as it is looked at: position, epoch and topic id of each split; all began at revision 1."""
    keys = {"one": ONE, "other": OTHER}
    known = {
        keys[name]: SimpleNamespace(position=position, epoch=epoch, topic_id=topic_id, since=1)
        for name, (position, epoch, topic_id) in splits.items()
    }
    return SimpleNamespace(revision=revision, splits=known, clusters={"east": SimpleNamespace(kafka_id="k")})


def partitions(start: Any, end: Any, *tasks: tuple[Range, ...]) -> list[ReaderPartition]:
    plans = [ReaderPlan(number, ranges) for number, ranges in enumerate(tasks)]
    settings = {"east": ClientSettings(("b:1",))}
    return input_partitions(plans, end, settings, READING, start=start)


def test_every_task_gets_those_of_its_splits_for_the_whole_batch() -> None:
    start, end = state(one=(10, 3, "id"), other=(0, None, "id")), state(one=(40, 5, "id"), other=(7, 5, "id"))
    first, second = partitions(
        start, end, (Range(ONE, 20, 40), Range(OTHER, 0, 7)), (Range(ONE, 15, 20), Range(ONE, 10, 15))
    )
    assert first.epochs == {ONE: RangeEpochs(10, 3, 40, 5), OTHER: RangeEpochs(0, -1, 7, 5)}
    assert second.epochs == {ONE: RangeEpochs(10, 3, 40, 5)}
    again = pickle.loads(pickle.dumps(first))
    assert vars(again) == vars(first)
    assert [type(one) for one in again.ranges] == [Range, Range]
    assert [(type(split), type(one)) for split, one in again.epochs.items()] == [(SplitId, RangeEpochs)] * 2


def test_epochs_of_other_offsets_or_another_topic_are_left_out() -> None:
    """Reading begins elsewhere where records were lost, and anew where the topic is a new one."""
    part = (Range(ONE, 10, 40),)
    end = state(one=(40, 5, "id"))
    for start in (None, state(), state(one=(9, 3, "id")), state(one=(10, 3, "former")), state(one=(10, None, "id"))):
        (found,) = partitions(start, end, part)
        assert found.epochs == {ONE: RangeEpochs(10, -1, 40, 5)}
    (found,) = partitions(state(one=(10, 3, "id")), state(one=(41, 5, "id")), part)
    assert found.epochs == {ONE: RangeEpochs(10, 3, 40, -1)}
    (found,) = partitions(state(one=(10, None, "id")), state(one=(40, None, "id")), part)
    assert found.epochs == {}


def test_a_split_that_began_anew_at_the_same_offset_has_no_epoch_before_it() -> None:
    """An unclean election cut the log off there and before, and what was read up to there is not in it any more."""
    start, end = state(one=(80, 2, "id")), state(revision=2, one=(120, 5, "id"))
    end.splits[ONE].since = 2
    (found,) = partitions(start, end, (Range(ONE, 80, 120),))
    assert found.epochs == {ONE: RangeEpochs(80, -1, 120, 5)}
