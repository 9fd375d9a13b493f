"""Batches that are made ahead: the same ones in the same order, and only where a processor is idle."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.kafka.fetch import look_ahead
from evensplit.kafka.fetch.look_ahead import LookAhead, Spare, waited_s


class Told(Spare):
    """A processor is idle, or not, as it is told for each batch in turn."""

    def __init__(self, answers: list[bool]) -> None:
        super().__init__(lambda: 0.0)
        self._answers = answers

    def is_there(self) -> bool:
        return self._answers.pop(0) if self._answers else False


class Batches:
    """Numbers from 0, with the threads that made them. `fails_at`: instead of that one it raises."""

    def __init__(self, count: int, fails_at: int | None = None) -> None:
        self.threads: list[str] = []
        self.closed = False
        self._count = count
        self._fails_at = fails_at

    def __call__(self) -> Iterator[int]:
        try:
            for number in range(self._count):
                if number == self._fails_at:
                    raise ConnectionError("it broke")
                self.threads.append(threading.current_thread().name.partition("_")[0])
                yield number
        finally:
            self.closed = True


HERE = threading.main_thread().name


@pytest.mark.parametrize(
    "answers, threads",
    [
        ([False] * 4, [HERE] * 4),
        ([True] * 4, [HERE, *["evensplit-ahead"] * 3]),
        ([False, True, False, True], [HERE, HERE, "evensplit-ahead", HERE]),
    ],
    ids=["never", "always", "in turn"],
)
def test_all_of_them_come_in_their_order_wherever_they_are_made(answers: list[bool], threads: list[str]) -> None:
    batches = Batches(4)
    assert list(LookAhead(batches(), Told(answers))) == [0, 1, 2, 3]
    assert batches.threads == threads
    assert batches.closed


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_comes_in_its_place(ahead: bool) -> None:
    batches, found = Batches(4, fails_at=2), list[int]()
    with pytest.raises(ConnectionError, match="it broke"):
        found.extend(LookAhead(batches(), Told([ahead] * 4)))
    assert (found, batches.closed) == ([0, 1], True)


@pytest.mark.parametrize("ahead", [True, False])
def test_closing_it_early_closes_what_is_read(ahead: bool) -> None:
    batches = Batches(4)
    reading = iter(LookAhead(batches(), Told([ahead] * 4)))
    assert next(reading) == 0
    reading.close()  # type: ignore[attr-defined]
    assert batches.closed
    assert not [one for one in threading.enumerate() if one.name.startswith("evensplit-ahead")]


class Machine:
    """A clock, and threads that wait for a processor for `share` of the time."""

    def __init__(self, share: float | None) -> None:
        self.now_s = 100.0
        self._share = share
        self.waited: float | None = None if share is None else 0.0

    def spare(self) -> Spare:
        return Spare(lambda: self.waited, lambda: self.now_s)

    def batch(self, spare: Spare, make_s: float, use_s: float) -> bool:
        spare.made(make_s)
        spare.used(use_s)
        self.now_s += make_s + use_s
        if self.waited is not None and self._share is not None:
            self.waited += self._share * (make_s + use_s)
        return spare.is_there()

    def become(self, share: float) -> None:
        self._share = share


@pytest.mark.parametrize(
    "share, make_s, use_s, expected",
    [(0.0, 0.01, 0.01, True), (0.5, 0.01, 0.01, False), (0.0, 0.0001, 0.01, False), (0.0, 0.01, 0.0001, False)],
    ids=["an idle processor", "none is idle", "made at once", "used at once"],
)
def test_whether_it_is_worth_it(share: float, make_s: float, use_s: float, expected: bool) -> None:
    machine = Machine(share)
    spare = machine.spare()
    assert [machine.batch(spare, make_s, use_s) for _ in range(30)][-1] is expected


def test_the_first_batches_are_made_when_they_are_asked_for() -> None:
    machine = Machine(0.0)
    spare = machine.spare()
    assert not any(machine.batch(spare, 0.01, 0.01) for _ in range(5))


def test_it_follows_what_the_machine_does() -> None:
    machine = Machine(0.0)
    spare = machine.spare()
    for share, expected in ((0.0, True), (0.6, False), (0.0, True)):
        machine.become(share)
        assert [machine.batch(spare, 0.01, 0.01) for _ in range(30)][-1] is expected


def test_where_the_kernel_does_not_tell_nothing_is_made_ahead() -> None:
    machine = Machine(None)
    spare = machine.spare()
    assert not any(machine.batch(spare, 0.01, 0.01) for _ in range(30))


@pytest.mark.parametrize("said", [None, "0 0 0\n", "nonsense"], ids=["no file", "nothing is counted", "another form"])
def test_a_kernel_that_does_not_count_does_not_tell(
    said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1").mkdir()
    if said is not None:
        (tmp_path / "1" / "schedstat").write_text(said)
    monkeypatch.setattr(look_ahead, "_THREADS", tmp_path)
    assert waited_s() is None
    (tmp_path / "1" / "schedstat").write_text("5 2000000000 1\n")
    assert waited_s() == 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_kernel_tells_how_long_threads_have_waited() -> None:
    before = waited_s()
    assert before is not None
    after = waited_s()
    assert after is not None
    assert after >= before >= 0
