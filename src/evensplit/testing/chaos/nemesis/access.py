"""Faults of access: quotas, rules, passwords and certificates of the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from evensplit.errors import BrokerError, ChaosError, LocalKafkaError
from evensplit.testing.broker.local_kafka import LocalKafka
from evensplit.testing.chaos.clusters import CLIENT_ID
from evensplit.testing.chaos.nemesis.base import Harm, nemesis

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena
    from evensplit.testing.chaos.clusters import ChaosCluster

DONE_WITHIN_S = 120.0
AGAIN_AFTER_S = 0.5


def _insist(kafka: LocalKafka, request: Callable[[], None]) -> None:
    """Make a request until it is done by all brokers at once: some may be down meanwhile, by another fault."""
    deadline = time.monotonic() + DONE_WITHIN_S
    while True:
        try:
            if len(kafka.addresses()) < len(kafka.brokers):
                raise LocalKafkaError(f"not all brokers of {kafka!r} run")
            request()
            return
        except (BrokerError, LocalKafkaError, OSError):
            if time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_AFTER_S)


def _drop_connections(cluster: ChaosCluster) -> None:
    """Make the job open connections anew: those that are open do not ask for a login or a certificate again."""
    for broker in cluster.kafka.brokers:
        if broker.proxy is not None:
            broker.proxy.drop_connections()


def _secured(arena: Arena) -> ChaosCluster:
    """The cluster that asks for a login."""
    found = [one for one in arena.clusters.values() if one.user]
    if not found:
        raise ChaosError("this fault needs a cluster with users")
    return found[0]


@nemesis("quota", "access", "Brokers give the job few bytes, or little of their time")
def quota(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = arena.clusters[dice.choice(sorted(arena.clusters))]
    kafka = cluster.kafka
    rate, share = float(dice.randrange(5_000, 50_000)), round(dice.uniform(0.5, 5.0), 2)
    of_bytes = dice.random() < 0.5
    try:
        if of_bytes:
            _insist(kafka, lambda: kafka.limit_client(CLIENT_ID, consumer_byte_rate=rate))
        else:
            _insist(kafka, lambda: kafka.limit_client(CLIENT_ID, request_percentage=share))
        quota = f"{rate:g} bytes/s" if of_bytes else f"{share:g} % of a thread"
        yield Harm(f"{cluster.name} gives the job {quota}", (cluster.name,))
    finally:
        _insist(kafka, lambda: kafka.limit_client(CLIENT_ID))


@nemesis("access-withdrawn", "access", "The job may not read a topic any more, and then may again", ends_process=True)
def access_withdrawn(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _secured(arena)
    kafka, user = cluster.kafka, cluster.user
    topic = dice.choice(sorted(one.name for one in arena.workload.topics(cluster.name)))
    try:
        _insist(kafka, lambda: kafka.deny(user, topic=topic))
        yield Harm(f"{user} may not read {cluster.name} {topic}", (cluster.name,))
    finally:
        _insist(kafka, lambda: kafka.remove_rules(user, topic=topic, allowed=False))


@nemesis(
    "password-rotated",
    "access",
    "The metadata name a new password or another user, and the old password opens no connection any more",
    lasts_s=(5.0, 20.0),
    ends_process=True,
    needs="evensplit",
)
def password_rotated(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _secured(arena)
    kafka, former = cluster.kafka, cluster.user
    fresh = f"{dice.getrandbits(64):016x}"
    others = sorted(set(cluster.passwords) - {former})
    user = dice.choice([former, *others])

    def rotate(whose: str, password: str) -> None:
        _insist(kafka, lambda: kafka.change_password(whose, password))
        cluster.passwords[whose] = password

    if user == former:
        # One password for one user: it is wrong until the job has seen the new one.
        rotate(user, fresh)
        arena.metadata.publish()
        _drop_connections(cluster)
        yield Harm(f"{user} of {cluster.name} has a new password", (cluster.name,))
        return
    rotate(user, fresh)
    cluster.user = user
    arena.metadata.publish()
    try:
        yield Harm(f"the job logs in to {cluster.name} as {user}, no longer as {former}", (cluster.name,))
    finally:
        rotate(former, f"{dice.getrandbits(64):016x}")
        _drop_connections(cluster)


@nemesis("certificate-rotated", "access", "Brokers present another certificate, which is valid as well")
def certificate_rotated(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _secured(arena)
    try:
        _insist(cluster.kafka, lambda: cluster.kafka.present_certificate("renewed"))
        _drop_connections(cluster)
        yield Harm(f"the brokers of {cluster.name} present another certificate", (cluster.name,))
    finally:
        _insist(cluster.kafka, lambda: cluster.kafka.present_certificate("valid"))
        _drop_connections(cluster)


NEMESES = (quota, access_withdrawn, password_rotated, certificate_rotated)
