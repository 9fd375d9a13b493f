"""What outlets read: views by source, what queries do, stories; from several threads, and never for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from evensplit.core.model import Held, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.errors import CheckpointError
from evensplit.observe import recorder as module
from evensplit.observe.recorder import QUERIES_MAX, QueryStatus, Recorder, SourceStatus
from evensplit.observe.source_view import WORK_MAX, Batch, Source, View, advance, look, resumed
from tests.support.batches import Script, orders, taken

ORDERS = SplitId("east", "orders", 0)


def test_views_by_source_and_by_name() -> None:
    recorder = Recorder()
    mine, other = orders({"east": 1}), Script(query="query-2", name=None, number=1)
    taken(recorder, [mine.batch(), other.batch(), mine.batch()])
    assert [str(one.view.source) for one in recorder.watched()] == ["query-2, source 1", "orders"]
    found = recorder.find("orders")
    assert found is not None
    assert (found.view.last.number, found.stage, found.heard_ms) == (1, QueryStatus.RUNNING, mine.at_ms + 400)
    assert recorder.find("query-1") == found
    assert recorder.find("query-2") is None
    assert recorder.find("query-2", 1) is not None
    again = Script(query="query-3")
    taken(recorder, [again.batch()])
    latest = recorder.find("orders")
    assert latest is not None
    assert latest.view.source.query_id == "query-3"


def test_what_was_read_to_its_end_was_not_held() -> None:
    """The end of its log is known here, unlike in a checkpoint."""
    recorder, script, other = Recorder(), orders({"east": 2}), SplitId("east", "orders", 1)
    taken(recorder, [script.batch()])
    for read in (5, 3):
        script.write(5)
        script.read(read)
        one = script.batch()
        end = replace(one.end, held=(Held("maxOffsetsPerTrigger"),), reached_ms=1)
        latest = {ORDERS: one.report.latest[ORDERS], other: end.splits[other].position or 0}
        recorder.add(replace(one, end=end, report=Report(latest)), encode(end))
        script._last = end

    def said(split: SplitId) -> list[str]:
        story = recorder.story(one.source, split)
        assert story is not None
        return [chapter.sentences()[-1] for chapter in story.chapters[1:]]

    assert said(ORDERS) == [
        "offsets 0 to 4 read by reader 0",
        "offsets 5 to 7 read by reader 0; the batch was held by maxOffsetsPerTrigger",
    ]
    assert "held" not in "".join(said(other))


def test_the_end_comes_as_an_object_or_as_text() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    script.write(5)
    script.read()
    one = script.batch()
    recorder.add(one, encode(one.end))
    script.write(5)
    script.read()
    two = script.batch()
    recorder.add(two, json.dumps(encode(two.end)))
    story = recorder.story(one.source, ORDERS)
    assert story is not None
    assert [chapter.sentences() for chapter in story.chapters] == [
        ("was discovered", "starts at 0", "was given to reader 0", "offsets 0 to 4 read by reader 0"),
        ("offsets 5 to 9 read by reader 0",),
    ]
    assert recorder.story(one.source, SplitId("east", "orders", 9)) is None
    assert recorder.story(Source("another"), ORDERS) is None


def test_what_queries_do() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    heard: list[tuple[QueryStatus, int | None, str]] = []
    recorder.subscribe(lambda one: heard.append((one.stage, one.heard_ms, one.failure)))
    recorder.query("query-1", QueryStatus.RUNNING, 1, run_id="run-1")
    assert (recorder.watched(), heard) == ((), [])
    taken(recorder, [script.batch()])
    recorder.query("query-1", QueryStatus.IDLE, 2, run_id="run-1")
    recorder.query("query-1", QueryStatus.FAILED, 3, run_id="run-1", failure="DataLossError")
    recorder.query("query-1", QueryStatus.STARTING, 4, run_id="run-2")
    assert heard[1:] == [
        (QueryStatus.IDLE, 2, ""),
        (QueryStatus.FAILED, 3, "DataLossError"),
        (QueryStatus.STARTING, 4, ""),
    ]


def test_a_query_is_known_from_its_start_on() -> None:
    recorder = Recorder()
    heard: list[tuple[QueryStatus, int | None]] = []
    end = recorder.subscribe(lambda _: None, lambda one: heard.append((one.stage, one.since_ms)))
    source = Source("query-1", 0, "orders")
    recorder.begin(source, 1, run_id="run-1", awaited={"east": ("e:9092",)})
    recorder.begins("query-1", "run-2", QueryStatus.WAITING, 2)
    recorder.begins("query-1", "run-1", QueryStatus.WAITING, 3)
    recorder.query("query-1", QueryStatus.ENDED, 4, run_id="run-0")
    recorder.query("query-1", QueryStatus.FAILED, 5, run_id="run-1", failure="OptionError", said="wrong")
    recorder.begins("query-1", "run-1", QueryStatus.WAITING, 6)
    (one,) = recorder.begun()
    assert (one.source, one.failure, one.said, one.awaited) == (source, "OptionError", "wrong", {"east": ("e:9092",)})
    assert heard == [(QueryStatus.STARTING, 1), (QueryStatus.WAITING, 3), (QueryStatus.FAILED, 5)]
    recorder.begin(source, 7, run_id="run-2")
    (one,) = recorder.begun()
    assert (one.stage, one.failure, one.said, one.run_id) == (QueryStatus.STARTING, "", "", "run-2")
    end()
    taken(recorder, [orders({"east": 1}).batch()])
    assert recorder.begun() == ()
    assert len(heard) == 4
    recorder.begin(source, 9, run_id="run-3")
    (two,) = recorder.watched()
    assert (two.stage, two.run_id, recorder.begun()) == (QueryStatus.STARTING, "run-3", ())


def test_a_query_that_is_dismissed_or_forgotten_is_none() -> None:
    recorder = Recorder()
    for drop in (recorder.dismiss, recorder.forget):
        recorder.begin(Source("query-1"))
        drop("query-1")
        drop("query-1")
        assert recorder.begun() == ()


def test_of_queries_without_a_batch_those_that_run_are_kept() -> None:
    recorder = Recorder()
    recorder.begin(Source("runs"))
    for number in range(QUERIES_MAX + 5):
        recorder.begin(Source(f"query-{number}"))
        recorder.query(f"query-{number}", QueryStatus.FAILED, number)
    kept = [one.source.query_id for one in recorder.begun()]
    assert len(kept) == QUERIES_MAX
    assert kept[:2] == ["runs", "query-6"]


def test_a_source_that_goes_on_from_a_checkpoint_is_resumed_once() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    one, two = script.batch(), script.batch()
    recorder.begin(one.source, 1, run_id="run-1")
    last = replace(one, start=one.end, at_ms=None)
    recorder.resume(last, 2)
    recorder.resume(replace(last, number=9), 3)
    (found,) = recorder.watched()
    assert (found.stage, found.heard_ms, found.run_id, found.view.last) == (QueryStatus.IDLE, 2, "run-1", last)
    assert (recorder.begun(), recorder.past()) == ((), ())
    taken(recorder, [two])
    assert recorder.watched()[0].view.totals.batches == 1


def test_a_batch_that_comes_while_a_source_is_resumed_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    one = script.batch()

    def slow(batch: Batch, at_ms: int | None) -> View:
        taken(recorder, [one])
        return resumed(batch, at_ms)

    monkeypatch.setattr(module, "resumed", slow)
    recorder.resume(replace(one, start=one.end), 2)
    assert recorder.watched()[0].view.last is one


def test_a_run_that_ended_before_the_next_one_began_does_not_end_that() -> None:
    """Spark says at once that a query was started, and a little later what happened before."""
    recorder = Recorder()
    script = orders({"east": 1})
    taken(recorder, [script.batch()])
    late = script.batch()
    recorder.query("query-1", QueryStatus.STARTING, 4, run_id="run-2")
    taken(recorder, [late])
    recorder.query("query-1", QueryStatus.ENDED, 5, run_id="run-1")
    (one,) = recorder.watched()
    assert (one.stage, one.run_id) == (QueryStatus.RUNNING, "run-2")
    script.restart()
    taken(recorder, [script.batch()])
    recorder.query("query-1", QueryStatus.ENDED, 6, run_id="run-2")
    (one,) = recorder.watched()
    assert (one.stage, one.run_id) == (QueryStatus.ENDED, "run-2")


def test_what_a_query_with_nothing_to_do_has_seen() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    one = script.batch()
    taken(recorder, [one])
    recorder.query("query-1", QueryStatus.IDLE, 2)
    told: list[SourceStatus] = []
    recorder.subscribe(told.append)
    away = replace(one.report, unreachable={"east": "refused"})
    recorder.look("query-1", "run-1", 0, one.start, away, 3)
    recorder.look("query-2", "run-1", 0, one.end, away, 3)
    recorder.look("query-1", "run-2", 0, one.end, away, 3)
    recorder.look("query-1", "run-1", 1, one.end, away, 3)
    recorder.look("query-1", "run-1", 0, one.end, one.report, 3)
    assert told == []
    recorder.look("query-1", "run-1", 0, one.end, away, 3)
    recorder.look("query-1", "run-1", 0, one.end, away, 4)
    (found,) = told
    assert (found.stage, found.view.explanation.clusters[0].unreachable) == (QueryStatus.IDLE, "refused")
    assert (recorder.watched(), recorder.past()[0].explanation.clusters[0].unreachable) == ((found,), "")
    recorder.query("query-1", QueryStatus.ENDED, 5)
    recorder.look("query-1", "run-1", 0, one.end, one.report, 6)
    assert recorder.watched()[0].view.away == {"east"}


def test_what_was_seen_does_not_undo_a_batch_that_comes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    one, two = script.batch(), script.batch()
    taken(recorder, [one])
    recorder.query("query-1", QueryStatus.IDLE, 2)

    def slow(view: View, report: Report, at_ms: int | None) -> View:
        if view.last is one:
            taken(recorder, [two])
        return look(view, report, at_ms)

    monkeypatch.setattr("evensplit.observe.recorder.look", slow)
    recorder.look("query-1", "run-1", 0, one.end, replace(one.report, unreachable={"east": "refused"}), 3)
    (found,) = recorder.watched()
    assert found.view.last.number == 1


def test_a_repetition_is_not_news() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    one, two = script.batch(), script.batch()
    heard: list[SourceStatus] = []
    taken(recorder, [one, two])
    recorder.subscribe(heard.append)
    view = recorder.add(one, {}, heard_ms=7)
    assert view.last is two
    assert heard == []
    assert recorder.watched()[0].heard_ms == 7
    assert len(recorder.past()) == 2
    recorder.add(one, {}, stage=QueryStatus.ENDED)
    assert [found.stage for found in heard] == [QueryStatus.ENDED]


def test_a_batch_that_is_none_changes_nothing() -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    script.batch()
    one = script.batch()
    taken(recorder, [one])
    script.write(9)
    script.read()
    two = script.batch()
    with pytest.raises(CheckpointError):
        recorder.add(replace(two, start=two.end, end=two.start), {})
    assert [found.view.last for found in recorder.watched()] == [one]
    assert len(recorder.past()) == 1


def test_the_latest_are_kept_and_the_oldest_dropped() -> None:
    recorder = Recorder()
    first = orders({"east": 1})
    taken(recorder, [first.batch() for _ in range(WORK_MAX + 5)])
    assert [one.number for one in recorder.past()] == list(range(5, WORK_MAX + 5))
    for number in range(QUERIES_MAX - 1):
        taken(recorder, [Script(query=f"other-{number}").batch()])
    taken(recorder, [first.batch(), Script(query="one too many").batch()])
    kept = [one.view.source.query_id for one in recorder.watched()]
    assert len(kept) == QUERIES_MAX
    assert "other-0" not in kept
    assert kept[-2:] == ["query-1", "one too many"]
    recorder.forget("query-1")
    assert recorder.find("query-1") is None
    assert recorder.story(first.source, ORDERS) is None


@pytest.mark.parametrize("stage", [QueryStatus.ENDED, QueryStatus.FAILED, QueryStatus.UNKNOWN])
def test_queries_that_run_are_kept_before_those_that_do_not(stage: QueryStatus) -> None:
    """Of one that is idle there are no batches, however long it runs."""
    recorder = Recorder()
    taken(recorder, [Script(query="idle").batch()])
    recorder.query("idle", QueryStatus.IDLE)
    for number in range(QUERIES_MAX + 5):
        taken(recorder, [Script(query=f"other-{number}").batch()])
        recorder.query(f"other-{number}", stage)
    kept = [one.view.source.query_id for one in recorder.watched()]
    assert kept == ["idle", *(f"other-{number}" for number in range(6, QUERIES_MAX + 5))]


def test_callbacks_that_fail_are_logged_and_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    heard: list[int] = []

    def fails(one: SourceStatus) -> None:
        raise OSError("planted")

    recorder.subscribe(fails)
    unsubscribe = recorder.subscribe(lambda one: heard.append(one.view.last.number))
    script = orders({"east": 1})
    taken(recorder, [script.batch()])
    assert heard == [0]
    assert "a callback failed for batch 0" in caplog.text
    assert "planted" in caplog.text
    unsubscribe()
    unsubscribe()
    taken(recorder, [script.batch()])
    assert heard == [0]


def test_a_callback_may_ask_and_add_itself() -> None:
    recorder = Recorder()
    seen: list[int] = []
    end: list[Callable[[], None]] = []

    def callback(one: SourceStatus) -> None:
        seen.append(len(recorder.watched()))
        end[0]()

    end.append(recorder.subscribe(callback))
    taken(recorder, [orders({"east": 1}).batch()])
    assert seen == [1]


def test_nobody_who_reads_waits_for_a_batch_that_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    script = orders({"east": 1})
    taken(recorder, [script.batch()])
    inside, go_on = threading.Event(), threading.Event()

    def slow(view: View | None, batch: Batch) -> View:
        inside.set()
        assert go_on.wait(60)
        return advance(view, batch)

    monkeypatch.setattr(module, "advance", slow)
    thread = threading.Thread(target=taken, args=(recorder, [script.batch()]), daemon=True)
    thread.start()
    assert inside.wait(60)
    # Were the lock held, this would never return.
    assert recorder.watched()[0].view.last.number == 0
    recorder.query("query-1", QueryStatus.IDLE, 5)
    go_on.set()
    thread.join(60)
    assert recorder.watched()[0].view.last.number == 1


def test_threads_that_bring_batches_of_several_queries_lose_none() -> None:
    recorder = Recorder()
    scripts = [orders({"east": 2}) for _ in range(4)]
    for number, script in enumerate(scripts):
        script.source = Source(f"query-{number}", 0, None)
    batches = [[script.batch() for _ in range(50)] for script in scripts]
    threads = [threading.Thread(target=taken, args=(recorder, ones)) for ones in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one.view.totals.batches for one in recorder.watched()] == [50] * 4
    assert len(recorder.past()) == 200


def test_two_threads_with_one_source_keep_the_order() -> None:
    """Whoever is late changes nothing; the sums are those of the batches that were taken in."""
    recorder = Recorder()
    script = orders({"east": 2})
    batches = [script.batch() for _ in range(100)]
    threads = [threading.Thread(target=taken, args=(recorder, ones)) for ones in (batches, batches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (one,) = recorder.watched()
    assert one.view.totals.batches == 100
    assert [past.number for past in recorder.past()] == list(range(100))
