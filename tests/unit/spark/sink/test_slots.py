"""Slots: no name is had twice at once, nor twice for a batch, whatever processes do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka.produce.terms import Unanswered
from evensplit.spark.sink import slots
from evensplit.spark.sink.slots import Slot, slot

PROGRAM = """
import sys
from pathlib import Path
from evensplit.spark.sink.slots import slot
with slot("p", "q", int(sys.argv[2]), Path(sys.argv[1])) as name:
    print(name.name, flush=True)
    sys.stdin.read()
"""


def number(slot: Slot | str) -> int:
    name = slot if isinstance(slot, str) else slot.name
    return int(name.rpartition("-")[2])


def other_process(root: Path, batch: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root), str(batch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_no_name_twice_for_a_batch_and_the_lowest_for_the_next(tmp_path: Path) -> None:
    def had(batch: int) -> int:
        with slot("p", "q", batch, tmp_path) as name:
            return number(name)

    assert [had(5), had(5), had(5)] == [0, 1, 2]
    assert [had(6), had(7), had(7)] == [0, 0, 1]
    # One that is late in an earlier batch gets none of a later one: 2 was last used for 5.
    assert [had(6), had(5), had(5)] == [2, 3, 4]


def test_names_that_are_had_at_once_differ(tmp_path: Path) -> None:
    with ExitStack() as held:
        names = [held.enter_context(slot("p", "q", batch, tmp_path)).name for batch in range(4)]
    assert len(set(names)) == 4
    assert len({name.rpartition("-")[0] for name in names}) == 1


def test_queries_and_prefixes_have_names_of_their_own(tmp_path: Path) -> None:
    with (
        slot("p", "q", 1, tmp_path) as first,
        slot("p", "r", 1, tmp_path) as second,
        slot("o", "q", 1, tmp_path) as third,
    ):
        assert len({one.name for one in (first, second, third)}) == 3


def test_processes_at_once_and_one_that_is_killed(tmp_path: Path) -> None:
    processes = [other_process(tmp_path, 3) for _ in range(3)]
    names = [said(process) for process in processes]
    assert sorted(map(number, names)) == [0, 1, 2]
    assert len({name.rpartition("-")[0] for name in names}) == 1
    with slot("p", "q", 4, tmp_path) as name:
        assert number(name) == 3
    killed = next(process for process, name in zip(processes, names, strict=True) if number(name) == 1)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    with slot("p", "q", 3, tmp_path) as name:
        assert number(name) == 4
    with slot("p", "q", 4, tmp_path) as name:
        assert number(name) == 1
    for process in processes:
        process.communicate("")


def test_a_slot_of_which_nobody_knows_the_batch_is_not_used(tmp_path: Path) -> None:
    with slot("p", "q", 1, tmp_path):
        pass
    (file,) = tmp_path.glob("slots/*/0")
    file.write_text("1x")
    with slot("p", "q", 9, tmp_path) as name:
        assert number(name) == 1
    assert file.read_text() == "1x"


def test_a_slot_whose_request_was_not_answered_is_not_used_again(tmp_path: Path) -> None:
    def ask(batch: int, *, answered: bool) -> int:
        with suppress(TimeoutError), slot("p", "q", batch, tmp_path) as taken, taken.asking():
            if not answered:
                raise TimeoutError
        return number(taken)

    answers = (True, False, True, True, False, True)
    assert [ask(batch, answered=answered) for batch, answered in enumerate(answers)] == [0, 0, 1, 1, 1, 2]


def test_a_slot_that_a_failing_task_gives_back_is_the_next_ones(tmp_path: Path) -> None:
    """So that ids do not become more with each attempt of a batch, but for those that are killed."""

    def fail() -> int:
        with slot("p", "q", 5, tmp_path) as taken:
            with taken.asking():
                pass
            with taken.giving_back():
                pass
        return number(taken)

    assert [fail() for _ in range(4)] == [0, 0, 0, 0]
    with slot("p", "q", 5, tmp_path) as name:
        assert number(name) == 0
    assert fail() == 1


def test_a_slot_is_not_given_back_if_a_request_may_be_under_way(tmp_path: Path) -> None:
    """In one of two clusters the id was asked for in vain; that it is aborted in the other one says nothing of that."""
    with slot("p", "q", 5, tmp_path) as taken:
        with taken.asking():
            pass
        with suppress(TimeoutError), taken.asking():
            raise TimeoutError
        with taken.giving_back():
            pass
    with suppress(TimeoutError), slot("p", "q", 6, tmp_path) as name, name.giving_back():
        raise TimeoutError
    with slot("p", "q", 7, tmp_path) as last:
        assert [number(one) for one in (taken, name, last)] == [0, 1, 2]


def test_a_slot_whose_request_was_refused_is_the_next_batchs(tmp_path: Path) -> None:
    """Such as for a right that the user lacks, until somebody gives it. Not this batch's: its abort may be refused."""

    def refused(batch: int) -> int:
        with suppress(BrokerError), slot("p", "q", batch, tmp_path) as taken, taken.asking():
            raise BrokerError("east", "this user may not do that", 53)
        return number(taken)

    assert [refused(batch) for batch in (5, 5, 6, 7)] == [0, 1, 0, 0]
    with suppress(BrokerError), slot("p", "q", 8, tmp_path) as taken:
        with taken.asking():
            pass
        with taken.giving_back():
            raise BrokerError("east", "this user may not do that any more", 53)
    with slot("p", "q", 8, tmp_path) as name:
        assert [number(taken), number(name)] == [0, 1]


@pytest.mark.parametrize("error, lost", [(ClusterUnreachable, False), (Unanswered, True)])
def test_a_request_that_was_never_sent_costs_no_slot(
    tmp_path: Path, error: type[ClusterUnreachable], lost: bool
) -> None:
    """As while the coordinator is away."""
    with suppress(ClusterUnreachable), slot("p", "q", 5, tmp_path) as taken, taken.asking():
        raise error("east", "nobody answered")
    with slot("p", "q", 6, tmp_path) as name:
        assert number(name) == lost


def test_a_refusal_does_not_undo_that_another_request_may_be_under_way(tmp_path: Path) -> None:
    with slot("p", "q", 5, tmp_path) as taken:
        with suppress(TimeoutError), taken.asking():
            raise TimeoutError
        with suppress(BrokerError), taken.asking():
            raise BrokerError("west", "this user may not do that", 53)
    with slot("p", "q", 6, tmp_path) as name:
        assert number(name) == 1


def test_a_host_that_was_copied_has_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slot("p", "q", 1, tmp_path) as here:
        pass
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    with slot("p", "q", 2, tmp_path) as there:
        pass
    assert number(here) == number(there) == 0
    assert here.name != there.name


@pytest.mark.parametrize("wrong", ["a file", "open to others", "a link"])
def test_a_directory_that_others_could_use_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(slots, "_made", {})
    shared = tmp_path / f"evensplit-{os.geteuid()}"
    if wrong == "a file":
        shared.touch()
    elif wrong == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        shared.symlink_to(tmp_path / "elsewhere")
    else:
        shared.mkdir()
        shared.chmod(0o777)
    with slot("p", "q", 1) as first, slot("p", "q", 1) as second:
        assert first.name != second.name
    assert not list(tmp_path.glob(f"{shared.name}/*"))


def test_the_directory_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with slot("p", "q", 1):
        pass
    made = list(tmp_path.rglob("*"))
    assert len(made) >= 4
    assert not any(path.stat().st_mode & 0o077 for path in made if path.is_dir() or path.name == "0")
    assert (tmp_path / f"evensplit-{os.geteuid()}").is_dir()
