"""`evensplit inspect`, `top` and `report`: what a checkpoint tells, and what is said of one that cannot be read."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evensplit.checkpoint.history import CheckpointHistory, read_history
from evensplit.cli.history import top
from evensplit.cli.live import log_ends
from evensplit.cli.live.lags import LogEnds
from evensplit.core.model import Held
from evensplit.core.state.settings import RATE, Settings
from evensplit.errors import ClusterUnreachable
from evensplit.observe.recorder import Recorder
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.commands import read_checkpoint
from tests.support.histories import NASTY, history, state, write

READING = ("inspect", "top", "report")
"""The commands that read a checkpoint in the same way."""


def inspected(place: Path, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_checkpoint("inspect", place, "--format", "json", *options)[0])
    return found


def test_owners_by_rate_are_shown_with_what_readers_take(tmp_path: Path) -> None:
    end = history()[-1]
    rated = {key: split._replace(rate=100 + number) for number, (key, split) in enumerate(end.splits.items())}
    by_rate = replace(end, splits=rated, settings=Settings(balance=RATE, capacities=((0, 2), (1, 2))))
    place = write(tmp_path / "rated", [by_rate])
    (source,) = inspected(place)["sources"]
    assert source["settings"]["capacity"] == {"0": 2, "1": 2}
    assert [one["capacity"] for one in source["last"]["readers"]] == [2, 2, 1]
    assert sum(one["offsetsPerMinute"] for one in source["last"]["readers"]) == 615
    shown, _ = read_checkpoint("inspect", place)
    assert "offsets a minute, by rate" in shown
    assert 'capacity {"0": 2, "1": 2}' in " ".join(shown.split())


def test_what_there_is(place: Path) -> None:
    found = inspected(place)
    assert (found["query"], found["firstBatch"], found["lastBatch"], found["committed"]) == ("0b9c", 0, 5, True)
    (source,) = found["sources"]
    assert [(one["id"], one["splits"]["assigned"], one["kafkaId"]) for one in source["clusters"]] == [
        ("east", 3, "kafka-east"),
        ("west", 3, "kafka-west"),
    ]
    assert [(one["topic"], one["partitions"], one["positionSum"]) for one in source["topics"]] == [
        ("orders", 3, 2_400),
        ("clicks", 3, 3_300),
    ]
    assert [one["splits"] for one in source["last"]["readers"]] == [3, 2, 1]
    assert [one["kind"] for one in source["happenings"]] == [
        "started",
        "discovered",
        "discovered",
        "discovered",
        "moved",
        "lost",
    ]
    assert "splits" not in source
    assert [one["position"] for one in inspected(place, "--splits")["sources"][0]["splits"]] == [
        600,
        1_200,
        600,
        3_000,
        0,
        300,
    ]


def test_what_there_is_as_a_page(place: Path) -> None:
    shown, _ = read_checkpoint("inspect", place, "--splits")
    assert "Batches 0 to 5 are kept. The last one, 2023-11-14 22:14:10 UTC, is done." in shown
    assert "removedRetention 7d" in shown
    assert "less even than possible: the fullest reader has 3 partitions, and 2 would do" in shown
    assert re.search(r"west/clicks/2 +assigned +2 +300 +100", shown)
    assert "moved from reader 2 to reader 0: 1 new partition made the readers uneven" in shown
    assert re.search(r"east +1 +3 +0 +0 +0 +127.0.0.1:1", shown)


def test_a_batch_that_is_not_committed(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history(), committed=False)
    assert "is planned, and Spark has not committed it yet" in read_checkpoint("inspect", place)[0]
    assert "under way, or to be done again" in read_checkpoint("top", place)[0]


def test_of_one_batch_the_outcome_is_known(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history()[-1:], first=7)
    (source,) = inspected(place)["sources"]
    assert [one["offsets"] for one in source["last"]["readers"]] == [0, 0, 0]
    assert source["topics"][0]["positionMax"] == 1_200
    for name in ("top", "report"):
        read_checkpoint(name, place)


def test_a_restart_with_the_same_files_changes_nothing(place: Path) -> None:
    kept = read_history(place)
    before = kept.views["0"]
    assert not kept.look()
    assert kept.views["0"] is before


def test_another_batch_of_the_same_number_is_noticed(place: Path) -> None:
    recorder = Recorder()
    for kept in (CheckpointHistory(place), CheckpointHistory(place, recorder)):
        write(place, history())
        kept.look()
        assert not kept.look()
        # Somebody went back by two, and the query has planned as many anew.
        write(place, [*history()[:4], *history(8)[6:]])
        assert kept.look()
        assert max(split.position or 0 for split in kept.views["0"].splits()) == 5 * 800
        assert kept.views["0"].last.number == 5
        assert not kept.look()


def test_a_gap_is_told_at_every_look(place: Path) -> None:
    (place / "offsets" / "2").unlink()
    kept = read_history(place)
    assert "offset files are missing: 2; " in kept.notes[0]
    assert not kept.look()
    assert "offset files are missing: 2; " in kept.notes[0]
    for number in range(3):
        (place / "offsets" / str(number)).unlink(missing_ok=True)
    kept.look()
    assert kept.notes == ()


def test_new_batches_are_taken_in_and_those_taken_away_are_forgotten(place: Path) -> None:
    kept = read_history(place)
    write(place, history(8))
    assert kept.look()
    assert (kept.last, kept.views["0"].last.number, len(kept.views["0"].work)) == (7, 7, 8)
    assert kept.views["0"].totals == read_history(place).views["0"].totals
    for name in ("offsets", "commits"):
        for number in (5, 6, 7):
            (place / name / str(number)).unlink()
    assert kept.look()
    assert (kept.last, len(kept.views["0"].work)) == (4, 5)


def test_only_the_latest_are_read_where_that_is_enough(place: Path) -> None:
    kept = CheckpointHistory(place)
    kept.look(latest_max=3)
    assert [one.batch for one in kept.views["0"].work] == [4, 5]
    assert (kept.first, kept.last) == (0, 5)


def test_the_last_batches_alone(place: Path) -> None:
    found = inspected(place, "--batches", "2")["sources"][0]
    assert [one["batch"] for one in found["happenings"]] == [4, 4], "started, and a loss"
    assert found["last"] == inspected(place)["sources"][0]["last"]
    read_checkpoint("report", place, "--batches", "2")
    assert "--batches" in read_checkpoint("inspect", place, "--batches", "0", code=2)[1]


def test_what_is_shown_fits_the_terminal(tmp_path: Path) -> None:
    before, end = (state({(f"c{one}", "t"): [at] * 9 for one in range(40)}, 90) for at in (0, 5))
    aligned = replace(end, held=(Held("alignment", "c1/t/0"),), reached_ms=1_700_000_000_000)
    kept = read_history(write(tmp_path, [before, aligned]))
    for height, lines_max in ((24, 24), (40, 40), (100, 100)):
        console = Console(width=100, height=height, force_terminal=False)
        with console.capture() as captured:
            console.print(top._page(top._Now(kept, kept.views, LogEnds(), 0), height))
        assert len(captured.get().splitlines()) <= lines_max
        assert "held by alignment" in captured.get()


def test_how_many_readers_are_needed_is_known_by_when_batches_were_done(place: Path) -> None:
    """Of a copy, whose files are all as new as each other, it is not."""
    kept = read_history(place)
    works = kept.views["0"].work
    assert all(work.at_ms is not None for work in works)
    assert (
        json.loads(read_checkpoint("top", place, "--format", "json", "--once")[0])["sources"][0]["readersNeeded"]
        is None
    )
    for work in works:
        done_s = ((work.at_ms or 0) + max(1, work.busiest)) / 1000
        os.utime(place / "commits" / str(work.batch), (done_s, done_s))
    found = json.loads(read_checkpoint("top", place, "--format", "json", "--once")[0])["sources"][0]["readersNeeded"]
    assert found["readers"] == 1
    assert round(found["speed"], 6) == 1_000
    assert f"{found['sentence']}." in read_checkpoint("top", place)[0]


def test_being_told_to_end_ends_the_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with top.waiting() as is_over:
        assert not is_over(0.0)
        os.kill(os.getpid(), signal.SIGINT)
        assert is_over(10.0)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_recorder_can_be_told(place: Path) -> None:
    recorder = Recorder()
    kept = CheckpointHistory(place, recorder)
    kept.look()
    (known,) = recorder.watched()
    assert known.view is kept.views["0"]
    assert known.view.source.query_id == "0b9c"


@pytest.mark.parametrize("name", READING)
def test_a_checkpoint_that_is_none(name: str, tmp_path: Path, place: Path) -> None:
    assert "there is no directory" in read_checkpoint(name, tmp_path / "none", code=1)[1]
    told = read_checkpoint(name, place / "commits", code=1)[1]
    assert "no directory offsets" in told
    assert "expected a query's checkpointLocation" in told
    assert "--source names source '9'; expected one of 0" in read_checkpoint(name, place, "--source", "9", code=2)[1]


@pytest.mark.parametrize("name", READING)
def test_a_checkpoint_of_another_source(name: str, tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history(1))
    path = place / "offsets" / "0"
    path.write_text("\n".join([*path.read_text().split("\n")[:2], '{"orders":{"0":5}}']))
    said = read_checkpoint(name, place, code=1)[1]
    assert "the checkpoint of a query that has no source of this package" in said
    assert "`evensplit offsets` shows its positions, and `evensplit migrate` takes them over" in " ".join(said.split())


@pytest.mark.parametrize("name", READING)
def test_a_damaged_checkpoint_is_named(name: str, place: Path) -> None:
    path = place / "offsets" / "5"
    path.write_text(path.read_text().replace("600", "601"))
    assert f"{path}, line 3: the offset's checksum is" in read_checkpoint(name, place, code=1)[1]
    (place / "offsets" / "4").write_bytes(b"v1\n{}\n\xff")
    assert f"{place / 'offsets' / '4'}: it is not UTF-8" in read_checkpoint(name, place, code=1)[1]


@pytest.mark.parametrize("name", READING)
def test_two_batches_that_do_not_follow_each_other_are_named(name: str, tmp_path: Path) -> None:
    back = [state({("east", "t"): [500]}, 1), state({("east", "t"): [400]}, 1)]
    place = write(tmp_path / "kept", back)
    assert (
        f"{place / 'offsets' / '1'}, source 0: partition east/t/0 would be read from"
        in read_checkpoint(name, place, code=1)[1]
    )


@pytest.mark.parametrize("name", READING)
def test_a_checkpoint_that_is_being_written(name: str, place: Path) -> None:
    (place / "offsets" / "6").write_text('v1\n{"batchTi')
    shown, told = read_checkpoint(name, place, "--format", "json", *(("--once",) if name == "top" else ()))
    assert "batch 6 is left out: its offset file is not complete yet" in json.loads(shown)["notes"][0]
    assert told == ""


@pytest.mark.parametrize("name", READING)
def test_the_file_of_a_batch_that_is_done_is_not_being_written(name: str, place: Path) -> None:
    path = place / "offsets" / "5"
    assert (place / "commits" / "5").exists()
    path.write_text(path.read_text()[:-20])
    told = read_checkpoint(name, place, code=1)[1]
    assert f"{path}: line 3: it is not JSON" in told
    assert "ES-401" in told


@pytest.mark.parametrize("name", READING)
def test_names_that_are_markup(name: str, tmp_path: Path) -> None:
    """Names of 249 characters, with quotes, tags and what moves a cursor."""
    odd = f"{NASTY.replace('/', '')}\x1b[2J\n"
    place = write(tmp_path / "kept", [state({(odd, "t" * 249): [at], ("east", "[red]t[/]"): [at]}) for at in (5, 9)])
    shown, _ = read_checkpoint(name, place, *(("--splits",) if name == "inspect" else ()))
    assert "\x1b" not in shown
    if name != "report":
        assert "[bold]" in shown
        assert "[red]t[/]" in shown
        assert "\\x1b[2J\\n" in "".join(shown.split())


def test_lines_of_json_until_it_is_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is one line; what cannot be read meanwhile leaves what was known, and is said."""
    waits = 0

    def is_over(pause_s: float) -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            write(place, history(8))
        if waits == 2:
            (place / "offsets").rename(place / "away")
        return waits == 3

    monkeypatch.setattr(top, "waiting", lambda: nullcontext(is_over))
    lines = [json.loads(line) for line in read_checkpoint("top", place, "--format", "json")[0].splitlines()]
    assert [line["batch"] for line in lines] == [5, 7, 7]
    assert [bool(line["trouble"]) for line in lines] == [False, False, True]
    assert "has no directory offsets" in lines[2]["trouble"]
    (source,) = lines[0]["sources"]
    assert [(one["id"], one["lag"]) for one in source["clusters"]] == [("east", None), ("west", None)]
    assert source["slowest"][0]["split"] == "west/clicks/0"


