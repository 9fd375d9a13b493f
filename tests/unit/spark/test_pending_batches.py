"""A batch that was planned before a restart, and is read after the options have changed."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import restored

OWN = {
    "kafka.bootstrap.servers": "e:9092",
    "kafka.isolation.level": "read_committed",
    "kafka.security.protocol": "SSL",
}


class Pending:
    """A batch of the cluster `default`, as the options had it, and runs under other options."""

    def __init__(self) -> None:
        self._kafka = FakeKafka("default", cluster_id="K")
        self._kafka.create_topic("t", 1)
        self._kafka.append("t", 0, 10)
        planned = self.started({"subscribe": "t", **OWN}).plan(EnumeratorState(), limited=False)
        self.start, self.end = EnumeratorState(), restored(planned)

    def started(self, given: Mapping[str, str]) -> Coordinator:
        return Coordinator(
            parse_options({"discoveryInterval": "1ms", **given}),
            readers_default=1,
            starting_default=Earliest(),
            connect=lambda _: self._kafka,
        )

    def moved(self, **named: Mapping[str, str]) -> Coordinator:
        return self.started({"subscribe": "t", "clusters": json.dumps(named)})

    def settings(self, one: Coordinator) -> ClientSettings:
        """How its tasks reach the cluster."""
        (task,) = one.partitions(self.start, self.end)
        return task.settings["default"]


def test_cluster_that_has_another_name_and_its_options_with_it() -> None:
    pending = Pending()
    before = pending.settings(pending.started({"subscribe": "t", **OWN}))
    assert (before.read_committed, bool(before.security.values)) == (True, True)
    assert pending.settings(pending.moved(east=OWN)) == before


def test_cluster_that_has_another_name_and_other_servers_is_known_once_it_has_answered() -> None:
    pending = Pending()
    moved = pending.moved(east={**OWN, "kafka.bootstrap.servers": "new:9092"})
    with pytest.raises(MetadataError, match=r"cluster 'default' of the checkpoint: .* options or the metadata"):
        pending.settings(moved)
    moved.plan(pending.end, limited=False)
    assert pending.settings(moved).bootstrap_servers == ("e:9092", "new:9092")
    assert pending.settings(moved).read_committed


def test_cluster_that_is_not_listed_any_more_is_read_by_the_options_outside() -> None:
    pending = Pending()
    other = pending.moved(west={"kafka.bootstrap.servers": "w:9092"})
    assert pending.settings(other).bootstrap_servers == ("e:9092",)
