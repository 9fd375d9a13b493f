"""What had been left out and is read again by a rewind: it is said, and the advised commands do what is said."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import SplitId
from evensplit.core.repair import reread
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import after, do, lines, ours, positions, states, write

ZERO, ONE = SplitId("default", "orders", 0), SplitId("default", "orders", 1)
YET = "cannot be left out yet: batch 4, which has this edit, is planned."


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "or'der s")


def rewound(place: Path, to: str, *more: str) -> str:
    return " ".join(invoke("rewind", place, "--to", to, "--yes", "--assume-stopped", *more)[0].split())


def advised(told: str, command: str = "skip") -> list[list[str]]:
    """The commands in a text, as a shell passes them on, without the name of the program."""
    return [shlex.split(one) for one in re.findall(f"`evensplit ({command} [^`]*)`", told) if "--yes" in one]


def read(place: Path, source: str = "0") -> list[tuple[int, int, int]]:
    """Partition, and the first offset and the end, of what the last batch reads."""
    found = read_checkpoint(place)
    ranges = batch_ranges(found.batches[-2].ours[source], found.newest.ours[source])
    return [(part.split.partition, part.start, part.end) for part in ranges]


def test_it_is_said(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:32-35", "--yes")
    for at, said in ((20, "offsets 32 to 35 were"), (34, "offsets 34 to 35 were"), (35, "offset 35 was")):
        shown, _ = invoke("rewind", place, "--to", f'{{"orders":{{"0":{at}}}}}')
        note = f"Note: default/orders/0: {said} left out by `evensplit skip orders/0:32-35`, and will be read now."
        assert note in " ".join(shown.split())


def test_further_on_it_is_skipped_when_the_batch_of_the_edit_is_done(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:32-35", "--yes")
    do(place, 3)
    told = rewound(place, '{"orders":{"0":20}}')
    assert f"Note: This {YET} To come so far it would have to read what is before" in told
    assert "So start the query, and let it do batch 4. Then, before another batch has read any of it, or when" in told
    (command,) = advised(told)
    assert "would have to read what is unread before offset 32" in invoke(*command, code=1)[1]
    do(place, 4)
    invoke(*command)
    assert read(place) == [(0, 20, 32)]
    assert positions(place)["default/orders/0"] == 36


def test_further_on_it_is_skipped_when_the_query_fails_at_it(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:32-35", "--yes")
    do(place, 3)
    (command,) = advised(rewound(place, '{"orders":{"0":20}}'))
    do(place, 4)
    write(place, 5, after(read_checkpoint(place).newest.ours["0"], {ZERO: 38, ONE: 25}), done=False)
    invoke(*command)
    assert read(place) == [(0, 20, 32), (0, 36, 38)]


def test_right_at_the_place_it_is_skipped_at_once(place: Path, kafka: FakeKafka) -> None:
    """Also where two commands have left out what is side by side."""
    invoke("skip", place, "orders/0:32-33", "--yes")
    do(place, 3)
    invoke("skip", place, "orders/0:34-35", "orders/0:38", "--yes")
    do(place, 4)
    told = rewound(place, '{"orders":{"0":32}}')
    said = "can be left out again at once: when this edit is written, and before the query is started, run"
    assert f"What begins right where the edit goes back to {said} `" in told
    assert "What begins further on cannot be left out yet: batch 5" in told
    at_once, later = advised(told)
    invoke(*at_once)
    assert positions(place)["default/orders/0"] == 36
    do(place, 5)
    invoke(*later)
    assert read(place) == [(0, 36, 38)]
    assert positions(place)["default/orders/0"] == 39


def test_of_two_sources_that_read_the_same_each_has_a_command(tmp_path: Path, kafka: FakeKafka) -> None:
    rows = [[*lines(one), *lines(other)] for one, other in zip(states(), states(servers="other:9092"), strict=True)]
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    for number, source in ((3, "0"), (4, "1")):
        invoke("skip", place, "orders/0:30-31", "orders/0:36", "--source", source, "--yes")
        do(place, number)
    commands = advised(rewound(place, '{"orders":{"0":30}}'))
    assert [command[3:5] for command in commands] == [["--source", "0"], ["--source", "1"]] * 2
    for command in commands[:2]:
        invoke(*command)
    assert [state.splits[ZERO].position for state in read_checkpoint(place).newest.ours.values()] == [32, 32]
    # One command makes one batch, which the query has to do before it can read on to what another one leaves out.
    for number, source, command in ((5, "0", commands[2]), (6, "1", commands[3])):
        do(place, number)
        invoke(*command)
        assert read(place, source) == [(0, 32, 36)]


def test_of_two_sources_that_read_other_partitions_there_is_one_command(tmp_path: Path, kafka: FakeKafka) -> None:
    """So that what is further on is left out at once in both."""
    rows = [[*lines(one), *lines(west)] for one, west in zip(states(), states(topic="clicks"), strict=True)]
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    kafka.fail_with(ClusterUnreachable("default", "down"))
    invoke("skip", place, "orders/0:36", "clicks/0:36", "--yes")
    do(place, 3)
    (command,) = advised(rewound(place, '{"orders":{"0":30},"clicks":{"0":32}}'))
    assert command[2:] == ["default/orders/0:36", "default/clicks/0:36", "--yes", "--assume-stopped"]
    do(place, 4)
    invoke(*command)
    assert [read(place, source) for source in ("0", "1")] == [[(0, 30, 36)], [(0, 32, 36)]]


def test_of_one_source_that_is_read_twice_there_is_one_command(tmp_path: Path, kafka: FakeKafka) -> None:
    place = checkpoint(tmp_path / "x", *[lines(one) * 2 for one in states()], committed=2)
    invoke("skip", place, "orders/0:30-31", "--yes")
    do(place, 3)
    (command,) = advised(rewound(place, '{"orders":{"0":30}}'))
    assert "--source" not in command
    invoke(*command)
    assert [state.splits[ZERO].position for state in read_checkpoint(place).newest.ours.values()] == [32, 32]


def test_one_source_of_several_that_is_read_twice_is_named_by_all_its_lines(tmp_path: Path, kafka: FakeKafka) -> None:
    rows = [[*lines(one) * 2, *lines(two)] for one, two in zip(states(), states(servers="other:9092"), strict=True)]
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    invoke("skip", place, "orders/0:30-31", "--source", "0", "--source", "1", "--yes")
    do(place, 3)
    (command,) = advised(rewound(place, '{"orders":{"0":30}}', "--source", "0", "--source", "1"))
    assert command[3:7] == ["--source", "0", "--source", "1"]
    invoke(*command)


def test_all_ranges_are_named_as_many_as_a_command_takes(
    place: Path, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.append("orders", 0, 60)
    ranges = [f"orders/0:{at}" for at in range(32, 72, 2)]
    invoke("skip", place, *ranges, "--yes")
    do(place, 3)
    told = rewound(place, '{"orders":{"0":30}}')
    assert "So will 10 ranges more that were left out." in told
    (command,) = advised(told)
    assert command[2:22] == [f"default/{one}" for one in ranges]
    assert "more are not in these commands" not in told
    do(place, 4)
    invoke(*command)
    invoke("undo", place, "--yes", "--assume-stopped")
    monkeypatch.setattr(reread, "RANGES_SKIPPED_MAX", 15)
    told = rewound(place, '{"orders":{"0":12}}')
    (command,) = advised(told)
    assert command[2:17] == [f"default/{one}" for one in ranges[:15]]
    assert "5 ranges more are not in these commands: `--format json` has all, as leftOut. Leave them out in" in told
    (source,) = json.loads(
        invoke("rewind", place, "--to", '{"orders":{"0":11}}', "--assume-stopped", "--format", "json")[0]
    )["sources"]
    assert [(one["at"], one["to"]) for one in source["leftOut"]] == [(at, at + 1) for at in range(32, 72, 2)]
    assert {one["split"] for one in source["leftOut"]} == {"default/orders/0"}
    assert all(one["by"].startswith("evensplit skip orders/0:32 ") for one in source["leftOut"])


def test_a_command_is_not_folded(place: Path, kafka: FakeKafka) -> None:
    """It is copied from a terminal, with its line breaks."""
    invoke("skip", place, "orders/0:32-35", "--yes")
    do(place, 3)
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":32}}', columns=60)
    (line,) = [one for one in shown.splitlines() if "evensplit skip" in one and "Note" in one and "run" in one]
    assert f"`evensplit skip {shlex.quote(str(place))} default/orders/0:32-35 --yes --assume-stopped`" in line


def test_what_has_been_read_since_is_nothing_to_point_out(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:30-31", "--yes")
    do(place, 3)
    rewound(place, '{"orders":{"0":30}}')
    do(place, 4)
    invoke("skip", place, "orders/0:36", "--yes")
    do(place, 5)
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":20}}')
    assert "orders/0:30-31" not in shown
    assert "the records of up to 16 offsets a second time" in shown


def test_what_was_left_out_after_it_had_been_read_once_is_named_once(place: Path, kafka: FakeKafka) -> None:
    """New code may fail at what the old one had read."""
    for _ in range(2):
        rewound(place, '{"orders":{"0":24}}')
        invoke("skip", place, "orders/0:24-25", "--yes", "--assume-stopped")
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":20}}')
    note = "default/orders/0: offsets 24 to 25 were left out by `evensplit skip orders/0:24-25`, and will be read now."
    assert " ".join(shown.split()).count(note) == 1