def test_lag_against_the_brokers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    east, west = (FakeKafka(name, cluster_id=f"kafka-{name}") for name in ("east", "west"))
    east.create_topic("orders", 3)
    for number in range(3):
        east.append("orders", number, 2_000)
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, _: {"east": east, "west": west}[cluster])
    (source,) = json.loads(read_checkpoint("top", place, "--once", "--lag", "--format", "json", code=1)[0])["sources"]
    assert [(one["lag"], one["unreachable"]) for one in source["clusters"]] == [
        (3_600, None),
        (None, "nobody is there"),
    ]
    assert [one["lag"] for one in source["slowest"][:3]] == [1_400, 1_400, 800]
    assert (east.closed, west.closed) == (1, 1)
    shown, _ = read_checkpoint("top", place, "--lag", code=1)
    assert re.search(r"east +3 +\S+ +3,600", shown)
    assert "does not answer" in shown
    assert (
        "the lag of cluster west is not known: nobody is there" in read_checkpoint("report", place, "--lag", code=1)[1]
    )
    page = (place.parent / "report.html").read_text()
    assert "3,600" in page
    assert "nobody is there" in page


@pytest.mark.parametrize(
    "options, told",
    [
        (("--option", "kafka.client.id=x"), "--option is given, but no cluster is asked; expected --lag or"),
        (("--bootstrap-servers", "x:1"), "source 0 reads 2 clusters: east, west; --bootstrap-servers can be for one"),
        (("--lag", "--option", "kafka.sasl.jaas.config=secret"), "--option kafka.sasl.jaas.config can be for one only"),
    ],
)
@pytest.mark.parametrize("name", ["top", "report"])
def test_wrong_use(name: str, place: Path, options: tuple[str, ...], told: str) -> None:
    said = read_checkpoint(name, place, *options, code=2)[1]
    assert told in said
    assert "secret" not in said


