"""Faults of the network between the job and brokers, made by the proxies in front of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.nemesis.base import Harm, nemesis
from evensplit.testing.network.proxy import NetworkProxy, Trouble


def _troubled(arena: Arena, dice: Random, what: str, trouble: Trouble) -> Iterator[Harm]:
    """Trouble on the way to one broker, or to all of a cluster."""
    cluster = arena.clusters[dice.choice([*arena.clusters])]
    brokers = cluster.kafka.brokers
    one = dice.choice(brokers)
    some = brokers if dice.random() < 0.5 else (one,)
    proxies: list[NetworkProxy] = [broker.proxy for broker in some if broker.proxy is not None]
    where = f"all brokers of {cluster.name}" if len(some) > 1 else f"broker {some[0].node_id} of {cluster.name}"
    try:
        for proxy in proxies:
            proxy.trouble = trouble
        yield Harm(f"{what}: {where}", (cluster.name,))
    finally:
        for proxy in proxies:
            proxy.trouble = Trouble()


@nemesis("cut", "network", "Connections are closed, and new ones, too")
def cut(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _troubled(arena, dice, "connections are cut", Trouble(cut=True))


@nemesis("half-open", "network", "Connections stay open, and nothing gets through")
def half_open(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _troubled(arena, dice, "nothing gets through", Trouble(requests_held=True, answers_held=True))


@nemesis("one-way", "network", "Nothing gets through in one direction")
def one_way(arena: Arena, dice: Random) -> Iterator[Harm]:
    requests = dice.random() < 0.5
    trouble = Trouble(requests_held=requests, answers_held=not requests)
    yield from _troubled(arena, dice, "no request gets through" if requests else "no answer gets through", trouble)


@nemesis("delay", "network", "All data come later")
def delay(arena: Arena, dice: Random) -> Iterator[Harm]:
    delay_s = round(dice.uniform(0.05, 1.0), 2)
    yield from _troubled(arena, dice, f"all data come {delay_s:g} s later", Trouble(delay_s=delay_s))


@nemesis("jitter", "network", "Data come later, each piece by another time")
def jitter(arena: Arena, dice: Random) -> Iterator[Harm]:
    jitter_s = round(dice.uniform(0.2, 2.0), 2)
    yield from _troubled(arena, dice, f"data come up to {jitter_s:g} s later", Trouble(jitter_s=jitter_s))


@nemesis("reset", "network", "Data are lost, and their connections reset")
def reset(arena: Arena, dice: Random) -> Iterator[Harm]:
    chance = round(dice.uniform(0.02, 0.3), 2)
    what = f"{chance:.0%} of all pieces of data are lost, with their connections"
    yield from _troubled(arena, dice, what, Trouble(reset_chance=chance))


@nemesis("throttle", "network", "Few bytes a second get through")
def throttle(arena: Arena, dice: Random) -> Iterator[Harm]:
    rate = dice.choice([2_000, 20_000, 200_000])
    what = f"{rate:,} bytes a second get through each connection"
    yield from _troubled(arena, dice, what, Trouble(bytes_per_s_max=rate))


NEMESES = (cut, half_open, one_way, delay, jitter, reset, throttle)
