"""What tasks tell of the records that they count: each task once, nothing from strangers, and nobody waits for it."""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.explain.record_counts import Counted, RecordCounts
from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport
from evensplit.spark.listen import tally as tallies
from evensplit.spark.listen.tally import CONNECTIONS_MAX, Receiver, Tally, receive
from evensplit.spark.task import telling as tellings
from evensplit.spark.task.telling import (
    MESSAGE_BYTES_MAX,
    REST_S,
    TAKEN,
    TASKS_MAX,
    Destination,
    Messenger,
    Telling,
    Told,
    pack,
    tell,
    tell_written,
    unpack,
)

SECRET = b"s" * 32


def told(task: int = 0, tasks: int = 2, revision: int = 7, stream: str = "a", **clusters: tuple[int, int]) -> Told:
    return Told(stream, revision, task, tasks, clusters)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def receiver(tally: Tally) -> Iterator[Receiver]:
    found = Receiver(tally, "127.0.0.1", "127.0.0.1", 0)
    yield found
    found.close()


def say(receiver: Receiver, message: bytes) -> bytes:
    """Send bytes and close this side; returns what is answered until the other side closes."""
    with socket.create_connection((receiver.destination.host, receiver.destination.port), timeout=30) as connection:
        try:
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(16)
        except OSError:
            # It was closed before all was sent.
            return b""


def test_a_batch_is_the_sum_of_its_tasks(tally: Tally) -> None:
    tally.take(told(0, east=(1, 2), west=(3, 0)))
    tally.take(told(1, east=(10, 0)))
    assert tally.pop("a", 7) == RecordCounts({"east": Counted(11, 2), "west": Counted(3, 0)})
    tally.take(told(0, revision=8, east=(1, 2)))
    assert tally.pop("a", 8) == RecordCounts({"east": Counted(1, 2)}, complete=False)


def test_a_batch_that_was_explained_is_forgotten(tally: Tally) -> None:
    tally.take(told(0, 1, east=(1, 2)))
    assert tally.pop("a", 7) == RecordCounts({"east": Counted(1, 2)})
    assert tally.pop("a", 7) == RecordCounts(complete=False)


def test_a_task_that_tells_twice_counts_once(tally: Tally) -> None:
    for task in (0, 1, 0, 1, 1):
        tally.take(told(task, east=(1, 1)))
    assert tally.pop("a", 7) == RecordCounts({"east": Counted(2, 2)})


def test_batches_and_streams_are_apart_and_late_messages_go_to_their_own(tally: Tally) -> None:
    tally.take(told(0, 1, revision=8, east=(5, 0)))
    tally.take(told(0, 1, revision=7, east=(1, 0)))
    tally.take(told(0, 1, revision=8, stream="b", east=(9, 0)))
    assert [tally.pop(stream, revision) for stream, revision in (("a", 7), ("a", 8), ("b", 8))] == [
        RecordCounts({"east": Counted(count, 0)}) for count in (1, 5, 9)
    ]


def test_what_nobody_told_is_not_complete_unless_there_was_nothing_to_read(tally: Tally) -> None:
    assert tally.pop("a", 7) == RecordCounts(complete=False)
    assert tally.pop("a", 7, reads=lambda: False) == RecordCounts()
    assert tally.pop("", 7) is None


def test_a_message_of_another_plan_is_left_out(tally: Tally) -> None:
    tally.take(told(0, 2, east=(1, 0)))
    tally.take(told(1, 3, east=(1, 0)))
    assert tally.pop("a", 7) == RecordCounts({"east": Counted(1, 0)}, complete=False)


def test_old_batches_are_forgotten(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "BATCHES_MAX", 3)
    for revision in range(5):
        tally.take(told(0, 1, revision=revision))
    assert [tally.pop("a", revision).complete for revision in range(5)] == [False, False, True, True, True]  # type: ignore[union-attr]


def test_batches_of_many_clusters_are_forgotten_sooner(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "ENTRIES_MAX", 5)
    for revision in range(4):
        for task in (0, 1):
            tally.take(told(task, revision=revision, east=(1, 0), west=(1, 0)))
    assert [tally.pop("a", revision).complete for revision in range(4)] == [False, False, True, True]  # type: ignore[union-attr]
    tally.take(told(0, 1)._replace(clusters={f"c{number}": (1, 0) for number in range(9)}))
    tally.take(told(0, 1, revision=8, east=(1, 0)))
    assert [tally.pop("a", revision).complete for revision in (7, 8)] == [False, True]  # type: ignore[union-attr]


NAMES = st.text(max_size=8)
COUNTS = st.tuples(st.integers(0, 2**63), st.integers(0, 2**63))


