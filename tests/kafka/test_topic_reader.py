"""The reader of a chaos run sees what is committed, and says for how long it had to wait for the rest."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from evensplit.testing import LocalKafka
from evensplit.testing.chaos.history.events import ReadersWaited
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.job import topic_reader
from evensplit.testing.chaos.job.sinks import OF_HEADERS
from evensplit.testing.chaos.job.topic_reader import TopicReader
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

SAID = ("Ost", "orders", "3", "41", "1700000000000", "1700000000500", "1")


def test_what_is_committed_is_kept_and_waiting_is_told(
    east: LocalKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "TOLD_FROM_S", 0.0)
    east.create_topic(topic, 1)
    servers = east.bootstrap_servers
    producers = [Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{name}"}) for name in "ab"]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
    with (
        Recorder(tmp_path / "history", "run") as recorder,
        TopicReader(topic, 1, {"bootstrap.servers": servers, "log_level": 0}, tmp_path / "sink", recorder) as reader,
    ):
        wait_for(reader.sees_all, what="a topic without records")
        for producer, value in zip(producers, (b"first", b"second"), strict=True):
            headers: list[tuple[str, str | bytes | None]] = [
                (name, said.encode()) for name, said in zip(OF_HEADERS, SAID, strict=True)
            ]
            producer.produce(topic, value, partition=0, headers=headers)
            assert producer.flush(30) == 0
        producers[1].commit_transaction(30)
        assert not reader.sees_all()
        wait_for(lambda: reader.waits, what="a reader that waits")
        assert rows(tmp_path) == []
        producers[0].abort_transaction(30)
        wait_for(reader.sees_all, what="all records")
    reader.check()
    assert [tuple(row.values()) for row in rows(tmp_path)] == [
        ("Ost", "orders", 3, 41, 1_700_000_000_000, 1_700_000_000_500, 1, None, b"second", 0, 1)
    ]
    told = [one for one in read_history(tmp_path / "history") if isinstance(one, ReadersWaited)]
    assert [(one.partition, one.offset, one.over) for one in told] == [(0, 0, True)]


def test_what_stays_open_is_told_at_the_end(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    east.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": east.bootstrap_servers, "log_level": 0}
    with Recorder(tmp_path / "history", "run") as recorder:
        reader = TopicReader(topic, 1, settings, tmp_path / "sink", recorder)
        with reader:
            wait_for(lambda: reader.waits, what="a reader that waits")
        producer.abort_transaction(30)
    told = [one for one in read_history(tmp_path / "history") if isinstance(one, ReadersWaited)]
    assert [(one.partition, one.offset, one.over) for one in told] == [(0, 0, False)]


def rows(directory: Path) -> list[dict[str, object]]:
    """What the reader has kept."""
    return [
        row for file in sorted((directory / "sink").glob("*/*/*.parquet")) for row in pq.read_table(file).to_pylist()
    ]
