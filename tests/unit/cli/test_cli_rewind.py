"""`evensplit rewind`: where it goes back to, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.cli.repair.edit import outcome
from evensplit.cli.repair.where import EXPECTED, parse_where
from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, contents, put
from tests.support.commands import invoke
from tests.support.edited import BEGUN_MS, HOUR_MS, do, lines, ours, positions, shown_rows, states


def document(*arguments: object) -> dict[str, Any]:
    found = json.loads(invoke(*arguments, "--format", "json")[0])
    assert isinstance(found, dict)
    return found


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


def test_all_forms_are_in_the_help_and_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text('{"orders":{"0":12}}')
    shown, _ = invoke("rewind", "--help")
    rows = shown[shown.index("--to is one of") :].partition("\n\n")[0].splitlines()[1:]
    forms = [form for row in rows for form in re.split(" {2,}", row.strip())[0].split(", ")]
    assert forms[-3:] == ["batch:N", '{"orders":{"0":120}}', "file:/path"]
    for form in forms:
        said = form.replace("batch:N", "batch:1").replace("/path", f"{tmp_path}/kept.json")
        parse_where(click.Context(click.Command("x")), click.Option(["--to"]), said)
        kind = form if form.startswith("{") else form.partition(":")[0]
        assert kind in EXPECTED or form in ("90s", "1738324800000")


def test_an_age_is_counted_back_from_now(place: Path, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = invoke("rewind", place, "--to", "2h", code=1)
    assert re.search(
        r"nothing goes back: --to 2h is 20\d\d-\d\d-\d\d [0-9:]{8} UTC, by the timestamps of records", told
    )
    for partition, at in ((0, 30), (1, 25)):
        none = "has no record since then: its log ends at offset 40"
        assert f"; default/orders/{partition} {none}, and {at} is the next one to read" in told
    _, told = invoke("rewind", place, "--to", str(BEGUN_MS + 35 * HOUR_MS), code=1)
    assert "default/orders/0 has its first record since then at offset 35: its log ends at offset 40, and 30 is" in told
    now_s = (BEGUN_MS + 30 * HOUR_MS) / 1000
    monkeypatch.setattr(outcome, "time", SimpleNamespace(time=lambda: now_s))
    invoke("rewind", place, "--to", "2h", "--yes", "--assume-stopped")
    assert positions(place) == {"default/orders/0": 28, "default/orders/1": 25}


def test_of_many_partitions_without_such_a_record_the_first_are_named(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.add_partitions("orders", 9)
    state = states()[2]
    many = {
        (key := SplitId("default", "orders", number)): state.splits[KEY]._replace(id=key, position=0)
        for number in range(9)
    }
    place = checkpoint(tmp_path / "x", lines(states()[0]), lines(replace(state, splits=many)), committed=1)
    _, told = invoke("rewind", place, "--to", "2h", code=1)
    assert told.count("has no record since then") == 5
    assert "; … 9 partitions in all" in told


def figures(shown: str) -> tuple[list[str], list[tuple[str, str]]]:
    """What a dry run says of how much is read again: in the table, and in its sentence and note."""
    words = " ".join(shown.split())
    return [row[3] for row in shown_rows(shown) if len(row) == 4], re.findall(
        r"([0-9,]+) offsets? (?:is|are) read again|up to ([0-9,]+)", words
    )


def test_figures_hold_for_all_that_was_delivered_whatever_was_edited_before(place: Path, kafka: FakeKafka) -> None:
    to = '{{"orders":{{"0":{}}}}}'.format
    for at, again in ((20, "10"), (12, "18")):
        shown, _ = invoke("rewind", place, "--to", to(at), "--yes", "--assume-stopped")
        assert figures(shown) == ([again], [(again, ""), ("", again)])
    do(place, 3)
    # The batch of these edits is done, and nothing has been read again yet.
    shown, _ = invoke("rewind", place, "--to", to(5))
    assert figures(shown) == (["25"], [("25", ""), ("", "25")])
    found = document("rewind", place, "--to", to(5))
    assert (found["readAgain"], found["sources"][0]["partitions"][0]["readAgain"]) == (25, 25)
    assert "so 25 offsets are read again" in found["sources"][0]["edit"]["what"]


def test_what_was_left_out_is_read_for_the_first_time(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:30-34", "--yes")
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":20}}', "--yes", "--assume-stopped")
    assert figures(shown) == (["10"], [("10", ""), ("", "10")])
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":12}}')
    assert figures(shown) == (["18"], [("18", ""), ("", "18")])


def test_what_a_batch_reads_that_is_not_done_is_counted_with_what_is_read_again(tmp_path: Path) -> None:
    """The batch is repeated as it was, so its records come by it and, beyond the target, once more after it."""
    place = ours(tmp_path / "x", committed=1)
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":24,"1":12}}', "--yes", "--assume-stopped")
    assert shown_rows(shown) == [["default/orders/0", "30", "24", "6"], ["default/orders/1", "25", "12", "13"]]
    assert "The sink gets the records of up to 19 offsets a second time" in shown
    assert "Batch 2 was begun and not finished" in shown
    found = read_checkpoint(place)
    ranges = batch_ranges(found.batches[-2].ours["0"], found.newest.ours["0"])
    assert [part[1:] for part in ranges] == [(20, 30), (10, 25)]
    assert positions(place) == {"default/orders/0": 24, "default/orders/1": 12}


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
        ("yesterday", "'yesterday' is not a time; expected an age such as 2h, 30m or 1d, a time"),
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
        ("planned:", "'' is not a time; expected an age"),
        ("planned:earliest", "'earliest' is not a time; expected an age"),
        ("planned:batch:1", "'batch:1' is not a time; expected an age"),
        ("planned:1795960780", "expected milliseconds since 1970, which have 13 digits, or a time"),
    ],
)
def test_another_form_is_wrong_use(place: Path, to: str, said: str) -> None:
    _, told = invoke("rewind", place, "--to", to, code=2)
    assert said in told


@pytest.mark.parametrize(
    "to, said",
    [
        ("batch:7", "the first one that can be rewound to is 0, and the last 2. For others, say a time or offsets"),
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
