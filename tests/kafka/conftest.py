"""Real brokers for the tests that need them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.testing import ExistingKafka, LocalKafka
from evensplit.testing.secured.certificates import Certificates
from tests.support.authority import make_certificates
from tests.support.clients import settings
from tests.support.contract import Cluster, Fake, Real
from tests.support.delivered import QUICK_EXPIRY, VERSIONS, of_version
from tests.support.ledgers import Make, ledgers
from tests.support.proxies import Detour, Proxy, Tamper

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
    with LocalKafka(properties=QUICK_EXPIRY) as running:
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
def query() -> str:
    """An id of a query that nothing else uses."""
    return str(uuid.uuid4())


@pytest.fixture(scope="module", params=VERSIONS)
def brokers(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """Those of each version of transactions."""
    yield from of_version(request.param, request)


@pytest.fixture
def make(brokers: LocalKafka, topic: str) -> Iterator[Make]:
    """Makes ledgers in `topic`."""
    yield from ledgers(brokers, topic)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


@pytest.fixture
def detour(kafka: LocalKafka) -> Iterator[Callable[[Tamper], Detour]]:
    made: list[tuple[Proxy, Detour]] = []

    def make(tamper: Tamper) -> Detour:
        proxy = Proxy(("127.0.0.1", kafka.broker(0).port), tamper)
        made.append((proxy, Detour(proxy.address)))
        return made[-1][1]

    yield make
    for proxy, pool in made:
        pool.close()
        proxy.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., ClusterClient]]:
    made: list[ClusterClient] = []

    def make(*servers: str, timeout_ms: int = 10_000) -> ClusterClient:
        made.append(ClusterClient("east", settings(*servers, timeout_ms=timeout_ms)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Fake() if request.param == "fake" else Real(request.getfixturevalue("kafka"))
    yield made
    made.port.close()
    made.committed_port.close()


@pytest.fixture
def prefix() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """For servers and clients of all tests."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
