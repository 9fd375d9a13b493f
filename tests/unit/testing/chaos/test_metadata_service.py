"""The metadata service of a run: what it serves is read as the source reads metadata, and its lies are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.testing.chaos.clusters import USERS, ChaosCluster
from evensplit.testing.chaos.history.events import ClusterNamed, ClusterRemoved
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.metadata_service import LIES, MetadataService
from evensplit.testing.chaos.nemesis import metadata
from evensplit.testing.chaos.nemesis.base import Nemesis
from tests.support.clocks import Clock

CA = Path(__file__).resolve().parents[3] / "data" / "tls" / "localhost.pem"
TOPICS = {"east": ["clicks", "orders"], "west": ["orders"]}


def cluster(name: str, user: str = "") -> ChaosCluster:
    kafka = SimpleNamespace(bootstrap_servers=f"{name}-1:9092,{name}-2:9092", certificates=SimpleNamespace(ca=CA))
    return ChaosCluster(name, cast("Any", kafka), user, dict(USERS))


@dataclass
class Small:
    """As much of an arena as faults of the metadata need."""

    metadata: MetadataService
    clusters: dict[str, ChaosCluster]
    directory: Path
    clock: Clock = field(default_factory=lambda: Clock(0.0))

    def under(self, nemesis: Nemesis, seed: int = 1) -> Any:
        return nemesis.do(cast("Any", self), Random(seed))

    def poller(self, **options: str) -> MetadataPoller:
        wanted = parse_options({**self.metadata.options(), "discoveryInterval": "1s", **options})
        return MetadataPoller(wanted, scheduler=Scheduler(monotonic=self.clock))

    def polled(self, poller: MetadataPoller) -> MetadataPoller:
        """The poller after one more answer, or none."""
        self.clock.now_s += 60.0
        poller.refresh(EnumeratorState(), patient=True)
        return poller

    def listed(self) -> dict[str, tuple[str, ...]]:
        """Name -> servers of the clusters that a query would read now."""
        return {one.id: one.settings.bootstrap_servers for one in self.polled(self.poller()).clusters}


EAST, WEST = ("east-1:9092", "east-2:9092"), ("west-1:9092", "west-2:9092")


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Small]:
    clusters = {"east": cluster("east"), "west": cluster("west", "reader")}
    topics = SimpleNamespace(topics=lambda name: [SimpleNamespace(name=topic) for topic in TOPICS[name]])
    with (
        Recorder(tmp_path, "run") as recorder,
        MetadataService(recorder, clusters, cast("Any", topics)) as service,
    ):
        yield Small(service, clusters, tmp_path)


def test_clusters_are_listed_with_their_topics_and_logins(arena: Small) -> None:
    found = arena.polled(arena.poller()).clusters
    assert {one.id: one.settings.bootstrap_servers for one in found} == {"east": EAST, "west": WEST}
    assert {one.id: cast("Any", one.subscription).names for one in found} == {
        "east": ("clicks", "orders"),
        "west": ("orders",),
    }
    east, west = (dict(one.settings.security.values) for one in found)
    assert east == {}
    assert (west["security.protocol"].reveal(), west["sasl.mechanism"].reveal()) == ("SASL_SSL", "SCRAM-SHA-512")
    assert arena.metadata.asked == 1


def test_a_new_login_is_there_once_it_is_published(arena: Small) -> None:
    poller = arena.polled(arena.poller())
    arena.clusters["west"].user = "other-reader"
    assert arena.polled(poller).clusters[1].settings.security == poller.clusters[1].settings.security
    before = poller.clusters[1].settings.security
    arena.metadata.publish()
    assert arena.polled(poller).clusters[1].settings.security != before


@pytest.mark.parametrize("seed", range(4))
def test_clusters_leave_and_come_back(arena: Small, seed: int) -> None:
    with arena.under(metadata.cluster_out, seed) as harm:
        (gone,) = harm.clusters
        assert set(arena.listed()) == {"east", "west"} - {gone}
    with arena.under(metadata.clusters_out, seed) as harm:
        assert set(harm.clusters) == {"east", "west"}
        assert arena.listed() == {}
    assert arena.listed() == {"east": EAST, "west": WEST}
    removed = [one.cluster for one in read_history(arena.directory) if isinstance(one, ClusterRemoved)]
    assert removed == [gone, "east", "west"]


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_has_another_name_or_one_more(arena: Small, seed: int) -> None:
    with arena.under(metadata.cluster_renamed, seed) as harm:
        (cluster,) = harm.clusters
        servers = EAST if cluster == "east" else WEST
        (name,) = set(arena.listed()) - {"east", "west"}
        assert (cluster in arena.listed(), arena.listed()[name]) == (False, servers)
    with arena.under(metadata.cluster_twice, seed):
        again = arena.listed()
        assert [one for one, its in again.items() if its == servers] == [cluster, f"{cluster}-again"]
        assert len(again) == 3
    assert arena.listed() == {"east": EAST, "west": WEST}
    # Rows may have any of these names, and each is known to be of the cluster.
    named = {one.name: one.cluster for one in read_history(arena.directory) if isinstance(one, ClusterNamed)}
    assert named == {"east": "east", "west": "west", name: cluster, f"{cluster}-again": cluster}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_the_last_answer_stays_in_use(arena: Small, lie: str) -> None:
    poller = arena.polled(arena.poller())
    known = poller.clusters
    arena.metadata.lie = lie
    with pytest.raises(MetadataError):
        arena.listed()
    assert arena.polled(poller).clusters is known
    assert poller.notice
    arena.metadata.lie = ""
    assert arena.polled(poller).clusters is known
    assert not poller.notice


def test_every_lie_is_told(arena: Small) -> None:
    told = set()
    for seed in range(100):
        with arena.under(metadata.metadata_lying, seed):
            told.add(arena.metadata.lie)
    assert told == {*LIES}


def test_a_service_that_is_down_or_slow_gives_no_answer(arena: Small) -> None:
    poller = arena.polled(arena.poller(metadataTimeout="2s"))
    known = poller.clusters
    with arena.under(metadata.metadata_down):
        assert arena.polled(poller).clusters is known
        assert poller.notice
    with arena.under(metadata.metadata_slow, 2):
        assert arena.metadata.slow_s > 5
        assert arena.polled(poller).clusters is known
        assert "within 2 s" in poller.notice
    assert arena.metadata.slow_s == 0.0
