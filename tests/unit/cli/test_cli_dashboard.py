"""`evensplit dashboard`: a checkpoint that is followed, and what cannot be shown."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit.checkpoint.history import CheckpointHistory
from evensplit.cli.group import evensplit
from evensplit.cli.history.fleet import Followed
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import View
from tests.support.browsers import client
from tests.support.histories import line, write_batch
from tests.support.views import PLANNED_MS, dealt, keys_of, state

KEYS = keys_of({("east", "orders"): 4})


def look(kept: CheckpointHistory) -> list[str]:
    """Look on as the command does. Returns what it says beside the query."""
    one = Followed(kept, kept.recorder or Recorder())
    return [*one.look(None), *one.passing]


def end(position: int, readers: int = 2) -> EnumeratorState:
    return state(dealt(KEYS, readers), dict.fromkeys(KEYS, position), readers)


def write(checkpoint: Path, batch: int, *lines: str, committed: bool = True) -> Path:
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"5f0e"}')
    return write_batch(checkpoint, batch, *lines, at_ms=PLANNED_MS + 1_000 * batch, committed=committed)


def only(recorder: Recorder) -> View:
    (found,) = recorder.watched()
    assert found.stage is QueryStatus.UNKNOWN
    return found.view


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 5 to 7, a hundred offsets of each split in each."""
    for batch in range(5, 8):
        write(tmp_path / "kept", batch, line(end(100 * batch)))
    return tmp_path / "kept"


def test_the_batches_that_are_kept(checkpoint: Path) -> None:
    recorder = Recorder()
    assert look(CheckpointHistory(checkpoint, recorder)) == []
    view = only(recorder)
    assert (view.source.query_id, view.source.name, view.last.number) == ("5f0e", str(checkpoint), 7)
    assert [(work.batch, work.offsets) for work in view.work] == [(6, {0: 200, 1: 200}), (7, {0: 200, 1: 200})]
    story = recorder.story(view.source, SplitId("east", "orders", 1))
    assert story is not None
    assert story.now == view.last.end.splits[SplitId("east", "orders", 1)]


def test_what_a_checkpoint_does_not_tell_is_not_known(checkpoint: Path) -> None:
    recorder = Recorder()
    look(CheckpointHistory(checkpoint, recorder))
    text = " ".join(client(recorder).get("/").text.split())
    assert "from a checkpoint" in text
    assert "not known whether it answers" in text
    assert "4 partitions" in text
    assert text.count("lag unknown") == 2 * 4


def test_batches_that_come(checkpoint: Path) -> None:
    recorder = Recorder()
    kept = CheckpointHistory(checkpoint, recorder)
    look(kept)
    write(checkpoint, 8, line(end(900, readers=4)), committed=False)
    assert look(kept) == ["batch 8 is planned, but Spark has not committed it yet"]
    assert only(recorder).last.number == 8
    assert len(only(recorder).explanation.changes.moves) == 2
    write(checkpoint, 8, line(end(900, readers=4)))
    assert look(kept) == []
    assert only(recorder).totals.batches == 3


def test_the_first_batch_of_all_is_told_from_the_beginning(tmp_path: Path) -> None:
    recorder = Recorder()
    first = end(50)
    splits = {key: split._replace(first=0) for key, split in first.splits.items()}
    write(tmp_path, 0, line(EnumeratorState(2, first.clusters, splits, first.settings, 0, True, (0, 1))))
    look(CheckpointHistory(tmp_path, recorder))
    assert len(only(recorder).explanation.changes.discoveries) == 4
    assert only(recorder).explanation.offsets == 200


@pytest.mark.parametrize("text", ["", "v1\n{}\n", 'v1\n{}\n{"evensplit": 3,', "\xff", 'v1\n{}\n{"evensplit": 3}'])
def test_what_is_damaged_while_it_is_followed_is_a_note(checkpoint: Path, text: str) -> None:
    recorder = Recorder()
    kept = CheckpointHistory(checkpoint, recorder)
    look(kept)
    (checkpoint / "offsets" / "8").write_bytes(text.encode("latin-1"))
    (note,) = look(kept)
    assert "8" in note
    assert only(recorder).last.number == 7
    write(checkpoint, 8, line(end(900)))
    assert look(kept) == []
    assert only(recorder).last.number == 8


def test_a_checkpoint_that_goes_away_is_a_note(checkpoint: Path) -> None:
    recorder = Recorder()
    kept = CheckpointHistory(checkpoint, recorder)
    look(kept)
    shutil.rmtree(checkpoint)
    (note,) = look(kept)
    assert note.startswith(f"not up to date: there is no directory {checkpoint}")
    assert only(recorder).last.number == 7


def test_several_sources_and_one_of_them(tmp_path: Path) -> None:
    for batch in (5, 6):
        write(tmp_path, batch, '{"topic":{"0":5}}', line(end(100 * batch)), line(end(10 * batch)))
    recorder = Recorder()
    look(CheckpointHistory(tmp_path, recorder))
    assert [one.view.source.number for one in recorder.watched()] == [1, 2]
    recorder = Recorder()
    look(CheckpointHistory(tmp_path, recorder, "2"))
    assert only(recorder).explanation.offsets == 40
    with pytest.raises(CheckpointError, match="has no source '0' of this package; expected one of 1, 2"):
        CheckpointHistory(tmp_path, Recorder(), "0").look()


def refused(*arguments: str, code: int = 1) -> str:
    result = CliRunner().invoke(evensplit, ["dashboard", *arguments, "--port", "0"])
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_where_it_cannot_be_served(tmp_path: Path, checkpoint: Path) -> None:
    told = refused(str(checkpoint), "--host", "0.0.0.0", code=2)
    assert "other machines can reach it; expected a token" in told
    assert "ES-101" in told
    (tmp_path / "empty").write_text("\n")
    assert "is empty; expected a token" in refused(str(checkpoint), "--token-file", str(tmp_path / "empty"))
    assert "No such file" in refused(str(checkpoint), "--token-file", str(tmp_path / "none"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(evensplit, ["dashboard", str(checkpoint), "--port", str(port)])
    assert result.exit_code == 1
    assert f"port {port}" in result.stderr


@pytest.mark.slow
def test_the_command_serves_and_follows_until_ctrl_c(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse\n")
    command = [sys.executable, "-m", "evensplit.cli", "dashboard", str(checkpoint), "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", str(tmp_path / "token")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            url = said.split()[4]
            assert "horse" not in said
            request = urllib.request.Request(url, headers={"Authorization": "Bearer correct-horse"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert "from a checkpoint" in answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
