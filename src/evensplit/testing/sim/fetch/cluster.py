"""A simulated cluster: what is true of it, what each broker has heard of that, and the faults that happen to it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from types import MappingProxyType

from evensplit.kafka.admin.cluster_session import UNKNOWN_TOPIC_GRACE_S
from evensplit.testing.sim.fetch.log import Log
from evensplit.testing.sim.fetch.network import SimulatedClock, SimulatedNetwork, SimulatedSocket

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "cut": "a connection ends within an answer, at any byte",
        "silent": "a request is never answered",
        "slow": "an answer comes in pieces, with pauses",
        "down": "a broker is away for a while; others may lead its partitions",
        "hang": "a broker accepts no connection for a while, and says so to nobody",
        "moved": "a partition has another leader, with the same log",
        "leaderless": "a partition has no leader for a while",
        "unclean": "an unclean election: a log loses its tail, and goes on with other records",
        "stale": "a broker goes on with what it knew, for a while",
        "blank": "a broker has just started, and knows of no topic yet",
        "retention": "the beginning of a log is deleted",
        "recreated": "a topic is deleted and created anew",
        "deleted": "a topic is deleted",
        "code": "a broker refuses a partition with an error that passes",
        "refused": "a broker refuses a whole request",
        "left-out": "an answer lacks a partition",
        "throttle": "a quota holds the reader back",
        "hidden": "a new leader does not know yet where the log ends",
        "remote": "records do not come from remote storage in time",
        "small": "answers hold less than was asked for, and cut a record batch off",
        "follower": "the leader sends the reader to another replica",
        "lagging": "a follower does not have the end of the log yet",
        "unasked": "an answer has a partition that was not asked for, or one twice",
        "large": "a record batch is longer than is allowed",
        "huge": "a record batch is longer than any answer that is taken",
        "left": "the reader's user has enough before the end",
        "idle": "the reader's user takes its time, and brokers close what is idle",
    }
)
"""Every fault, and what it does."""

SECOND_US = 1_000_000
GRACE_US = int(UNKNOWN_TOPIC_GRACE_S * SECOND_US)
"""The reader believes a broker that knows of no topic for so long, or again within that time."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One partition: who leads it (-1 for nobody), since which epoch, and its log there."""

    leader: int
    epoch: int
    log: Log
    style: str


@dataclass(frozen=True, slots=True)
class Topic:
    """One incarnation of a topic."""

    id: uuid.UUID
    partitions: tuple[Placed, ...]


View = Mapping[str, Topic]
"""The topics that there are, as they are told at one moment."""


