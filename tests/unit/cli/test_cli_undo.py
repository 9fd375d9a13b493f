"""What helps against a rewind that a query has carried out, in whole or in part."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.edits import last_edit
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, BatchPlanned
from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, put
from tests.support.commands import invoke
from tests.support.edited import lines, ours, positions, states

ZERO, ONE = SplitId("default", "orders", 0), SplitId("default", "orders", 1)


def newest(place: Path) -> EnumeratorState:
    return read_checkpoint(place).newest.ours["0"]


def after(state: EnumeratorState, ends: dict[SplitId, int]) -> EnumeratorState:
    """The end of the next batch of a query."""
    for event in (BatchOpened(), BatchPlanned(ends)):
        state = step(state, event).state
    return decode(encode(state))


def write(place: Path, number: int, end: EnumeratorState, *, done: bool = True) -> None:
    """A batch of a query."""
    put(place / "offsets" / str(number), "\n".join(["v1", "{}", *lines(end)]).encode())
    put(place / "commits" / str(number - (not done)), b"v1\n{}")
    age(place)


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


def test_a_batch_that_is_not_done_is_left_out_too(tmp_path: Path) -> None:
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
    assert re.findall("`evensplit skip [^`]*`", advice(place)) == [
        f"`evensplit skip {place} east/orders/1:10-24 --source 0`",
        f"`evensplit skip {place} west/orders/0:10-29 west/orders/1:10-24 --source 1`",
    ]


def test_of_many_the_first_are_named(tmp_path: Path) -> None:
    state = states()[2]
    many = {
        (key := SplitId("default", "orders", number)): state.splits[ZERO]._replace(id=key, position=30)
        for number in range(12)
    }
    wide = replace(state, splits=MappingProxyType(many))
    place = checkpoint(tmp_path / "x", lines(wide), committed=0)
    invoke("rewind", place, "--to", f"file:{_offsets(tmp_path)}", "--yes")
    put(place / "commits" / "1", b"v1\n{}")
    told = advice(place)
    assert told.count(":5-29") == 10
    assert told.endswith("default/orders/9:5-29`, … 12 partitions in all")


def _offsets(where: Path) -> Path:
    (where / "kept.json").write_text('{"orders":{' + ",".join(f'"{number}":5' for number in range(12)) + "}}")
    return where / "kept.json"


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
