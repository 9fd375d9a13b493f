"""The keeper: processes and a directory that never outlive the process that asked for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.sessions import session_members
from tests.support.waiting import wait_for

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]

USER = """
import json, os, signal, sys, time
from pathlib import Path
from evensplit.testing.process.keeper import Keeper

keeper = Keeper(Path(sys.argv[1]))
child = keeper.spawn(json.loads(sys.argv[2]), output=keeper.directory / "output")
forked = 0
if sys.argv[3] == "fork":
    forked = os.fork()
    if forked == 0:
        time.sleep(600)
print(json.dumps({"child": child.pid, "forked": forked, "directory": str(keeper.directory)}), flush=True)
how = sys.argv[3]
if how == "close":
    keeper.close()
elif how == "_exit":
    os._exit(3)
elif how == "raise":
    raise RuntimeError
elif how != "return":
    time.sleep(600)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with Keeper(tmp_path) as running:
        yield running


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def spawn(keeper: Keeper, argv: list[str]) -> Child:
    return keeper.spawn(argv, output=keeper.directory / "output")


def test_the_directory_and_the_processes_go_with_it(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        assert keeper.directory.parent == tmp_path
        child = spawn(keeper, SLEEP)
        (keeper.directory / "file").write_text("content")
        assert child.poll() is None
        assert is_alive(child.pid)
    assert not is_alive(child.pid)
    assert list(tmp_path.iterdir()) == []
    keeper.close()
    with pytest.raises(LocalKafkaError, match="closed"):
        child.poll()


def test_output_and_exit_codes(keeper: Keeper) -> None:
    code = "import os, sys; print('out', flush=True); print('err', file=sys.stderr); print(os.getcwd()); sys.exit(7)"
    child = spawn(keeper, [sys.executable, "-I", "-c", code])
    assert child.wait(20) == 7
    assert sorted((keeper.directory / "output").read_text().split()) == sorted(["out", "err", str(keeper.directory)])
    assert child.send(signal.SIGTERM) is False


def test_signals(keeper: Keeper) -> None:
    child = spawn(keeper, SLEEP)
    assert child.send(signal.SIGSTOP) is True
    state = Path(f"/proc/{child.pid}/stat")
    wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", what="it is stopped")
    assert child.wait(0.05) is None
    assert child.send(signal.SIGKILL) is True
    assert child.wait(20) == -signal.SIGKILL


def test_a_process_has_the_environment_that_it_is_given(keeper: Keeper) -> None:
    code = "import os; print(sorted(os.environ))"
    child = keeper.spawn([sys.executable, "-I", "-c", code], output=keeper.directory / "output", environment={"A": "b"})
    assert child.wait(20) == 0
    assert "'A'" in (keeper.directory / "output").read_text()
    assert "PATH" not in (keeper.directory / "output").read_text()


def test_all_of_a_session_ends_with_its_keeper(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        output = keeper.directory / "output"
        # Like Spark's daemon of Python workers, it is in a process group of its own.
        code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, process_group=0).pid, flush=True)"
        code += "; import time; time.sleep(600)"
        child = keeper.spawn([sys.executable, "-c", code], output=output, session=True)
        started = int(wait_for(output.read_text, what="its child started"))
        assert is_alive(started)
        assert sorted(session_members(child.pid)) == sorted([child.pid, started])
    assert not is_alive(started)
    assert not is_alive(child.pid)


def test_a_program_that_is_not_there_is_an_error_and_the_keeper_goes_on(keeper: Keeper) -> None:
    with pytest.raises(LocalKafkaError, match=r"FileNotFoundError.*no-such-program"):
        spawn(keeper, ["no-such-program"])
    child = spawn(keeper, [sys.executable, "-c", ""])
    assert child.wait(20) == 0


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalKafkaError, match="keeper process"):
        Keeper(tmp_path / "missing")


def test_an_answer_that_was_never_read_is_not_taken_for_the_next_one(keeper: Keeper) -> None:
    """Ctrl-C can hit between a request and its answer."""
    child = spawn(keeper, SLEEP)
    stdin = keeper._process.stdin
    assert stdin is not None
    keeper._asked += 1
    request = {"id": keeper._asked, "do": "signal", "pid": child.pid, "signal": int(signal.SIGKILL)}
    stdin.write(json.dumps(request).encode() + b"\n")
    stdin.flush()
    assert child.wait(20) == -signal.SIGKILL


def test_a_process_forked_off_the_owner_neither_uses_nor_ends_it(keeper: Keeper) -> None:
    child = spawn(keeper, SLEEP)
    forked = os.fork()
    if forked == 0:
        try:
            child.poll()
        except LocalKafkaError:
            keeper.close()
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 42
    assert child.poll() is None
    assert keeper.directory.is_dir()


def test_the_keeper_killed(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        child = spawn(keeper, SLEEP)
        keeper._process.kill()
        wait_for(lambda: not is_alive(child.pid), what="the child dies with the keeper")
        with pytest.raises(LocalKafkaError, match="was it killed"):
            child.poll()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_keeper_asked_to_end(tmp_path: Path, number: signal.Signals) -> None:
    with Keeper(tmp_path) as keeper:
        child = spawn(keeper, SLEEP)
        keeper._process.send_signal(signal.SIGINT)
        assert child.poll() is None, "Ctrl-C is the owner's"
        keeper._process.send_signal(number)
        wait_for(lambda: list(tmp_path.iterdir()) == [], what="the directory is gone")
        wait_for(lambda: not is_alive(child.pid), what="the child is gone")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "how, number",
    [
        ("return", None),
        ("close", None),
        ("raise", None),
        ("_exit", None),
        ("wait", signal.SIGINT),
        ("wait", signal.SIGTERM),
        ("wait", signal.SIGKILL),
        ("fork", signal.SIGKILL),
    ],
)
def test_nothing_outlives_the_owner(tmp_path: Path, how: str, number: signal.Signals | None) -> None:
    """`fork`: a process forked off the owner lives on and holds a copy of the pipe."""
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path), json.dumps(SLEEP), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        try:
            if number is not None:
                assert is_alive(told["child"])
                assert Path(told["directory"]).is_dir()
                owner.send_signal(number)
            owner.wait(20)
            wait_for(lambda: not is_alive(told["child"]), what="the child is gone")
            wait_for(lambda: list(tmp_path.iterdir()) == [], what="the directory is gone")
            if told["forked"]:
                assert is_alive(told["forked"])
        finally:
            if told["forked"]:
                os.kill(told["forked"], signal.SIGKILL)


def test_starting_one_is_quick(tmp_path: Path) -> None:
    """It imports nothing but the standard library, and little of that: every broker's start waits for it."""
    best = min(_seconds_to_start(tmp_path) for _ in range(3))
    assert best < 1.0


def _seconds_to_start(parent: Path) -> float:
    begin = time.monotonic()
    with Keeper(parent):
        return time.monotonic() - begin
