"""The planner asks the user's process for its slots, over the tasks' connection, and never waits long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.spark.listen.tally import Tally
from evensplit.spark.slots import answering
from evensplit.spark.slots.answering import answerer, current_slots
from evensplit.spark.slots.asking import REST_S, SlotsQuestion, answer, nonce_of, question, slots_of
from evensplit.spark.task.receiving import Receiver
from evensplit.spark.task.telling import Destination, Messenger, Told
from tests.support.clocks import Clock

SECRET = b"s" * 32
TO = Destination("host", 1, SECRET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver(Tally(), "127.0.0.1", "127.0.0.1", 0, answerer)
    yield found
    found.close()


def session(slots: int = 0, default: int = 2, *, fails: bool = False) -> Any:
    """A SparkContext with so many slots; one that cannot tell them if it `fails`."""

    def count(_: object) -> int:
        if fails:
            raise TypeError("no such method")
        return slots

    manager = SimpleNamespace(defaultResourceProfile=lambda: "default")
    jvm = SimpleNamespace(maxNumConcurrentTasks=count, resourceProfileManager=lambda: manager)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: jvm), defaultParallelism=default)


def test_what_is_asked_and_answered_is_signed() -> None:
    asked = question("n", SECRET)
    assert nonce_of(asked, SECRET) == "n"
    assert nonce_of(asked, b"x" * 32) is None
    assert nonce_of(answer(4, "n", SECRET), SECRET) is None
    assert nonce_of(b"", SECRET) is None
    answered = answer(4, "n", SECRET)
    assert slots_of(answered, "n", SECRET) == 4
    assert slots_of(answered, "another", SECRET) is None, "the answer to an earlier question"
    assert slots_of(answered, "n", b"x" * 32) is None
    assert slots_of(answered[:-1], "n", SECRET) is None


def test_the_session_answers(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "current_slots", lambda: 6)
    one = SlotsQuestion(receiver.destination, wait_s=60)
    assert one.ask() == 6
    monkeypatch.setattr(answering, "current_slots", lambda: 8)
    assert one.ask() == 8


def test_a_session_that_is_busy_keeps_no_task_waiting(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def slow() -> int:
        asked.set()
        assert goes_on.wait(60)
        return 6

    monkeypatch.setattr(answering, "current_slots", slow)
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(SlotsQuestion(receiver.destination, wait_s=60).ask()))
    waiting.start()
    assert asked.wait(60)
    assert Messenger(wait_s=60).tell(Told("a", 1, 0, 1, {}), receiver.destination)
    goes_on.set()
    waiting.join(60)
    assert found == [6]


@pytest.mark.parametrize("said", [None, ValueError("no session")])
def test_a_session_that_does_not_know_does_not_answer(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, said: Exception | None
) -> None:
    def unknown() -> int | None:
        if said is not None:
            raise said
        return None

    monkeypatch.setattr(answering, "current_slots", unknown)
    assert SlotsQuestion(receiver.destination, wait_s=60).ask() is None
    assert Messenger(wait_s=60).tell(Told("a", 1, 0, 1, {}), receiver.destination), "it takes messages as before"


def test_a_stranger_is_not_answered(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "current_slots", lambda: 6)
    host, port = receiver.destination.host, receiver.destination.port
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(question("n", SECRET))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""


def test_nobody_waits_for_an_answer_that_does_not_come() -> None:
    held = threading.Event()

    def hangs(to: Destination, message: bytes) -> bytes:
        held.wait(60)
        return b""

    clock = Clock(0)
    one = SlotsQuestion(TO, hangs, clock, wait_s=0.01)
    assert one.ask() is None
    held.set()
    calls: list[bytes] = []

    def answers(to: Destination, message: bytes) -> bytes:
        calls.append(message)
        return answer(3, str(nonce_of(message, SECRET)), SECRET)

    one = SlotsQuestion(
        TO, lambda to, message: b"" if not calls and clock.now_s < 1 else answers(to, message), clock, 60
    )
    assert one.ask() is None
    assert one.ask() is None
    assert not calls, "it rests"
    clock.now_s = REST_S
    assert one.ask() == 3
    assert len(calls) == 1


def test_slots_are_what_spark_says() -> None:
    assert current_slots(session(7)) == 7
    assert current_slots(session(0)) == 0, "no executor is there yet"
    assert current_slots(session(fails=True, default=5)) == 5
    assert current_slots(SimpleNamespace(_jsc=None)) is None
