"""A batch explained: what changed and why, who has what, how far behind it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evensplit.core.batch.plan_summary import PlanView
from evensplit.core.model import Cause, Cluster, ClusterState, Lifecycle, Loss, Readable, Split, SplitId, Topic
from evensplit.core.state.observation import Report
from evensplit.core.state.settings import RATE, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError
from evensplit.explain.batch import ClusterView, Explanation, explain, health, seen_again
from evensplit.explain.changes import LINES_MAX, changes, happened, why
from evensplit.explain.reader_loads import ReaderLoad
from evensplit.explain.record_counts import Counted, RecordCounts
from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport
from tests.support.ownership import only, state, state_of, with_splits

LOSS = Loss(SplitId("c", "a", 0), Cause.AGED_OUT, 20, 50, 30)


def test_the_first_batch() -> None:
    after = with_splits(state(2, a0=0, a1=1, a2=0), first=2)
    found = explain(EnumeratorState(), after, Report({SplitId("c", "a", 0): 9, SplitId("c", "a", 1): 6}))
    assert found.readers == (ReaderLoad(0, 2, 6), ReaderLoad(1, 1, 3))
    assert (found.spread, found.offsets, found.reassigned) == (1, 9, True)
    assert found.clusters == (ClusterView("c", "", None, False, None, {Lifecycle.ASSIGNED: 3}, 5, 4, 1),)
    assert found.sentences() == (
        "discovered c/a: partition 0 → reader 0, 1 → reader 1, 2 → reader 0",
        "assigned: 1 to 2 partitions per reader, as even as possible; no partition moved that could have stayed",
    )


def test_with_owners_by_rate_each_reader_has_its_work_and_its_capacity() -> None:
    before = state(2, Settings(balance=RATE, capacities=((0, 3),)), a0=0, a1=0, a2=1)
    rated = {
        key: split._replace(rate=rate) for (key, split), rate in zip(before.splits.items(), (70, 50, 30), strict=True)
    }
    found = explain(before, replace(before, splits=rated), Report())
    assert found.readers == (ReaderLoad(0, 2, 0, 120, 3), ReaderLoad(1, 1, 0, 30, 1))
    assert found.to_json()["readers"][0] == {
        "reader": 0,
        "splits": 2,
        "offsets": 0,
        "offsetsPerMinute": 120,
        "capacity": 3,
    }
    assert "offsets a minute, by rate" in found._repr_html_()
    # Below 40 for each part, reader 0 has room for one of the splits that bring 70 and 50, and reader 1 for none.
    work = only(found.evenness).to_json()["work"]
    assert work == {"levelMax": 40.0, "levelMaxBound": 40.0, "readers": [0, 1], "heaviest": 2}
    said = "40 offsets a minute for each part of its capacity, where 40 is the least possible (0.0% above it)"
    assert said in only(found.evenness).statement()
    assert explain(before, before, Report()).readers[0].work is None
    assert only(explain(before, before, Report()).evenness).to_json()["work"] is None


def test_a_batch_in_which_nothing_changes_has_nothing_to_say() -> None:
    before = state(2, a0=0, a1=1)
    after = with_splits(before, position=8)
    found = explain(before, after, Report())
    assert not found.changes
    assert found.sentences() == ()
    assert [one.offsets for one in found.readers] == [3, 3]
    assert only(found.evenness).even


def test_what_was_written_is_said_last_and_is_in_the_json() -> None:
    before = state(1, a0=0)
    written = WriteReport("q", 7, WriteOutcome.DECIDED, {"eu": ClusterWritten(2, 90, committed=1)}, took_ms=14)
    found = explain(before, with_splits(before, position=8), Report(), written=written)
    assert found.sentences() == ("wrote 2 records in 1 transaction to eu; decided in 14 ms",)
    assert found.to_json()["written"] == written.to_json()


def test_an_idle_event_repeats_nothing() -> None:
    """Spark repeats the end of the last batch as start and end: its first positions and losses are told already."""
    one = replace(with_splits(state(2, a0=0, a1=1), first=2), losses=(LOSS,))
    found = explain(one, one, Report())
    assert (found.sentences(), found.offsets) == ((), 0)
    assert explain(state(2, a0=0, a1=1), one, Report()).changes.losses == (LOSS,)


def test_two_states_that_are_not_of_one_batch_are_refused() -> None:
    with pytest.raises(CheckpointError):
        explain(with_splits(state(1, a0=0), position=9), with_splits(state(1, a0=0), first=None), Report())


def test_clusters_with_lag_and_without() -> None:
    after = state(1, a0=0, a1=0, d_a0=0, e_a0=None, f_a0=None)
    splits = {
        **after.splits,
        SplitId("c", "a", 2): Split(SplitId("c", "a", 2), "id"),
        SplitId("e", "a", 0): Split(SplitId("e", "a", 0), "id", 5, removed_at_ms=7),
        SplitId("f", "a", 0): Split(SplitId("f", "a", 0), "id", 5, finished=True),
    }
    clusters = {
        **after.clusters,
        "e": replace(after.clusters["e"], removed_at_ms=7),
        "g": ClusterState("g", (), False, True),
    }
    after = replace(after, splits=dict(sorted(splits.items())), clusters=clusters)
    ends = {SplitId("c", "a", 0): 10, SplitId("c", "a", 1): 3, SplitId("c", "a", 2): 8, SplitId("e", "a", 0): 99}
    report = Report(ends, {"d": "refused"}, ("a notice",), ("d",), {"d": 1_000})
    found = explain(after, after, report)
    by_id = {one.id: one for one in found.clusters}
    assert by_id["c"] == ClusterView(
        "c", "", None, False, None, {Lifecycle.ASSIGNED: 2, Lifecycle.UNASSIGNED: 1}, 5, 5, 1
    )
    assert by_id["d"] == ClusterView("d", "refused", 1_000, True, None, {Lifecycle.ASSIGNED: 1}, None, None, 1)
    assert by_id["e"] == ClusterView("e", "", None, False, 7, {Lifecycle.RETAINED: 1}, None, None, 0)
    assert by_id["f"] == ClusterView("f", "", None, False, None, {Lifecycle.FINISHED: 1}, 0, 0, 0)
    assert by_id["g"] == ClusterView("g", "", None, False, None, {}, 0, 0, 0)
    assert found.notices == ("a notice", "cluster d: it does not answer, and was left out of this run")


def test_nothing_left_to_read_is_no_lag_and_not_an_unknown_one() -> None:
    after = with_splits(state(1, a0=None), finished=True)

    def lag(report: Report, **fields: object) -> tuple[int | None, int | None, int]:
        clusters = {"c": replace(after.clusters["c"], **fields)}  # type: ignore[arg-type]
        one = replace(after, clusters=clusters)
        (found,) = explain(one, one, report).clusters
        return found.lag_sum, found.lag_max, found.lag_unknown

    answers = Report({SplitId("c", "a", 0): 9})
    assert lag(answers) == (0, 0, 0)
    assert lag(Report()) == (None, None, 0), "a checkpoint does not tell"
    assert lag(answers, removed_at_ms=7) == (None, None, 0)
    assert lag(replace(answers, unreachable={"c": "refused"})) == (None, None, 0)
    assert lag(replace(answers, left_out=("c",))) == (None, None, 0)


def test_the_health_of_a_cluster_in_words() -> None:
    one = ClusterView("c", "", None, False, None, {}, None, None, 0)
    away = replace(one, unreachable="refused")
    assert health(one, True) == "answers"
    assert health(one, False) == "not known whether it answers"
    assert health(away, True) == health(replace(away, left_out=True), True) == "no answer: refused"
    assert health(replace(one, unreachable="cluster 'c': refused"), True) == "no answer: refused"
    assert health(replace(one, left_out=True), True) == "left out of this run"
    assert health(replace(away, removed_at_ms=7), True) == "removed, positions kept"


def test_a_table_says_that_a_cluster_answers_only_where_that_is_known() -> None:
    after = state(1, a0=0, d_a0=0)
    gone = replace(after, clusters={**after.clusters, "d": replace(after.clusters["d"], removed_at_ms=7)})
    silent = explain(gone, gone, Report())._repr_html_()
    assert "removed, positions kept" in silent
    assert "not known whether it answers" in silent
    assert ">answers<" in explain(gone, gone, Report({SplitId("c", "a", 0): 9}))._repr_html_()


def test_what_was_counted_is_told_and_stays_when_clusters_are_looked_at_again() -> None:
    before, after = state(1, a0=0), state(1, a0=0)
    counts = RecordCounts({"d": Counted(1_000, 2), "c": Counted(1, 0)})
    found = explain(before, after, Report(), counts=counts)
    assert found.to_json()["counts"] == {
        "filtered": 1_001,
        "undecodable": 2,
        "complete": True,
        "clusters": [{"id": "c", "filtered": 1, "undecodable": 0}, {"id": "d", "filtered": 1_000, "undecodable": 2}],
    }
    said = "records left out by the condition: 1,001; keys and values that could not be decoded: 2"
    assert said in found._repr_html_()
    least = (
        "left out by the condition: at least 1,001; keys and values that could not be decoded: at least 2; not every"
    )
    assert least in explain(before, after, Report(), counts=replace(counts, complete=False))._repr_html_()
    assert seen_again(found, after, Report({SplitId("c", "a", 0): 9})).counts is counts
    without = explain(before, after, Report())
    assert without.to_json()["counts"] is None
    assert "left out by" not in without._repr_html_()


def test_json_has_every_key_always_and_in_order() -> None:
    before = state(2, a0=0, a1=0, d_a0=0)
    after = replace(with_splits(state(2, generation=2, a0=0, a1=1, d_a0=0, d_b0=1), first=2), losses=(LOSS,))
    full = explain(before, after, Report(unreachable={"d": "refused"}))
    empty = Explanation(changes(before, before), (), (), (), False, PlanView("whole", 0, 0, 0, 0, 0))
    documents = [json.loads(json.dumps(one.to_json())) for one in (full, empty)]
    assert list(documents[0]) == list(documents[1])
    assert empty.spread == 0
    found = documents[0]
    assert found["discovered"] == [{"split": "d/b/0", "start": 2, "owner": 1}]
    assert found["moved"] == [
        {"split": "c/a/1", "from": 0, "to": 1, "why": "1 new partition made the readers uneven"},
    ]
    assert found["lost"] == [
        {
            "split": "c/a/0",
            "cause": "aged-out",
            "position": 20,
            "found": 50,
            "offsetsMax": 30,
            "what": "its log begins at offset 50, after position 20: the records between were never read. "
            "At most 30 offsets from 20 on were lost",
        }
    ]
    assert found["clusters"][1] == {
        "id": "d",
        "reachable": False,
        "unreachable": "refused",
        "unreachableSinceMs": None,
        "leftOut": False,
        "removedAtMs": None,
        "splits": {"unassigned": 0, "assigned": 2, "retained": 0, "finished": 0},
        "lag": {"sum": None, "max": None, "unknown": 2},
    }
    assert found["evenness"] == [
        {
            "cluster": None,
            "even": True,
            "loadMin": 2,
            "loadMax": 2,
            "loadMaxBound": 2,
            "moved": 1,
            "movedBound": 1,
            "promised": True,
            "work": None,
            "statement": "as even as possible; 1 partition moved for that, the minimum",
        }
    ]
    plan = {"kind": "whole", "offsetsMax": 6, "offsetsMaxBound": 6, "offsetsMaxShare": 6, "lent": 0, "cuts": 0}
    plan["joined"] = 0
    assert found["plan"] == plan
    assert found["advice"] is None
    assert found["sentences"][-1] == (
        "rebalanced: 2 partitions per reader, as even as possible; 1 partition moved for that, the minimum"
    )


def test_what_is_lost_and_created_anew_is_told_once() -> None:
    before = replace(state(1, a0=0, a1=0), losses=(LOSS,))
    other = Loss(SplitId("c", "a", 1), Cause.RECREATED, 20)
    after = replace(with_splits(before, topic_id="id-2"), losses=(LOSS, other))
    found = changes(before, after)
    assert found.recreated == tuple(after.splits)
    assert found.sentences() == (
        "recreated c/a: partitions 0, 1: the topic was deleted and created anew; read from its beginning",
        "lost c/a/1: the topic was deleted and created anew. How many offsets from 20 on were lost is not known",
    )
    assert happened(SplitId("c", "a", 1), before, after) == (
        "lost records: the topic was deleted and created anew. How many offsets from 20 on were lost is not known",
        "was created anew: its topic has another id",
        "starts at 5",
    )
    assert why(SplitId("c", "a", 0), [before, after]) == (
        "c/a/0 was created anew: its topic has another id",
        "c/a/0 starts at 5",
    )


def test_long_stories_are_told_in_few_lines() -> None:
    names = {f"a{number}": 0 for number in range(1_000)}
    before, after = state_of(1, names), state_of(2, {**names, **dict.fromkeys(list(names)[500:], 1)})
    moved = changes(before, after).sentences()
    (line,) = moved
    assert line.startswith("moved c/a: partitions ")
    assert line.endswith(" from reader 0 to reader 1: the number of readers went from 1 to 2")
    assert len(line) < 400
    (found,) = changes(EnumeratorState(), before).sentences()
    assert found == "discovered c/a: partitions 0-999"
    gaps = with_splits(state_of(1, {f"a{2 * number}": 0 for number in range(100)}), removed_at_ms=1)
    (line,) = changes(with_splits(gaps, removed_at_ms=None), gaps).sentences()
    assert "partitions 0, 2, 4," in line
    assert "62, … 100 in all: no longer" in line


def test_more_lines_than_one_can_read_are_counted() -> None:
    topics = [f"{letter}{number}" for letter in "abcdefghijklmnopqrstuvwxyz" for number in range(8)]
    before = state_of(2, dict.fromkeys(topics, 0))
    after = state_of(9, {name: 1 + int(name[1:]) for name in topics})
    lines = changes(before, after).sentences()
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == f"moved {len(topics) - LINES_MAX} more partitions"
    lost = tuple(Loss(key, Cause.DELETED, 5) for key in list(before.splits)[: LINES_MAX + 1])
    lines = changes(before, replace(before, losses=lost)).sentences()
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == "lost records of 1 more partition"


def test_a_reader_that_is_not_pinned_to_a_split_any_more_is_why_it_moved() -> None:
    before, after = state(3, a0=0, b0=0, d_a0=0, a1=1), state(3, generation=2, a0=1, b0=1, d_a0=1, a1=2)
    pins: dict[int, tuple[Readable, ...]] = {0: (Cluster("d"), Topic("c", "b"))}
    found = explain(before, replace(after, eligible=pins), Report())
    assert {str(move.split): move.reason for move in found.changes.moves} == {
        "c/a/0": "reader 0 is not pinned to it",
        "c/a/1": "the readers were uneven",
        "c/b/0": "the readers were uneven",
        "d/a/0": "the readers were uneven",
    }


def test_what_is_back_as_another_incarnation_has_not_returned_where_it_was() -> None:
    key = SplitId("d", "t", 0)
    clusters = {"d": ClusterState("d", ("d:9092",), False, True)}
    before = EnumeratorState(1, clusters, {key: Split(key, "old", 7, removed_at_ms=5)}, begun=True)
    after = EnumeratorState(1, clusters, {key: Split(key, "new", 0, first=0, owner=0)}, generation=1, begun=True)
    found = explain(before, after, Report())
    assert (found.changes.recreated, found.changes.returned) == ((key,), ())
    assert [line.split(":")[0] for line in found.sentences()] == ["recreated d/t", "assigned"]
