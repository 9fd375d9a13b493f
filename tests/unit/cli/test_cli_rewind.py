"""`evensplit rewind`: where it goes back to, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.cli.repair import carry_out
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, contents, put
from tests.support.commands import invoke
from tests.support.edited import BEGUN_MS, HOUR_MS, lines, ours, positions, states

KEY = SplitId("default", "orders", 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


def test_offsets_of_a_file_as_the_command_offsets_prints_them(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(invoke("offsets", place)[0])
    invoke("rewind", place, "--to", '{"orders":{"0":12,"1":3}}', "--yes")
    assert positions(place) == {"default/orders/0": 12, "default/orders/1": 3}
    _, told = invoke("rewind", place, "--to", f"file:{kept}", code=1)
    assert "nothing goes back: default/orders/0 is at 12, default/orders/1 is at 3" in told


@pytest.mark.parametrize(
    "to, expected",
    [
        ("2023-11-14T05:00:00Z", {"default/orders/0": 5, "default/orders/1": 7}),
        (str(BEGUN_MS + 20 * HOUR_MS), {"default/orders/0": 20, "default/orders/1": 20}),
        ("2023-11-15T04:00:00+00:00", {"default/orders/0": 28, "default/orders/1": 25}),
        ("earliest", {"default/orders/0": 0, "default/orders/1": 7}),
        ("group:billing", {"default/orders/0": 12, "default/orders/1": 25}),
        ("batch:1", {"default/orders/0": 10, "default/orders/1": 10}),
        ("batch:0", {"default/orders/0": 0, "default/orders/1": 0}),
        ("batch:2", {"default/orders/0": 20, "default/orders/1": 10}),
    ],
)
def test_where_to(place: Path, kafka: FakeKafka, to: str, expected: dict[str, int]) -> None:
    invoke("rewind", place, "--to", to, "--yes")
    assert positions(place) == expected


def test_the_time_that_is_meant_is_said(place: Path, kafka: FakeKafka) -> None:
    shown, _ = invoke("rewind", place, "--to", "2023-11-14T05:00:00+01:00")
    assert "Note: --to 2023-11-14T05:00:00+01:00 is 2023-11-14 04:00:00 UTC, by the timestamps of records." in shown


def test_an_age_is_counted_back_from_now(place: Path, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = invoke("rewind", place, "--to", "2h", code=1)
    assert "nothing goes back" in told
    now_s = (BEGUN_MS + 30 * HOUR_MS) / 1000
    monkeypatch.setattr(carry_out, "time", SimpleNamespace(time=lambda: now_s))
    invoke("rewind", place, "--to", "2h", "--yes", "--assume-stopped")
    assert positions(place) == {"default/orders/0": 28, "default/orders/1": 25}


def test_what_was_skipped_and_is_read_now_is_said(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:32-35", "--yes")
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":20}}')
    assert "4 offsets of these were left out by `evensplit skip orders/0:32-35`, and will be read now." in shown
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":34}}')
    assert "2 offsets of these were left out" in shown


def test_only_some(place: Path, kafka: FakeKafka) -> None:
    shown, _ = invoke("rewind", place, "--to", "batch:1", "--only", "default/orders/1", "--yes")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 10}
    assert "`evensplit rewind --to batch:1 --only default/orders/1`" in shown
    _, told = invoke("rewind", place, "--to", "batch:1", "--only", "west", code=1)
    assert "--only names west, of which the query reads nothing; it reads default/orders" in told


def test_offsets_that_are_gone_are_named(place: Path, kafka: FakeKafka) -> None:
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"1":3}}', "--bootstrap-servers", "h:1")
    assert "Note: default/orders/1: offsets 3 to 6 are not in its log any more, so it goes back to 7, where" in shown
    assert "gone unread" not in shown
    assert "The logs were not asked" not in shown


@pytest.mark.parametrize(
    "to, said",
    [
        ("yesterday", "'yesterday' is not a time; expected an age such as 2h, a time"),
        ("2025-01-31T12:00:00", "has no zone; with one it is as 2025-01-31T12:00:00Z"),
        ("1795960780", "1795960780 is 1970-01-21 18:52:40 UTC; expected milliseconds since 1970, which have 13 digits"),
        ("1970-01-01T05:00:00Z", "expected milliseconds since 1970, which have 13 digits, or a time"),
        ("{", "is not JSON"),
        ('{"orders":[1]}', "has no offsets; expected an age"),
        ("file:/no/such/file", "/no/such/file cannot be read"),
        ("batch:x", "expected an age"),
        ("batch:-1", "'batch:-1' names no batch, which has a number of 0 or more; expected an age"),
        ("batch:", "'batch:' names no batch, which has"),
        (f"batch:{10**18}", "names no batch"),
        ("group:", "'group:' names no consumer group; expected an age"),
    ],
)
def test_another_form_is_wrong_use(place: Path, to: str, said: str) -> None:
    _, told = invoke("rewind", place, "--to", to, code=2)
    assert said in told


@pytest.mark.parametrize(
    "to, said",
    [
        ("batch:7", "where batch 7 began is not known: of the batches that Spark has kept, 0 to 2 can be rewound to"),
        ('{"orders":{"9":1}}', "the offsets name what the query does not read: default/orders/9"),
        ('{"east":{"orders":{"0":1}}}', "the offsets name what the query does not read: east/orders/0"),
        ("group:nobody", "nothing goes back"),
    ],
)
def test_what_leads_nowhere_is_refused(place: Path, kafka: FakeKafka, to: str, said: str) -> None:
    before = contents(place)
    _, told = invoke("rewind", place, "--to", to, "--yes", code=1)
    assert said in told
    assert "ES-406" in told
    assert contents(place) == before


def test_a_cluster_that_does_not_answer_hinders(place: Path, kafka: FakeKafka) -> None:
    kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    _, told = invoke("rewind", place, "--to", "earliest", "--yes", code=1)
    assert "nobody is there" in told
    kafka.recover()
    kafka.hide_leader("orders", 1)
    _, told = invoke("rewind", place, "--to", "earliest", "--yes", code=1)
    assert "the logs of default/orders/1 are not known, as leaders do not answer" in told
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 25}
    invoke("rewind", place, "--to", "earliest", "--only", "default/orders/0", "--yes")


def test_a_batch_is_found_by_the_names_and_topics_of_today(place: Path) -> None:
    invoke("rename-cluster", place, "default", "eu", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    age(place)
    invoke("rewind", place, "--to", "batch:1", "--yes")
    assert positions(place) == {"eu/orders/0": 10, "eu/orders/1": 10}


def test_a_topic_that_was_created_anew_is_read_from_where_that_began(tmp_path: Path) -> None:
    first, second, third = states()
    anew = third.splits[KEY]._replace(topic_id="other", position=7, first=2, since=third.revision)
    log = [first, second, replace(third, splits={**third.splits, KEY: anew})]
    place = checkpoint(tmp_path / "x", *map(lines, log), committed=2)
    invoke("rewind", place, "--to", "batch:1", "--yes")
    assert positions(place) == {"default/orders/0": 2, "default/orders/1": 10}


def test_long_offsets_are_only_counted_in_the_record(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(text := json.dumps({"orders": {"0": 12, "1": 3}}) + " " * 200)
    many = [part for _ in range(25) for part in ("--only", "default/orders")]
    shown, _ = invoke("rewind", place, "--to", text, *many, "--yes")
    said = "--to {offsets of 2 partitions}" + " --only default/orders" * 20 + " (… 25 in all)"
    assert read_checkpoint(place).newest.ours["0"].edits[-1].said == said
    assert f"`evensplit rewind {said}`: 2 partitions go back" in " ".join(shown.split())
    assert positions(place) == {"default/orders/0": 12, "default/orders/1": 3}
    invoke("undo", place, "--yes", "--assume-stopped")
    invoke("rewind", place, "--to", f"file:{kept}", "--yes")
    assert read_checkpoint(place).newest.ours["0"].edits[-1].said == f"--to file:{kept}"


def test_many_partitions_have_a_row_for_each_topic(tmp_path: Path) -> None:
    state = states()[2]
    many = {
        (key := SplitId("default", "orders", number)): state.splits[KEY]._replace(id=key, position=100 + number)
        for number in range(60)
    }
    wide = EnumeratorState(2, state.clusters, many, state.settings, 1, True, (0, 1), revision=state.revision)
    place = checkpoint(tmp_path / "x", lines(states()[0]), lines(wide), committed=1)
    shown, _ = invoke("rewind", place, "--to", json.dumps({"orders": {str(number): 100 for number in range(60)}}))
    assert [row.split()[:4] for row in shown.splitlines() if row.strip().startswith("default/orders")] == [
        ["default/orders:", "59", "partitions", "7,670"]
    ]