class Cluster:
    """The truth, and the faults that are left. `trace`: what happened, a line each."""

    def __init__(self, random: Random, faults: frozenset[str], nodes: int, network: SimulatedNetwork) -> None:
        assert isinstance(network.clock, SimulatedClock)
        self.random = random
        self.faults = faults
        self.network = network
        self.clock = network.clock
        self.nodes = [Standing() for _ in range(nodes)]
        self.view: View = {}
        self.left = random.choice((2, 4, 8, 16))
        self.troubled_until_us = 0
        """When the last fault is over, as far as it is one that passes."""
        self.happened: Counter[str] = Counter()
        self.messages = 0
        """Requests that came and answers that were begun."""
        self.trace: list[str] = []
        self.logs: dict[tuple[str, int], list[Log]] = {}
        """All that partitions ever had, one after the other."""
        self._ids = 0

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.clock.now_us / 1e6:10.6f} {text}")

    def strikes(self, fault: str, chance: float, lasts_us: int = 0) -> bool:
        """Whether `fault` happens now."""
        if fault not in self.faults or not self.left or self.random.random() >= chance:
            return False
        self.left -= 1
        self.happened[fault] += 1
        self.troubled_until_us = max(self.troubled_until_us, self.clock.now_us + lasts_us)
        return True

    def lasting_us(self, most_s: float) -> int:
        """How long something lasts."""
        return int(self.random.uniform(0.05, most_s) * SECOND_US)

    def place(self, topic: str, partition: int, placed: Placed) -> None:
        """A partition is led otherwise from now on."""
        old = self.view[topic]
        partitions = (*old.partitions[:partition], placed, *old.partitions[partition + 1 :])
        self.view = {**self.view, topic: replace(old, partitions=partitions)}
        if placed.log is not self.logs[topic, partition][-1]:
            self.logs[topic, partition].append(placed.log)

    def heard(self, number: int) -> View:
        """What one broker has heard of by now."""
        node = self.nodes[number]
        if self.clock.now_us >= node.stale_until_us or node.view is None:
            node.view = self.view
        return {} if self.clock.now_us < node.blank_until_us else node.view

    def logs_heard(self, topic: str, partition: int) -> int:
        """Of how many of a partition's logs, one after the other, every broker has heard that has heard of any."""
        logs, heard = self.logs[topic, partition], []
        for number, node in enumerate(self.nodes):
            self.heard(number)
            known = (node.view or {}).get(topic)
            if known is not None:
                held = known.partitions[partition].log
                heard.append(next(count for count, log in enumerate(logs, 1) if log is held))
        return min(heard, default=len(logs))

    def act(self, number: int) -> None:
        """Broker `number` is asked something: the cluster may change just before."""
        random, node = self.random, self.nodes[number]
        if self.strikes("stale", 0.05, lasts := self.lasting_us(1.5)):
            self.heard(number)
            node.stale_until_us = self.clock.now_us + lasts
            self.note(f"broker {number} hears of nothing for {lasts / 1e6:.3f} s")
        may_start = self.clock.now_us >= node.blank_until_us + GRACE_US
        if may_start and self.strikes("blank", 0.04, lasts := self.lasting_us(1.5)):
            node.blank_until_us = self.clock.now_us + lasts
            self.note(f"broker {number} knows of no topic for {lasts / 1e6:.3f} s")
        for fault in ("down", "hang"):
            if self.strikes(fault, 0.04, lasts := self.lasting_us(2.5)):
                self._take_down(number, fault, lasts)
        for fault in ("moved", "leaderless", "unclean", "retention", "hidden"):
            topics = [name for name, topic in self.view.items() if topic.partitions]
            if topics and self.strikes(fault, 0.06, lasts := self.lasting_us(1.5)):
                topic = random.choice(topics)
                self._befall(fault, topic, random.randrange(len(self.view[topic].partitions)), lasts)
        if self.view and self.strikes("deleted", 0.03):
            self.delete(random.choice(list(self.view)))
        if self.view and self.strikes("recreated", 0.1):
            self.recreate(random.choice(list(self.view)))

    def delete(self, topic: str) -> None:
        """A topic is no more."""
        self.note(f"topic {topic} is deleted")
        self.view = {name: one for name, one in self.view.items() if name != topic}

    def recreate(self, topic: str) -> None:
        """Another topic has that name; its partitions may have the same leaders."""
        old = self.view[topic].partitions
        self.create(topic, [one.style for one in old], 25)
        if self.random.random() < 0.5:
            for number, placed in enumerate(self.view[topic].partitions):
                self.place(
                    topic,
                    number,
                    replace(placed, leader=max(old[number].leader, 0), epoch=max(placed.epoch, old[number].epoch)),
                )

    def create(self, topic: str, styles: Sequence[str], batches_max: int) -> None:
        """A topic with partitions of these styles, and up to so many record batches in each."""
        self._ids += 1
        made = []
        for number, style in enumerate(styles):
            log, epoch = Log(f"{topic}-{number}/{self._ids}"), 0
            for _ in range(self.random.randint(0, batches_max)):
                epoch += self.random.random() < 0.1
                log.grow(self.random, epoch, style)
            made.append(Placed(self.random.randrange(len(self.nodes)), epoch, log, style))
            self.logs.setdefault((topic, number), []).append(log)
        self.view = {**self.view, topic: Topic(uuid.UUID(int=self._ids), tuple(made))}
        ends = [f"{one.style} up to {one.log.end}, epoch {one.epoch}" for one in made]
        self.note(f"topic {topic} is created as {self._ids}: {ends}")

    def _take_down(self, number: int, fault: str, lasts_us: int) -> None:
        node = self.nodes[number]
        until_us = self.clock.now_us + lasts_us
        if fault == "down":
            node.down_until_us = until_us
            for socket in node.sockets:
                socket.break_off(self.random.choice(("closed", "reset")))
            node.sockets.clear()
        else:
            node.hangs_until_us = until_us
        self.note(f"broker {number}: {fault} for {lasts_us / 1e6:.3f} s")
        for topic, one in self.view.items():
            for partition, placed in enumerate(one.partitions):
                if placed.leader == number and self.random.random() < 0.7:
                    self._befall("moved", topic, partition, 0)

    def _befall(self, fault: str, topic: str, partition: int, lasts_us: int) -> None:
        placed = self.view[topic].partitions[partition]
        log, leader = placed.log, self.random.randrange(len(self.nodes))
        told = f"{topic}-{partition}: {fault}, "
        if fault == "retention":
            log.start = self.random.randint(log.start, log.end)
            log.local = max(log.local, log.start)
            self.note(f"{told}begins at {log.start}")
            return
        if fault == "hidden":
            batch = self.random.choice(log.batches) if log.batches else None
            if batch is not None and batch.base >= log.start:
                log.hidden = (self.clock.now_us + lasts_us, batch.base)
                self.note(f"{told}ends at {batch.base} for {lasts_us / 1e6:.3f} s")
            return
        if fault == "leaderless":
            self.clock.after_us(lasts_us, partial(self._end_leaderless, topic, self.view[topic].id, partition, leader))
            leader = -1
        elif fault == "unclean" and placed.style != "transactional" and log.end:
            log = log.cut(self.random.randint(min(log.start, log.end - 1), log.end - 1))
            for _ in range(self.random.choice((0, 3, 30))):
                log.grow(self.random, placed.epoch + 1, placed.style)
            told += f"epoch {placed.epoch + 1} begins at {log.epoch_end(placed.epoch)[1]}, ends at {log.end}, "
        self.note(f"{told}leader {placed.leader} -> {leader}, epoch {placed.epoch + 1}")
        self.place(topic, partition, replace(placed, leader=leader, epoch=placed.epoch + 1, log=log))

    def _end_leaderless(self, topic: str, then: uuid.UUID, partition: int, leader: int) -> None:
        now = self.view.get(topic)
        if now is not None and now.id == then and now.partitions[partition].leader < 0:
            placed = now.partitions[partition]
            self.note(f"{topic}-{partition}: leader {leader}")
            self.place(topic, partition, replace(placed, leader=leader, epoch=placed.epoch + 1))

    def visible_end(self, log: Log) -> int:
        """Where the log ends, as its leader has it."""
        until_us, offset = log.hidden
        return min(offset, log.end) if self.clock.now_us < until_us else log.end


class Standing:
    """How one broker is. `view`: what it has heard of; None for nothing as yet."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.stale_until_us = self.blank_until_us = self.down_until_us = self.hangs_until_us = 0
        self.sockets: list[SimulatedSocket] = []
