"""Faults of the network between the job and the brokers: each on the way to one broker, or to all of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from evensplit.errors import ChaosError
from evensplit.testing.chaos.nemesis.base import Harm, Nemesis, nemesis
from evensplit.testing.network.proxy import NetworkProxy, Trouble

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena
    from evensplit.testing.chaos.clusters import ChaosCluster


def _some_ways(cluster: ChaosCluster, dice: Random) -> tuple[list[NetworkProxy], str]:
    """The proxies of all brokers or of one, and how they are called."""
    brokers = list(cluster.kafka.brokers)
    whole = len(brokers) == 1 or dice.random() < 1 / 3
    chosen = brokers if whole else [dice.choice(brokers)]
    proxies = [broker.proxy for broker in chosen if broker.proxy is not None]
    if len(proxies) != len(chosen):
        raise ChaosError(f"{cluster.name} has brokers without proxies: start it with LocalKafka(proxied=True)")
    return proxies, f"all brokers of {cluster.name}" if whole else f"broker {chosen[0].node_id} of {cluster.name}"


def _troubled(arena: Arena, dice: Random, cluster: str, make: Callable[[], Trouble], what: str) -> Iterator[Harm]:
    proxies, where = _some_ways(arena.clusters[cluster], dice)
    trouble = make()
    if trouble.stale_metadata and not all(proxy.metadata_remembered for proxy in proxies):
        raise ChaosError(f"no metadata can be stale for {where}: the job has not asked for any yet")
    try:
        for proxy in proxies:
            proxy.trouble = trouble
        yield Harm(f"{what.format(trouble=trouble)}: {where}", (cluster,))
    finally:
        for proxy in proxies:
            proxy.trouble = Trouble()


def _network(
    name: str, meaning: str, what: str, make: Callable[[Random], Trouble], lasts_s: tuple[float, float] = (3.0, 20.0)
) -> Nemesis:
    """A nemesis that gives one kind of trouble, as dice make it, to some ways to a cluster that dice choose."""

    @nemesis(name, "network", meaning, lasts_s=lasts_s)
    def do(arena: Arena, dice: Random) -> Iterator[Harm]:
        cluster = dice.choice(sorted(arena.clusters))
        return _troubled(arena, dice, cluster, lambda: make(dice), what)

    return do


cut = _network("cut", "Connections are closed, and none is taken", "connections are cut", lambda _: Trouble(cut=True))

half_open = _network(
    "half-open",
    "Connections stay open, and nothing gets through",
    "connections are half-open",
    lambda _: Trouble(requests_held=True, answers_held=True),
)

one_way = _network(
    "one-way",
    "Data get through in one direction only",
    "data pass in one direction (requests held: {trouble.requests_held}, answers held: {trouble.answers_held})",
    lambda dice: Trouble(requests_held=(held := dice.random() < 0.5), answers_held=not held),
)

delay = _network(
    "delay",
    "All data come later",
    "data come {trouble.delay_s} s later",
    lambda dice: Trouble(delay_s=round(dice.uniform(0.05, 1.0), 3)),
)

jitter = _network(
    "jitter",
    "All data come later, some by more than others",
    "data come up to {trouble.jitter_s} s later",
    lambda dice: Trouble(jitter_s=round(dice.uniform(0.1, 2.0), 3)),
)

reset = _network(
    "reset",
    "Connections are reset at random",
    "each piece of data resets its connection with a probability of {trouble.reset_chance}",
    lambda dice: Trouble(reset_chance=round(dice.uniform(0.02, 0.3), 3)),
)

throttle = _network(
    "throttle",
    "Few bytes a second get through",
    "{trouble.bytes_per_s_max} bytes/s get through each connection",
    lambda dice: Trouble(bytes_per_s_max=float(dice.randrange(2_000, 100_000))),
)


@nemesis("stale-metadata", "network", "Brokers name leaders and partitions as they were, not as they are")
def stale_metadata(arena: Arena, dice: Random) -> Iterator[Harm]:
    # The proxies cannot read what passes in TLS.
    plain = [name for name, cluster in sorted(arena.clusters.items()) if not cluster.user]
    if not plain:
        raise ChaosError("metadata can be stale for a cluster without TLS alone, and there is none")
    made = lambda: Trouble(stale_metadata=True)  # noqa: E731
    yield from _troubled(arena, dice, dice.choice(plain), made, "metadata are those of a moment ago")


NEMESES = (cut, half_open, one_way, delay, jitter, reset, throttle, stale_metadata)
