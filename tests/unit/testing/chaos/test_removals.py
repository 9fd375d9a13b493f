"""Records that a fault removes are recorded as such: before they can be gone, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.testing.chaos.history.events import Event, RemovalBegan
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.workload import topics
from evensplit.testing.chaos.workload.topics import RETENTION, TOPIC_EXISTS, UNKNOWN_TOPIC, Topic, Topics

NO_ANSWER = -1


class FakeKafka:
    """A cluster whose first requests fail as it is told, and that notes what had been recorded at each."""

    brokers = (None,)

    def __init__(self, directory: Path, *failures: int) -> None:
        self._directory = directory
        self._failures = [*failures]
        self.offset = 7
        self.asked: list[tuple[str, Any, list[Event]]] = []

    def end_offsets(self, name: str) -> dict[int, int]:
        self._ask(name, None)
        return {0: self.offset, 1: self.offset + 1}

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        self._ask(name, dict(before))

    def set_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        self._ask(name, dict(config))

    def create_topic(self, name: str, *_: object) -> None:
        self._ask(name, None)

    def delete_topic(self, name: str) -> None:
        self._ask(name, None)

    def _ask(self, name: str, what: Any) -> None:
        self.asked.append((name, what, read_history(self._directory)))
        if self._failures:
            code = self._failures.pop(0)
            raise LocalKafkaError("no answer") if code == NO_ANSWER else BrokerError("east", "", code)


def life_of(kafka: FakeKafka, recorder: Recorder) -> tuple[Topics, Topic]:
    cluster = SimpleNamespace(kafka=kafka, replicas=1)
    return Topics(recorder, cast("Any", {"east": cluster})), Topic("east", "orders", "plain", 2, 1)


def removals(directory: Path) -> list[tuple[int, int]]:
    return [(one.partition, one.before_offset) for one in read_history(directory) if isinstance(one, RemovalBegan)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "AGAIN_AFTER_S", 0.0)


def test_records_are_deleted_after_it_is_recorded_from_when_and_up_to_where(tmp_path: Path) -> None:
    kafka = FakeKafka(tmp_path, NO_ANSWER, NO_ANSWER)
    with Recorder(tmp_path, "run") as recorder:
        life, topic = life_of(kafka, recorder)
        life.delete_records(topic, {0: 7, 1: 5})
    assert removals(tmp_path) == [(0, 7), (1, 5)]
    assert [(name, before) for name, before, _ in kafka.asked] == [("orders", {0: 7, 1: 5})] * 3
    assert all(len(known) == 2 for _, _, known in kafka.asked)


def test_what_retention_may_have_removed_is_all_that_was_written_until_it_was_over(tmp_path: Path) -> None:
    kafka = FakeKafka(tmp_path)
    with Recorder(tmp_path, "run") as recorder:
        life, topic = life_of(kafka, recorder)
        before_s = recorder.now_s
        with life.retained_by(topic, {"retention.ms": "500"}):
            kafka.offset = 20
            while_s = recorder.now_s
    assert [what for _, what, _ in kafka.asked] == [
        {"retention.ms": "500"},
        {"retention.ms": RETENTION["retention.ms"]},
        None,
    ]
    found = [one for one in read_history(tmp_path) if isinstance(one, RemovalBegan)]
    assert [(one.partition, one.before_offset) for one in found] == [(0, 20), (1, 21)]
    assert all(round(before_s, 4) <= one.at_s <= round(while_s, 4) for one in found)


def test_settings_of_retention_are_as_before_after_an_error(tmp_path: Path) -> None:
    kafka = FakeKafka(tmp_path)
    with Recorder(tmp_path, "run") as recorder:
        life, topic = life_of(kafka, recorder)
        with pytest.raises(ValueError, match="broken"), life.retained_by(topic, {"retention.bytes": "1"}):
            raise ValueError("broken")
    assert kafka.asked[1][1] == {"retention.bytes": RETENTION["retention.bytes"]}
    assert removals(tmp_path) == [(0, 7), (1, 8)]


@pytest.mark.parametrize(
    "request_of, failures, times",
    [
        # A topic that is not there any more is deleted; its records are not, on a broker that does not know it yet.
        (lambda life, topic: life.delete(topic), (NO_ANSWER, UNKNOWN_TOPIC), 2),
        (lambda life, topic: life.delete_records(topic, {0: 7}), (NO_ANSWER, UNKNOWN_TOPIC), 3),
        (lambda life, topic: life.create(topic), (NO_ANSWER, TOPIC_EXISTS), 2),
        # One that was there already was not created by a request that was refused.
        (lambda life, topic: life.create(topic), (TOPIC_EXISTS, TOPIC_EXISTS), 3),
    ],
    ids=["deleted", "records not deleted", "created", "not created"],
)
def test_only_a_lost_answer_counts_as_done_and_only_for_the_request_that_it_is_about(
    tmp_path: Path, request_of: Callable[[Topics, Topic], None], failures: tuple[int, ...], times: int
) -> None:
    kafka = FakeKafka(tmp_path, *failures)
    with Recorder(tmp_path, "run") as recorder:
        request_of(*life_of(kafka, recorder))
    assert len(kafka.asked) == times


def test_a_topic_is_drained_when_the_sink_has_all_of_it_or_it_took_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recorder(tmp_path, "run") as recorder:
        life, topic = life_of(FakeKafka(tmp_path), recorder)
        topic.undelivered.update({1, 2})
        looks = iter([False, True])
        life.delivered = lambda number: number == 1 or next(looks)
        assert life.drain(topic)
        monkeypatch.setattr(topics, "DONE_WITHIN_S", 0.05)
        topic.undelivered.add(3)
        life.delivered = lambda _: False
        assert not life.drain(topic)
