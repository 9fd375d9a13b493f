"""`evensplit dashboard` over several checkpoints: which are found, what cannot be read, and the lag."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.checkpoint import finding
from evensplit.checkpoint.finding import checkpoints_below, why_not_ours
from evensplit.cli.group import evensplit
from evensplit.cli.history.fleet import Fleet, Followed, labels_of
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.live import lags, log_ends
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError, ClusterUnreachable
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.history.ends_seen import Age
from evensplit.observe.recorder import Recorder
from evensplit.observe.source_view import View
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.histories import line, write_batch
from tests.support.views import PLANNED_MS, dealt, keys_of, state

KEYS = keys_of({("east", "orders"): 2})


def end(position: int) -> EnumeratorState:
    return state(dealt(KEYS, 2), dict.fromkeys(KEYS, position), 2)


def write(place: Path, batches: Iterable[int] = range(5, 8), *, query: str | None = None, took_ms: int = 400) -> Path:
    """A checkpoint of a query that reads a hundred offsets of each partition in each batch."""
    for batch in batches:
        at_ms = PLANNED_MS + 1_000 * batch
        write_batch(place, batch, line(end(100 * batch)), at_ms=at_ms)
        os.utime(place / "commits" / str(batch), ((at_ms + took_ms) / 1000,) * 2)
    (place / "metadata").write_text(json.dumps({"id": query or place.name}))
    return place


class Page:
    """What a dashboard is told."""

    def __init__(self) -> None:
        self.recorders: list[Recorder] = []
        self.notes: dict[str | None, Sequence[str]] = {}
        self.passing: dict[str | None, Sequence[str]] = {}
        self.awaited: set[str | None] = set()
        self.problems: Sequence[Unreadable] = ()

    def watch(self, recorder: Recorder) -> None:
        self.recorders.append(recorder)

    def note(
        self,
        notes: Sequence[str],
        query_id: str | None = None,
        passing: Sequence[str] = (),
        *,
        awaited: bool = False,
    ) -> None:
        self.notes[query_id] = list(notes)
        self.passing[query_id] = list(passing)
        self.awaited = self.awaited - {query_id} | ({query_id} if awaited else set())

    def unreadable(self, ones: Sequence[Unreadable]) -> None:
        self.problems = ones

    def view(self, name: str) -> View:
        views = [one.view for recorder in self.recorders for one in recorder.watched()]
        return next(one for one in views if one.source.name == name)

    def names(self) -> list[str]:
        return sorted(str(one.view.source) for recorder in self.recorders for one in recorder.watched())


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def nobody() -> FleetLag:
    """Asks no cluster."""
    return FleetLag((), (), False)


def test_not_more_are_found_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page) -> None:
    monkeypatch.setattr(finding, "FOUND_MAX", 2)
    for name in ("a", "b", "c"):
        write(tmp_path / name)
    found = checkpoints_below(tmp_path)
    assert (list(found.checkpoints), found.more) == (["a", "b"], True)
    monkeypatch.setattr("evensplit.cli.history.fleet.FOUND_MAX", 2)
    Fleet([tmp_path]).round(page, FleetLag((), (), False))
    assert page.notes[None] == [f"{tmp_path} has more than 2 checkpoints: not all are shown"]


def test_a_folder_that_cannot_be_read_is_said_and_the_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page, nobody: FleetLag
) -> None:
    write(tmp_path / "a")
    (tmp_path / "closed").mkdir()
    listed = Path.iterdir

    def refused(self: Path) -> Any:
        if self.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", refused)
    Fleet([tmp_path]).round(page, nobody)
    assert page.notes[None] == [f"not looked through: {tmp_path / 'closed'}: Permission denied"]
    assert page.names() == ["a"]


def test_all_of_a_folder_by_their_places_in_it(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    write(tmp_path / "orders")
    write(tmp_path / "team" / "clicks")
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    assert page.names() == ["orders", "team/clicks"]
    assert page.view("orders").last.number == 7
    assert page.notes[None] == []
    fleet.round(page, nobody)
    assert len(page.recorders) == 2, "each is watched once"


def test_several_places_are_told_apart(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    write(tmp_path / "blue" / "orders")
    write(tmp_path / "green" / "orders")
    Fleet([tmp_path / "blue", tmp_path / "green" / "orders"]).round(page, nobody)
    assert page.names() == sorted(["blue/orders", str(tmp_path / "green" / "orders")])


def test_folders_of_one_name_are_told_apart_by_what_they_are_in(
    tmp_path: Path, page: Page, nobody: FleetLag, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "a" / "x", tmp_path / "b" / "x", tmp_path / "c", Path("x/orders")]
    for place in places[:3]:
        write(place / "orders", query=f"in-{place.parent.name}")
    monkeypatch.chdir(tmp_path / "b")
    fleet = Fleet([*places[:3], tmp_path / "a" / "x", places[3]])
    fleet.round(page, nobody)
    # The last one is b's.
    assert page.names() == ["a/x/orders", "b/x/orders", "c/orders"]
    assert labels_of([Path("x"), Path("/x"), Path("/")]) == {Path("x"): "x", Path("/x"): "x", Path("/"): "/"}


def test_no_two_have_one_name(tmp_path: Path, page: Page, nobody: FleetLag, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "b" / "x" / "orders")
    write(tmp_path / "x" / "orders")
    monkeypatch.chdir(tmp_path)
    Fleet([tmp_path / "b" / "x", Path("x/orders")]).round(page, nobody)
    assert page.names() == sorted([str(tmp_path / "x" / "orders"), "x/orders"])


def test_copies_of_one_checkpoint_are_two_queries(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    write(tmp_path / "orders", query="5f0e")
    shutil.copytree(tmp_path / "orders", tmp_path / "copy")
    for name in ("partial", "other/partial"):
        write(tmp_path / name)
        (tmp_path / name / "metadata").unlink()
    Fleet([tmp_path]).round(page, nobody)
    assert page.names() == ["copy", "orders", "other/partial", "partial"]
    ids = {page.view(name).source.query_id for name in page.names()}
    assert len(ids) == 4
    assert "5f0e" in ids


def test_new_ones_are_found_while_it_runs_and_new_batches_read(
    tmp_path: Path, page: Page, nobody: FleetLag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evensplit.cli.history.fleet.FIND_S", 0.0)
    write(tmp_path / "a")
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    write(tmp_path / "b", range(1, 3))
    write(tmp_path / "a", [8])
    fleet.round(page, nobody)
    assert page.names() == ["a", "b"]
    assert (page.view("a").last.number, page.view("b").last.number) == (8, 2)


def test_broken_ones_are_shown_with_their_error_and_mended_ones_without(
    tmp_path: Path, page: Page, nobody: FleetLag
) -> None:
    write(tmp_path / "good")
    (write(tmp_path / "bad") / "offsets" / "6").write_text("v1\n{}\n{rubbish")
    write_batch(tmp_path / "other", 3, '{"topic":{"0":5}}', at_ms=PLANNED_MS)
    (tmp_path / "new" / "offsets").mkdir(parents=True)
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    assert page.names() == ["good"]
    said = {one.name: (one.why, one.other) for one in page.problems}
    assert said["other"] == ("has no source of this package", True)
    assert said["new"] == ("has no batch yet", True)
    assert str(tmp_path / "bad" / "offsets" / "6") in said["bad"][0]
    assert not said["bad"][1]
    write(tmp_path / "bad", [6])
    fleet.round(page, nobody)
    assert page.names() == ["bad", "good"]
    assert "bad" not in {one.name for one in page.problems}
    assert why_not_ours(tmp_path / "bad") == ""


def test_one_that_goes_away_stays_as_it_was_with_a_note(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    write(tmp_path / "a", query="id-a")
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    shutil.rmtree(tmp_path / "a")
    fleet.round(page, nobody)
    assert page.view("a").last.number == 7
    (note,) = page.notes["id-a"]
    assert note.startswith(f"not up to date: there is no directory {tmp_path / 'a'}")


def test_only_the_last_batches_are_read_at_first(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    write(tmp_path / "a", range(40))
    Fleet([tmp_path], 3).round(page, nobody)
    assert [work.batch for work in page.view("a").work] == [38, 39]


def test_how_long_batches_took_is_by_when_they_were_done(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    place = write(tmp_path / "a", range(5, 8), took_ms=400)
    write_batch(place, 8, line(end(800)), at_ms=PLANNED_MS + 8_000, committed=False)
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    assert [work.duration_ms for work in page.view("a").work] == [400, 400, None]
    assert page.view("a").last.duration_ms is None
    assert page.passing["a"] == ["batch 8 is planned, but Spark has not committed it yet"]
    assert page.notes["a"] == []
    (place / "commits" / "8").write_text("v1\n{}")
    os.utime(place / "commits" / "8", ((PLANNED_MS + 8_700) / 1000,) * 2)
    fleet.round(page, nobody)
    assert [work.duration_ms for work in page.view("a").work] == [400, 400, 700]
    assert page.view("a").last.duration_ms == 700


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """Ten offsets further than both queries have come; each is asked at once, and how often is counted."""
    found = FakeKafka("east")
    found.create_topic("orders", 2)
    for number in range(2):
        found.append("orders", number, 710)
    found.clients = []  # type: ignore[attr-defined]

    def connected(cluster: str, settings: object) -> FakeKafka:
        found.clients.append(settings)  # type: ignore[attr-defined]
        return found

    def at_once(work: Callable[[], Any], name: str) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work())
        except ClusterUnreachable as error:
            done.set_exception(error)
        return done

    monkeypatch.setattr(log_ends, "ClusterClient", connected)
    monkeypatch.setattr(lags, "in_background", at_once)
    return found


def test_the_lag_of_all_asks_each_cluster_once(tmp_path: Path, page: Page, east: FakeKafka) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", range(4, 7))
    fleet, asking = Fleet([tmp_path]), FleetLag((), (), True)
    for _ in range(3):
        fleet.round(page, asking)
    assert len(east.clients) == 1  # type: ignore[attr-defined]
    assert (page.view("a").lag, page.view("b").lag) == (20, 220)
    age = page.view("a").lags.age
    assert age is not None
    assert age.most_ms is None, "it was unread when the logs were first looked at"
    # What is read later is no lag any more, without a question in between.
    write_batch(tmp_path / "a", 8, line(end(710)), at_ms=PLANNED_MS + 8_000)
    fleet.round(page, asking)
    assert page.view("a").lag == 0
    assert page.view("a").lags.age == Age(0, 0)
    asking.close()


def test_a_lag_is_awaited_until_its_clusters_have_answered(tmp_path: Path, page: Page, east: FakeKafka) -> None:
    write(tmp_path / "a")
    fleet, asking = Fleet([tmp_path]), FleetLag((), (), True)
    fleet.round(page, asking)
    (query_id,) = (one.view.source.query_id for one in page.recorders[0].watched())
    assert page.awaited == {query_id}
    fleet.round(page, asking)
    fleet.round(page, asking)
    assert page.awaited == set()
    asking.close()


def test_a_cluster_that_does_not_answer_is_shown(tmp_path: Path, page: Page, east: FakeKafka) -> None:
    write(tmp_path / "a")
    east.fail_with(ClusterUnreachable("east", "no broker of east:9092 answered within 10 s"))
    fleet, asking = Fleet([tmp_path]), FleetLag((), (), True)
    for _ in range(3):
        fleet.round(page, asking)
    view = page.view("a")
    assert view.away == {"east"}
    assert view.lag is None


def test_a_question_that_is_under_way_leaves_no_connection_behind(
    tmp_path: Path, page: Page, east: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[Future[Any]] = []
    closed: list[bool] = []

    def later(work: Callable[[], Any], name: str) -> Future[Any]:
        under_way.append(Future())
        return under_way[-1]

    monkeypatch.setattr(lags, "in_background", later)
    monkeypatch.setattr(east, "close", lambda: closed.append(bool(under_way and under_way[-1].done())))
    write(tmp_path / "a")
    asking = FleetLag((), (), True)
    Fleet([tmp_path]).round(page, asking)
    asking.close()
    assert closed == [False]
    under_way[-1].set_exception(ClusterUnreachable("east", "closed"))
    assert closed == [False, True]


def test_what_makes_no_sense_for_one_is_said_beside_it(tmp_path: Path, page: Page, east: FakeKafka) -> None:
    write(tmp_path / "a", query="id-a")
    both = keys_of({("east", "orders"): 1, ("west", "orders"): 1})
    place = write(tmp_path / "b", query="id-b")
    for batch in (8, 9):
        two = state(dealt(both, 1), dict.fromkeys(both, 700 + batch), 1)
        write_batch(place, batch, line(two), at_ms=PLANNED_MS + 1_000 * batch)
    fleet, asking = Fleet([tmp_path]), FleetLag(("east:9092",), (), False)
    for _ in range(3):
        fleet.round(page, asking)
    assert page.notes["id-a"] == []
    (note,) = page.notes["id-b"]
    assert note.startswith(
        "the lag is not known: source 0 reads 2 clusters: east, west; --bootstrap-servers can be for"
    )


def refused(*arguments: str, code: int) -> str:
    result = CliRunner().invoke(evensplit, ["dashboard", *arguments, "--port", "0"])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    write(tmp_path / "all" / "a")
    (tmp_path / "empty").mkdir()
    assert "has no directory offsets" in refused(str(tmp_path / "empty"), code=1)
    assert "or a folder with some below it" in refused(str(tmp_path / "empty"), code=1)
    said = refused(str(tmp_path / "all"), str(tmp_path / "empty"), code=1)
    assert f"{tmp_path / 'empty'} is no checkpoint" in said
    assert "there is none below it to a depth of 7" in said
    assert "--source is of one checkpoint" in refused(str(tmp_path / "all"), "--source", "0", code=2)
    assert "no cluster is asked; expected --lag" in refused(
        str(tmp_path / "all"), "--option", "kafka.client.id=me", code=2
    )
    assert "Missing argument" in refused(code=2)
    with pytest.raises(CheckpointError):
        Fleet([tmp_path / "nothing"]).check()


def test_one_checkpoint_with_settings_that_make_no_sense_ends_at_once(tmp_path: Path) -> None:
    write(tmp_path / "a")
    said = refused(str(tmp_path / "a"), "--lag", "--cluster", "west", code=2)
    assert "--cluster names cluster 'west'; expected one of east" in said
    assert isinstance(Fleet([tmp_path]).shown_first, Recorder)


def test_one_without_a_whole_batch_has_its_notes_above_all(tmp_path: Path, page: Page, nobody: FleetLag) -> None:
    place = write(tmp_path / "a")
    fleet = Fleet([tmp_path])
    fleet.round(page, nobody)
    one: Followed = fleet.ones[0]
    (place / "offsets" / "8").write_text("v1\n{}\n")
    one.kept.views.clear()
    assert any("a: batch 8 is left out" in note for note in _said(fleet, page, nobody))


def _said(fleet: Fleet, page: Page, nobody: FleetLag) -> Sequence[str]:
    fleet.round(page, nobody)
    return page.notes[None]
