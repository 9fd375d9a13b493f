"""Real brokers for the tests that need them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from evensplit.kafka.client import ClusterClient
from evensplit.kafka.pool import Pool
from evensplit.testing import ExistingKafka, LocalKafka
from tests.support.clients import settings

BOOTSTRAP_VARIABLE = "EVENSPLIT_TEST_BOOTSTRAP"


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka | ExistingKafka]:
    """One cluster for all tests: a broker of this run, or the cluster that EVENSPLIT_TEST_BOOTSTRAP names.

    Tests share it, so they make topics of their own (`topic`) and leave its brokers alone.
    """
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given:
        yield ExistingKafka(given)
        return
    with LocalKafka() as running:
        yield running


@pytest.fixture
def own_kafka() -> Iterator[LocalKafka]:
    """A broker for one test alone, to be killed, paused and restarted; skipped where the cluster is given."""
    if os.environ.get(BOOTSTRAP_VARIABLE):
        pytest.skip(f"kills and pauses brokers, which is not for the cluster of {BOOTSTRAP_VARIABLE}")
    with LocalKafka() as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic name that nothing else uses; the test creates it."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., ClusterClient]]:
    made: list[ClusterClient] = []

    def make(*servers: str, timeout_ms: int = 10_000) -> ClusterClient:
        made.append(ClusterClient("east", settings(*servers, timeout_ms=timeout_ms)))
        return made[-1]

    yield make
    for one in made:
        one.close()
