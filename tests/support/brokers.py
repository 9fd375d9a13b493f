"""Clusters in memory that answer when they may, and those of several brokers, some of which are cut off."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from evensplit.core.model import Subscription, TopicPattern
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.admin.protocol import Listing, Missing
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock


class Held(FakeKafka):
    """A cluster with these topics of one partition each, which answers only when it may."""

    trouble = ""
    """Why connections to it fail."""

    def __init__(self, cluster: str, *topics: str) -> None:
        super().__init__(cluster)
        self.may = threading.Event()
        """It lists its topics; set at first."""
        self.may.set()
        self.may_look_up = threading.Event()
        """It says what it has found at a time; set at first."""
        self.may_look_up.set()
        self.looked_up = 0
        """How often it was asked for a time."""
        for topic in topics:
            self.create_topic(topic)

    def list_partitions(self, subscription: Subscription) -> Listing:
        assert self.may.wait(60)
        return super().list_partitions(subscription)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        found = super().list_offsets(wanted, complete=complete, undecided=undecided)
        if any(value >= 0 for value in wanted.values()):
            self.looked_up += 1
            assert self.may_look_up.wait(60)
        return found


class Brokers(FakeKafka):
    """Brokers 0 .. `count` - 1 of a cluster, whose topic `t` has ten records in each of its partitions.

    `at`: the broker that is asked. `named`: whether responses say which broker answered.
    `down`: brokers that do not answer. `former`: broker -> the old id of `t` that it reports.
    `lacking`: brokers that do not know `t`. `turns`: how often another broker was to be asked. `asked`: those asked.
    """

    def __init__(self, count: int, partitions: int = 1, cluster: str = "east") -> None:
        super().__init__(cluster)
        self.count = count
        self.at = 0
        self.named = True
        self.down: set[int] = set()
        self.former: dict[int, str] = {}
        self.lacking: set[int] = set()
        self.turns = 0
        self.asked: list[int] = []
        self.topic_id = self.create_topic("t", partitions)
        for partition in range(partitions):
            self.append("t", partition, 10)

    def anew(self, *cut_off: int, records: int = 25) -> str:
        """Create `t` anew, unnoticed by the brokers `cut_off`. Returns its new id."""
        self.former.update(dict.fromkeys(cut_off, self.topic_id))
        self.topic_id = self.recreate_topic("t")
        self.append("t", 0, records)
        return self.topic_id

    def let_former_lead(self, topic: str, partition: int, epoch: int) -> None:
        """Let the leader of an earlier epoch answer."""
        log = self._topics[topic].logs[partition]
        log.epochs = [one for one in log.epochs if one.epoch <= epoch]

    def turn(self) -> None:
        self.turns += 1
        others = [(self.at + step) % self.count for step in range(1, self.count + 1)]
        self.at = next((one for one in others if one not in self.down), self.at)

    def list_partitions(self, subscription: Subscription) -> Listing:
        found = super().list_partitions(subscription)
        self.asked.append(self.at)
        partitions = found.partitions
        if self.at in self.lacking:
            partitions = tuple(one for one in partitions if one.topic != "t")
            if not isinstance(subscription, TopicPattern):
                found = replace(found, missing=(Missing("t"),))
        if self.at in self.former:
            known = self.former[self.at]
            partitions = tuple(one._replace(topic_id=known) if one.topic == "t" else one for one in partitions)
        return replace(found, partitions=partitions, broker=str(self.at) if self.named else "")


class Passing(Clock):
    """A clock that goes on by itself."""

    def __call__(self) -> float:
        self.now_s += 0.02
        return self.now_s
