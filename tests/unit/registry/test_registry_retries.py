"""A registry that is away, slow or in trouble: asked again until the deadline, at each of its URLs, and no longer."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator

import pytest

from evensplit.errors import RegistryError, RegistryUnreachable, SchemaUnusable
from evensplit.http.requests import HEAD_BYTES_MAX
from evensplit.kafka.deadline import CLOCK
from evensplit.registry.asking import ANSWER_BYTES_MAX, PAUSE_FIRST_S, PAUSE_MAX_S
from evensplit.registry.client import Registry
from evensplit.registry.settings import RegistrySettings
from evensplit.testing.process.ports import free_ports
from tests.support.metadata_server import Exchange
from tests.support.registry_clients import Skipping, client, refusal
from tests.support.registry_server import FakeRegistry, Trouble, cut, gone, hang, huge, slow, status
from tests.support.waiting import SLACK_S

TEXT = '"string"'


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        running.add("a", "AVRO", TEXT)
        yield running


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        running.add("a", "AVRO", TEXT)
        yield running


@pytest.mark.parametrize(
    "trouble", [gone, cut, *map(status, (408, 429, 500, 502, 503, 504))], ids=lambda one: getattr(one, "__name__", "x")
)
def test_what_may_pass_is_asked_again_with_longer_pauses(fake: FakeRegistry, trouble: Trouble) -> None:
    clock = Skipping()
    fake.troubles.extend([trouble] * 4)
    assert client(fake, clock=clock).schema_by_id(1).text == TEXT
    assert len(fake.asked) == 5
    for number, pause_s in enumerate(clock.pauses):
        assert PAUSE_FIRST_S * 2**number / 2 <= pause_s <= PAUSE_FIRST_S * 2**number


def test_pauses_grow_no_longer_than_so_much(fake: FakeRegistry) -> None:
    clock = Skipping()
    fake.troubles.extend([status(500)] * 12)
    assert client(fake, clock=clock, timeout_ms=300_000).latest("a").version == 1
    assert max(clock.pauses) <= PAUSE_MAX_S
    assert min(clock.pauses[8:]) >= PAUSE_MAX_S / 2


def test_after_the_deadline_it_says_how_each_url_failed(fake: FakeRegistry) -> None:
    (port,) = free_ports(1)
    fake.troubles.extend([status(503, None, b'{"error_code": 50003, "message": "hunter2"}')] * 1000)
    urls = f"{fake.url},http://127.0.0.1:{port}/x"
    registry = Registry(RegistrySettings.of({"url": urls}, timeout_ms=3_000), Skipping())
    told = refusal(lambda: registry.schema_by_id(1), RegistryUnreachable)
    assert told.startswith(f"schema registry {fake.url}, http://127.0.0.1:{port}/x: schema 1: no answer within 3 s (")
    assert f"{fake.url}: expected status 200, found status 503, error 50003; " in told
    assert f"{port}/x: expected an answer, found ConnectionRefusedError: Connection refused" in told
    assert len(fake.asked) >= 4


def test_it_can_be_pickled() -> None:
    error = RegistryUnreachable("http://r", "schema 1: no")
    again = pickle.loads(pickle.dumps(error))
    assert (again.registry, again.detail, str(again)) == ("http://r", "schema 1: no", str(error))


@pytest.mark.parametrize("trouble", [hang, slow])
def test_a_registry_that_hangs_is_left_at_the_deadline(fake: FakeRegistry, trouble: Trouble) -> None:
    fake.troubles.extend([trouble] * 100)
    begun_s = time.monotonic()
    told = refusal(lambda: client(fake, timeout_ms=600, clock=CLOCK).schema_by_id(1), RegistryUnreachable)
    assert 0.3 < time.monotonic() - begun_s < 0.6 + SLACK_S
    assert "no answer within 0.6 s" in told
    assert "expected a whole answer within 0." in told


def test_one_try_that_hangs_leaves_time_for_others(fake: FakeRegistry) -> None:
    fake.troubles.append(hang)
    assert client(fake, timeout_ms=3_000, clock=CLOCK).schema_by_id(1).text == TEXT
    assert len(fake.asked) == 2


def test_an_answer_without_end_is_refused(fake: FakeRegistry) -> None:
    fake.troubles.append(huge)
    assert f"expected at most {ANSWER_BYTES_MAX} bytes, found more" in refusal(
        lambda: client(fake).schema_by_id(1), SchemaUnusable
    )
    assert len(fake.asked) == 1


def test_headers_without_end_are_refused(fake: FakeRegistry) -> None:
    def headers(exchange: Exchange) -> None:
        exchange.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range((ANSWER_BYTES_MAX + 2 * HEAD_BYTES_MAX) >> 10):
            exchange.wfile.write(b"X: " + b"x" * 1019 + b"\r\n")

    fake.troubles.extend([headers] * 1000)
    with pytest.raises(RegistryError):
        client(fake, timeout_ms=1_000).schema_by_id(1)


def test_a_registry_says_how_long_it_wants_to_be_left_alone(fake: FakeRegistry) -> None:
    clock = Skipping()
    fake.troubles.extend([status(429, {"Retry-After": "7"}), status(503, {"Retry-After": "soon"})])
    assert client(fake, clock=clock).schema_by_id(1).text == TEXT
    assert clock.pauses[0] == 7.0
    assert clock.pauses[1] < 1.0


def test_nobody_waits_for_an_answer_that_comes_too_late(fake: FakeRegistry) -> None:
    clock = Skipping()
    fake.troubles.extend([status(429, {"Retry-After": "60"})] * 2)
    assert "status 429" in refusal(lambda: client(fake, clock=clock).schema_by_id(1), RegistryUnreachable)
    assert clock.pauses == []
    assert len(fake.asked) == 1


def test_the_next_url_is_asked_at_once_and_first_from_then_on(fake: FakeRegistry, other: FakeRegistry) -> None:
    clock = Skipping()
    registry = client(fake, other, clock=clock)
    fake.troubles.append(gone)
    assert registry.schema_by_id(1).text == TEXT
    assert registry.latest("a").version == 1
    assert (len(fake.asked), len(other.asked), clock.pauses) == (1, 2, [])
    other.troubles.append(status(500))
    assert registry.latest("a").version == 1
    assert (len(fake.asked), len(other.asked), clock.pauses) == (2, 3, [])


def test_what_one_url_says_clearly_is_not_asked_of_another(fake: FakeRegistry, other: FakeRegistry) -> None:
    with pytest.raises(RegistryError):
        client(fake, other).schema_by_id(99)
    assert other.asked == []


def test_the_deadline_is_for_all_that_a_schema_refers_to(fake: FakeRegistry) -> None:
    made = fake.add("b", "AVRO", "b", tuple((f"A{number}", "a", 1) for number in range(1)))
    fake.troubles.append(status(429, {"Retry-After": "15"}))

    def once(exchange: Exchange) -> None:
        fake.troubles.append(status(429, {"Retry-After": "15"}))
        exchange.answer(200, b'{"schema": "b", "references": [{"name": "A", "subject": "a", "version": 1}]}')

    fake.troubles.append(once)
    told = refusal(lambda: client(fake).schema_by_id(made), RegistryUnreachable)
    assert f"subject 'a', version 1, to which schema {made} refers: no answer within 20 s (1 tries)" in told


def test_no_time_at_all(fake: FakeRegistry) -> None:
    class Over(Skipping):
        def now_s(self) -> float:
            self.pauses.append(100.0)
            return super().now_s()

    with pytest.raises(RegistryUnreachable, match=r"\(0 tries\): no time was left to ask"):
        client(fake, clock=Over()).schema_by_id(1)
    assert fake.asked == []
