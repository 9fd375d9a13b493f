"""What helps against an edit that a query has carried out, in whole or in part."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.edits import last_edit
from evensplit.core.model import SplitId
from evensplit.core.repair.records import Record
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, contents, put
from tests.support.commands import invoke
from tests.support.edited import after, both, lines, ours, positions, states, write

ZERO, ONE = SplitId("default", "orders", 0), SplitId("default", "orders", 1)
COUNT = 30


def newest(place: Path) -> EnumeratorState:
    return read_checkpoint(place).newest.ours["0"]


def ends(place: Path) -> list[EnumeratorState]:
    """Where the sources stand."""
    return list(read_checkpoint(place).newest.ours.values())


def advice(place: Path) -> str:
    with pytest.raises(EditRefused) as refused:
        last_edit(read_checkpoint(place))
    return str(refused.value).partition("as the edit left it. ")[2]


def test_what_is_not_read_again_yet_is_named_and_can_be_skipped(tmp_path: Path, kafka: FakeKafka) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    write(place, 4, after(newest(place), {ZERO: 18, ONE: 25}))
    told = advice(place)
    command = f"evensplit skip {place} default/orders/0:18-29"
    assert told.endswith(f"; what is not read again yet can be left out: `{command}`")
    assert told in " ".join(invoke("undo", place, code=1)[1].split())
    invoke(*command.split()[1:], "--yes", "--assume-stopped")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 25}


def test_a_batch_that_is_not_done_is_left_out_too(tmp_path: Path, kafka: FakeKafka) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    write(place, 4, after(newest(place), {ZERO: 18, ONE: 20}), done=False)
    assert advice(place).endswith(f"`evensplit skip {place} default/orders/0:10-29 default/orders/1:10-24`")
    invoke("skip", place, "default/orders/0:10-29", "default/orders/1:10-24", "--yes", "--assume-stopped")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 25}


def test_where_all_is_read_again_nothing_helps(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    write(place, 4, after(newest(place), {ZERO: 30, ONE: 26}))
    assert advice(place) == "What was read again has been read, and cannot be taken back"


def test_what_is_away_or_another_topic_by_now_is_not_named(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    end = after(newest(place), {ZERO: 18, ONE: 20})
    anew = end.splits[ZERO]._replace(topic_id="other", position=3, first=0, since=end.revision)
    write(place, 4, replace(end, splits=MappingProxyType({ZERO: anew, ONE: end.splits[ONE]})))
    assert advice(place).endswith(f"`evensplit skip {place} default/orders/1:20-24`")
    write(place, 4, replace(end, splits=MappingProxyType({ZERO: anew})))
    assert "skip" not in advice(place)


def test_a_cluster_that_is_called_otherwise_by_now(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--only", "orders/0", "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    state = newest(place)
    clusters = {"eu": replace(state.clusters["default"], id="eu")}
    splits = {(key := one._replace(cluster="eu")): split._replace(id=key) for one, split in state.splits.items()}
    write(place, 4, after(replace(state, clusters=clusters, splits=MappingProxyType(splits)), {}))
    assert advice(place).endswith(f"`evensplit skip {place} eu/orders/0:10-29`")


def test_of_several_sources_each_has_a_command(tmp_path: Path) -> None:
    rows = [[*lines(one), *lines(other)] for one, other in zip(states("east"), states("west"), strict=True)]
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    invoke("rewind", place, "--to", "batch:1", "--only", "orders/0", "--source", "0", "--yes")
    invoke("rewind", place, "--to", "batch:1", "--yes", "--assume-stopped")
    put(place / "commits" / "3", b"v1\n{}")
    told = advice(place)
    assert re.findall("`evensplit skip [^`]*`", told) == [
        f"`evensplit skip {place} east/orders/1:10-24 --source 0`",
        f"`evensplit skip {place} west/orders/0:10-29 west/orders/1:10-24 --source 1`",
        f"`evensplit skip {place} east/orders/0:10-29 --source 0`",
    ]
    assert told.count("what `evensplit rewind --to batch:1 --only orders/0` went back over in the same batch") == 1


def test_all_partitions_are_named_however_many(tmp_path: Path, kafka: FakeKafka) -> None:
    """What is not named is lost once the first are left out: that is the last edit then."""
    kafka.add_partitions("orders", COUNT)
    for number in range(COUNT):
        kafka.append("orders", number, 40)
    state = states()[2]
    many = {
        (key := SplitId("default", "orders", number)): state.splits[ZERO]._replace(id=key, position=30)
        for number in range(COUNT)
    }
    wide = replace(state, splits=MappingProxyType(many))
    place = checkpoint(tmp_path / "x", lines(wide), committed=0)
    invoke("rewind", place, "--to", f"file:{_offsets(tmp_path)}", "--yes")
    put(place / "commits" / "1", b"v1\n{}")
    age(place)
    (command,) = re.findall("`evensplit (skip [^`]*)`", advice(place))
    invoke(*command.split(), "--yes", "--assume-stopped")
    assert set(positions(place).values()) == {30}


def _offsets(where: Path) -> Path:
    (where / "kept.json").write_text('{"orders":{' + ",".join(f'"{number}":5' for number in range(COUNT)) + "}}")
    return where / "kept.json"


def test_what_was_left_out_after_a_rewind_in_one_batch(tmp_path: Path, kafka: FakeKafka) -> None:
    """Where the batch began, at offset 30, is behind what was left out."""
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--yes")
    invoke("skip", place, "orders/0:12-13", "--yes", "--assume-stopped")
    put(place / "commits" / "3", b"v1\n{}")
    write(place, 4, after(newest(place), {ZERO: 18, ONE: 25}))
    back, rest = advice(place).split("; ")
    assert back == f"""`evensplit rewind {place} --to '{{"orders":{{"0":12}}}}'` goes back to what was left out"""
    assert rest == (
        'what `evensplit rewind --to {"orders":{"0":12}}` went back over in the same batch, and is not read again yet, '
        f"can be left out: `evensplit skip {place} default/orders/0:18-29`"
    )
    files = contents(place)
    invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--yes")
    assert positions(place)["default/orders/0"] == 12
    for name in contents(place).keys() - files:
        (place / name).unlink()
    invoke("skip", place, "default/orders/0:18-29", "--yes")
    assert positions(place)["default/orders/0"] == 30


def test_that_the_sink_may_have_the_batch_is_said_where_it_would_be_another_one(tmp_path: Path) -> None:
    """A query that was killed in it has left no sign. Without a rewind, a batch that a query planned reads the same."""
    place = ours(tmp_path / "x", committed=1)
    for command, said in ((("rewind", "--to", "batch:1"), False), (("skip", "orders/1:12"), True)):
        name, *more = command
        invoke(name, place, *more, "--yes", "--assume-stopped")
        shown = " ".join(invoke("undo", place)[0].split())
        note = "Note: A query that was started since, and was killed in batch 2, leaves no sign of that here."
        assert (note in shown) is said
        assert len(json.loads(invoke("undo", place, "--format", "json")[0])["notes"]) == said
        invoke("undo", place, "--yes", "--assume-stopped")
    assert "let the query do batch 2, and stop it; this command then says what helps" in shown


def test_what_was_left_out_is_named_in_each_cluster_and_source(tmp_path: Path, kafka: FakeKafka) -> None:
    rows = [
        [*lines(both(one, other)), *lines(third)]
        for one, other, third in zip(states("east"), states("we'st"), states("north"), strict=True)
    ]
    place = checkpoint(tmp_path / "x", *rows, committed=1)
    skipped = ["we'st/orders/0:25", "we'st/orders/0:21", "east/orders/1:12", "north/orders/0:22"]
    invoke("skip", place, *skipped, "--yes", "--assume-stopped")
    put(place / "commits" / "2", b"v1\n{}")
    age(place)
    commands = re.findall("`evensplit (rewind [^`]*)`", advice(place))
    assert commands == [
        f"""rewind {place} --to '{{"east":{{"orders":{{"1":12}}}},"we'"'"'st":{{"orders":{{"0":21}}}}}}' --source 0""",
        f"""rewind {place} --to '{{"orders":{{"0":22}}}}' --source 1""",
    ]
    for command in commands:
        invoke(*shlex.split(command), "--yes", "--assume-stopped")
    found = {str(key): split.position for state in ends(place) for key, split in state.splits.items()}
    assert (found["east/orders/1"], found["we'st/orders/0"], found["north/orders/0"]) == (12, 21, 22)
    assert (found["east/orders/0"], found["we'st/orders/1"], found["north/orders/1"]) == (30, 25, 25)


def test_nothing_goes_back_to_what_was_left_out_of_another_topic(tmp_path: Path, kafka: FakeKafka) -> None:
    place = ours(tmp_path / "x", committed=1)
    invoke("skip", place, "orders/0:25", "--yes", "--assume-stopped")
    put(place / "commits" / "2", b"v1\n{}")
    end = after(newest(place), {})
    anew = end.splits[ZERO]._replace(topic_id="other", position=3, first=0, since=end.revision)
    write(place, 3, replace(end, splits=MappingProxyType({ZERO: anew, ONE: end.splits[ONE]})))
    assert advice(place) == "What was left out is not there any more: its topic is away, or was created anew"


def test_what_a_rewind_went_back_over_is_told_after_another_edit(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    invoke("rename-cluster", place, "default", "eu", "--yes", "--assume-stopped")
    put(place / "commits" / "3", b"v1\n{}")
    back, rest = advice(place).split("; ")
    assert back == f"`evensplit rename-cluster {place} eu default` gives the cluster its former id"
    assert rest.endswith(f"can be left out: `evensplit skip {place} eu/orders/0:10-29 eu/orders/1:10-24`")


def test_that_a_checkpoint_is_a_copy_is_not_taken_back(tmp_path: Path) -> None:
    place, new = ours(tmp_path / "x"), tmp_path / "new"
    invoke("rewind", place, "--to", "batch:1", "--yes")
    invoke("fork", place, new, "--yes")
    _, told = invoke("undo", new, "--yes", "--assume-stopped", code=1)
    said = " ".join(told.split())
    assert f"the last edit, `evensplit fork {new}`, is that {new} was made: {new} is a copy, and stays one." in said
    assert "To be rid of it, stop its query and remove it; the original is as it was" in said
    invoke("rewind", new, "--to", '{"orders":{"0":3}}', "--yes", "--assume-stopped")
    invoke("undo", new, "--yes", "--assume-stopped")
    assert [edit.command for edit in newest(new).edits] == ["rewind", "fork"]


def test_where_a_query_was_moved_to_is_not_removed_once_it_runs(tmp_path: Path) -> None:
    """Then the first checkpoint leads to lost records: a sink knows batches by the id of the query."""
    place, new = ours(tmp_path / "x"), tmp_path / "new"
    invoke("fork", place, new, "--same-query", "--yes")
    said = " ".join(invoke("undo", new, "--yes", "--assume-stopped", code=1)[1].split())
    assert (
        f"If it was not started here yet, call the move off so: remove {new}, and start the checkpoint that it was "
        "moved from. Once it was started here, never start that: of two queries with one id, each would leave out"
    ) in said
    put(new / "commits" / "3", b"v1\n{}")
    said = " ".join(invoke("undo", new, "--yes", "--assume-stopped", code=1)[1].split())
    assert (
        f"The query was moved to {new} and goes on here. Never start the checkpoint that it was moved from, nor remove "
        "this one: of two queries with one id, each would leave out what the other has written"
    ) in said
    assert "To be rid of it" not in said
    invoke("fork", new, tmp_path / "newer", "--yes")
    assert "To be rid of it" in invoke("undo", tmp_path / "newer", code=1)[1]


@pytest.mark.parametrize("name", ["my cluster", "o'clock", 'a "b"'])
def test_a_new_name_with_blanks_or_quotes_is_given_back(tmp_path: Path, name: str) -> None:
    place = ours(tmp_path / "x")
    invoke("rename-cluster", place, "default", name, "--yes")
    put(place / "commits" / "3", b"v1\n{}")
    told = advice(place)
    assert told == f"`evensplit rename-cluster {place} {shlex.quote(name)} default` gives the cluster its former id"
    invoke(*shlex.split(told.split("`")[1])[1:], "--yes")
    assert list(positions(place)) == ["default/orders/0", "default/orders/1"]


@pytest.mark.parametrize(
    "line, said",
    [
        ("evensplit rename-cluster east eu", ("rename-cluster", "east", "eu")),
        ("evensplit rename-cluster o'clock eu", ("rename-cluster", "o'clock", "eu")),
        ("evensplit ", ("",)),
        ("evensplit '", ("'",)),
    ],
)
def test_what_a_record_of_any_version_was_told(line: str, said: tuple[str, ...]) -> None:
    assert Record(1, line, 0, 3, "v1", "").said == said