@pytest.mark.parametrize("name", ["top", "report"])
def test_servers_of_one_cluster_are_asked_of_that_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked: list[str] = []

    def connect(cluster: str, settings: object) -> FakeKafka:
        asked.append(cluster)
        return FakeKafka(cluster, cluster_id=f"kafka-{cluster}")

    monkeypatch.setattr(log_ends, "ClusterClient", connect)
    login = ("--lag", "--option", "kafka.ssl.key.password=secret")
    assert "can be for one only: add --cluster with its id" in read_checkpoint(name, place, *login, code=2)[1]
    assert not asked
    read_checkpoint(name, place, "--bootstrap-servers", "east:1", "--cluster", "east")
    assert asked == ["east"]
    said = read_checkpoint(name, place, "--lag", "--cluster", "eats", code=2)[1]
    assert "--cluster names cluster 'eats'; expected one of east, west" in said
    assert "--cluster is given, but no cluster is asked" in read_checkpoint(name, place, "--cluster", "east", code=2)[1]


@pytest.mark.parametrize(
    "options", [("--ledger", "decisions"), ("--option", "kafka.security.protocol=SSL")], ids=lambda one: one[0]
)
def test_options_of_the_ledger_need_a_cluster(place: Path, options: tuple[str, str]) -> None:
    _, said = read_checkpoint("inspect", place, *options, code=2)
    assert "no cluster is asked; expected --bootstrap-servers too" in " ".join(said.split())
    assert "written" not in inspected(place)