@given(NAMES, st.integers(0, 2**53), st.integers(0, 5), st.dictionaries(NAMES, COUNTS, max_size=4))
def test_a_message_says_what_was_told(
    stream: str, revision: int, task: int, clusters: dict[str, tuple[int, int]]
) -> None:
    one = Told(stream, revision, task, 6, clusters)
    assert unpack(pack(one, SECRET), SECRET) == one


@given(st.binary(max_size=120))
def test_bytes_that_are_not_signed_say_nothing(message: bytes) -> None:
    assert unpack(message, SECRET) is None


@given(st.data())
def test_a_message_that_was_changed_says_nothing(data: st.DataObject) -> None:
    message = bytearray(pack(told(east=(1, 2)), SECRET))
    message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    assert unpack(bytes(message), SECRET) is None
    assert unpack(pack(told(), b"another"), SECRET) is None


@pytest.mark.parametrize(
    "one",
    [
        told(2, 2),
        told(-1, 2),
        told(0, TASKS_MAX + 1),
        told(east=(-1, 0)),
        told()._replace(clusters=[]),  # type: ignore[arg-type]
        told()._replace(clusters={"east": [1]}),  # type: ignore[dict-item]
        told()._replace(revision="x"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_says_nothing(one: Told) -> None:
    assert unpack(pack(one, SECRET), SECRET) is None


def test_what_is_sent_is_taken_before_the_task_ends(receiver: Receiver, tally: Tally) -> None:
    messenger = Messenger(wait_s=30)
    for task in (0, 1):
        assert messenger.tell(told(task, east=(1, 0)), receiver.destination)
        assert tally.pop("a", 7) == RecordCounts({"east": Counted(1, 0)}, complete=False)


@pytest.mark.parametrize(
    "message",
    [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(40), b"\xff" * (4 * MESSAGE_BYTES_MAX), pack(told(east=(9, 9)), SECRET)],
    ids=["nothing", "a browser", "zeros", "too long", "another secret"],
)
def test_strangers_are_not_answered_and_do_no_harm(receiver: Receiver, tally: Tally, message: bytes) -> None:
    assert say(receiver, message) == b""
    assert tally.pop("a", 7) == RecordCounts(complete=False)
    assert say(receiver, pack(told(), receiver.destination.secret)) == TAKEN


@pytest.mark.parametrize("body", [b'{"revision":1e400}', b"[" * 30_000, b'{"stream":"a","clusters":{"a":7}}'])
def test_what_is_signed_and_makes_no_sense_does_no_harm(receiver: Receiver, body: bytes) -> None:
    secret = receiver.destination.secret
    whole = body.replace(b'{"revision"', b'{"stream":"a","task":0,"tasks":1,"clusters":{},"revision"')
    assert say(receiver, hmac.digest(secret, whole, "sha256") + whole) == b""
    assert say(receiver, pack(told(), secret)) == TAKEN


def test_connections_that_say_nothing_make_room(receiver: Receiver) -> None:
    address = receiver.destination.host, receiver.destination.port
    silent = [socket.create_connection(address, timeout=30) for _ in range(CONNECTIONS_MAX + 5)]
    try:
        assert say(receiver, pack(told(), receiver.destination.secret)) == TAKEN
        assert [one.recv(1) for one in silent[:5]] == [b""] * 5
    finally:
        for one in silent:
            one.close()


def test_the_secret_is_not_shown(receiver: Receiver) -> None:
    assert repr(receiver.destination.secret) not in repr(Telling(receiver.destination, "a", 7, 1))


def test_a_driver_that_is_away_is_left_alone_for_a_while() -> None:
    now_s, tries = [0.0], []

    def send(to: Destination, message: bytes) -> bool:
        tries.append(to.port)
        if len(tries) == 1:
            raise ConnectionRefusedError("away")
        return True

    messenger, to = Messenger(send, lambda: now_s[0], wait_s=30), Destination("host", 1, SECRET)
    assert not messenger.tell(told(), to)
    now_s[0] = REST_S - 1
    assert not messenger.tell(told(), to)
    assert len(tries) == 1
    now_s[0] = REST_S
    assert messenger.tell(told(), to)


def test_nobody_waits_for_a_driver_that_does_not_answer() -> None:
    answers, ended = threading.Event(), threading.Event()

    def send(to: Destination, message: bytes) -> bool:
        answers.wait(600)
        ended.set()
        return True

    assert not Messenger(send, wait_s=0.01).tell(told(), Destination("host", 1, SECRET))
    # Whoever sends it waits still.
    assert not ended.is_set()
    answers.set()
    assert ended.wait(30)


def test_a_message_that_would_not_be_taken_is_not_sent() -> None:
    sent: list[bytes] = []

    def send(to: Destination, message: bytes) -> bool:
        sent.append(message)
        return True

    messenger = Messenger(send, wait_s=30)
    clusters = {f"cluster-{number:06}": (1, 1) for number in range(MESSAGE_BYTES_MAX // 16)}
    to = Destination("host", 1, SECRET)
    for one in (told()._replace(clusters=clusters), told(tasks=TASKS_MAX + 1)):
        assert not messenger.tell(one, to)
        assert sent == []
    # That is no fault of the driver, which the next task tells its counts.
    assert messenger.tell(told(), to)


@pytest.mark.parametrize(
    "counted, level",
    [({}, None), ({"east": (3, 0)}, logging.INFO), ({"east": (3, 0), "west": (0, 1)}, logging.WARNING)],
)
@pytest.mark.parametrize("registered", [False, True])
def test_what_nobody_can_be_told_is_logged_once(
    counted: dict[str, tuple[int, int]],
    level: int | None,
    registered: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tellings, "MESSENGER", Messenger(lambda to, message: False, wait_s=30))
    with caplog.at_level(logging.INFO, "evensplit"):
        tell(Telling(Destination("host", 1, SECRET), "a", 7, 1) if registered else None, 4, counted)
    assert [one.levelno for one in caplog.records] == ([] if level is None else [level])
    assert "task 4: records left out by the condition: 3" in caplog.text or not counted


def test_a_session_of_a_cluster_listens_where_spark_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tallies, "_receivers", {})
    conf = {"spark.driver.host": "driver.example", "spark.driver.bindAddress": "127.0.0.1"}
    cluster = SimpleNamespace(master="spark://master:7077", getConf=lambda: conf)
    local = SimpleNamespace(master="local[2]")
    found = receive(cluster, 0)
    assert found is not None
    assert found.host == "driver.example"
    assert receive(cluster, 0) == found
    own = receive(local, 0)
    assert own is not None
    assert (own.host, own.port) == ("127.0.0.1", found.port)
    assert receive(None, 0) is None
    assert receive(local, found.port) is None
    assert "are not counted" in caplog.text
    for one in tallies._receivers.values():
        one.close()


def written(batch: int = 1, query: str = "q") -> WriteReport:
    return WriteReport(query, batch, WriteOutcome.DECIDED, {"eu": ClusterWritten(3, 40, committed=1)}, 9, 8, 7, 6)


def test_what_was_written_is_told_in_the_same_way(receiver: Receiver, tally: Tally) -> None:
    assert unpack(pack(written(), SECRET), SECRET) == written()
    assert say(receiver, pack(written(), receiver.destination.secret)) == TAKEN
    assert say(receiver, pack(written(2), receiver.destination.secret)) == TAKEN
    assert tally.writes("q")
    assert tally.written("q") == (written(), written(2))
    assert tally.written("q") == ()
    assert not tally.writes("q")


@pytest.mark.parametrize("said", [{}, {"batchId": 1}, [], None, 7, {**written().to_json(), "outcome": "lucky"}])
def test_a_report_that_is_none_is_not_taken(receiver: Receiver, tally: Tally, said: object) -> None:
    body = json.dumps({"written": said}).encode()
    secret = receiver.destination.secret
    assert say(receiver, hmac.digest(secret, body, "sha256") + body) == b""
    assert not tally.writes("q")


def test_reports_that_nobody_asks_for_are_bounded(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "WRITERS_MAX", 2)
    monkeypatch.setattr(tallies, "REPORTS_MAX", 3)
    for query in ("a", "b", "a", "c"):
        tally.take(written(query=query))
    assert [tally.writes(query) for query in ("a", "b", "c")] == [True, False, True]
    for batch in range(5):
        tally.take(written(batch, "d"))
    assert [one.batch for one in tally.written("d")] == [2, 3, 4]


def test_a_report_without_anybody_to_tell_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tell_written(None, written())
    assert caplog.messages == ["query q, batch 1: wrote 3 records in 1 transaction to eu; decided in 8 ms"]
    caplog.clear()
    # An error says that.
    tell_written(None, replace(written(), outcome=WriteOutcome.FAILED))
    sent: list[bytes] = []

    def send(to: Destination, message: bytes) -> bool:
        sent.append(message)
        return True

    monkeypatch.setattr(tellings, "MESSENGER", Messenger(send))
    tell_written(Destination("h", 1, SECRET), written())
    assert (caplog.messages, len(sent)) == ([], 1)
