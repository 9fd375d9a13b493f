"""Faults of brokers: they die, stop, hang and restart, alone and together."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evensplit.testing.broker.local_broker import LocalBroker
from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.nemesis.base import Harm, nemesis

SESSION_S = 3.0
"""A broker that is silent for so long loses its leaderships."""


def _a_broker(arena: Arena, dice: Random) -> tuple[ChaosCluster, LocalBroker]:
    cluster = arena.clusters[dice.choice([*arena.clusters])]
    return cluster, dice.choice(cluster.kafka.brokers)


@nemesis("broker-kill", "brokers", "SIGKILL of a broker")
def broker_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _a_broker(arena, dice)
    broker.kill()
    try:
        yield Harm(f"SIGKILL of broker {broker.node_id} of {cluster.name}", (cluster.name,))
    finally:
        broker.start()


@nemesis("broker-stop", "brokers", "A broker is shut down in order")
def broker_stop(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _a_broker(arena, dice)
    broker.stop()
    try:
        yield Harm(f"broker {broker.node_id} of {cluster.name} is shut down", (cluster.name,))
    finally:
        broker.start()


def _paused(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _a_broker(arena, dice)
    broker.pause()
    try:
        yield Harm(f"broker {broker.node_id} of {cluster.name} is held (SIGSTOP)", (cluster.name,))
    finally:
        broker.resume()


@nemesis("broker-pause", "brokers", "A broker hangs for less than its session lasts", lasts_s=(0.5, SESSION_S - 1))
def broker_pause(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _paused(arena, dice)


@nemesis("broker-freeze", "brokers", "A broker hangs, others take over, and it wakes with old views", lasts_s=(6, 20))
def broker_freeze(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _paused(arena, dice)


@nemesis("rolling-bounce", "brokers", "All brokers of a cluster are restarted, one after the other", lasts_s=(0, 1))
def rolling_bounce(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = arena.clusters[dice.choice([*arena.clusters])]
    yield Harm(f"all brokers of {cluster.name} are restarted, one after the other", (cluster.name,))
    for broker in cluster.kafka.brokers:
        broker.stop()
        broker.start()


@nemesis("controller-kill", "brokers", "SIGKILL of the controller")
def controller_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = dice.choice([one for one in arena.clusters.values() if len(one.kafka.brokers) > 1])
    cluster.kafka.controller.kill()
    try:
        yield Harm(f"SIGKILL of the controller of {cluster.name}")
    finally:
        cluster.kafka.start()


@nemesis("cluster-down", "brokers", "SIGKILL of all brokers of a cluster")
def cluster_down(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = arena.clusters[dice.choice([*arena.clusters])]
    cluster.kafka.kill()
    try:
        yield Harm(f"SIGKILL of all brokers of {cluster.name}", (cluster.name,))
    finally:
        cluster.kafka.start()


NEMESES = (broker_kill, broker_stop, broker_pause, broker_freeze, rolling_bounce, controller_kill, cluster_down)
