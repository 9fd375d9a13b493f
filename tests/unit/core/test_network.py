"""The flow of least cost, against networkx on small networks."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from evensplit.core.assign.solver.network import UNBOUNDED, Network


def random_network(seed: int) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Arcs (tail, head, capacity, cost) in any direction, also parallel ones, and the excess of each node."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 9)
    arcs = []
    for _ in range(rng.randint(1, 24)):
        tail, head = rng.sample(range(nodes), 2)
        arcs.append((tail, head, rng.choice([0, 1, 2, 5, UNBOUNDED]), rng.randint(0, 1)))
    excess = [rng.choice([0, 0, rng.randint(-6, 6)]) for _ in range(nodes)]
    return arcs, excess


def built(arcs: list[tuple[int, int, int, int]], nodes: int) -> tuple[Network, list[int]]:
    network = Network(nodes)
    return network, [network.arc(tail, head, capacity, cost) for tail, head, capacity, cost in arcs]


def most_and_least(arcs: list[tuple[int, int, int, int]], excess: list[int]) -> tuple[int, int]:
    """How much can be sent at most, and what that costs at least."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(["source", "sink", *range(len(excess))])
    bound = sum(abs(amount) for amount in excess)
    for tail, head, capacity, cost in arcs:
        graph.add_edge(tail, head, capacity=min(capacity, bound), weight=cost)
    for node, amount in enumerate(excess):
        if amount > 0:
            graph.add_edge("source", node, capacity=amount, weight=0)
        if amount < 0:
            graph.add_edge(node, "sink", capacity=-amount, weight=0)
    # Whatever is sent goes round once more, at a price that no other cost outweighs.
    graph.add_edge("sink", "source", capacity=bound, weight=-1_000)
    cost, flow = nx.network_simplex(graph)
    sent = sum(flow["sink"]["source"].values())
    return sent, int(cost) + 1_000 * sent


@pytest.mark.lengthy
def test_it_sends_the_most_at_the_least_cost() -> None:
    for seed in range(1_500):
        arcs, excess = random_network(seed)
        network, numbers = built(arcs, len(excess))
        left = network.solve(excess)
        sent, cost = most_and_least(arcs, excess)
        assert sum(amount for amount in excess if amount > 0) - left == sent, seed
        flows = [network.flow(number) for number in numbers]
        assert sum(flow * arc[3] for flow, arc in zip(flows, arcs, strict=True)) == cost, seed


def test_flows_fit_and_nothing_is_lost_on_the_way() -> None:
    for seed in range(500):
        arcs, excess = random_network(seed)
        network, numbers = built(arcs, len(excess))
        left = network.solve(excess)
        balance = list(excess)
        for number, (tail, head, capacity, _) in zip(numbers, arcs, strict=True):
            assert 0 <= network.flow(number) <= capacity
            assert network.flow(number) + network.room(number) == capacity
            balance[tail] -= network.flow(number)
            balance[head] += network.flow(number)
        assert balance == network.left_over(excess)
        for before, after in zip(excess, balance, strict=True):
            # Nobody gives more than there is, or takes more than is lacking.
            assert min(before, 0) <= after <= max(before, 0)
        assert sum(amount for amount in balance if amount > 0) == left


def test_what_can_still_be_reached_holds_no_sink() -> None:
    for seed in range(500):
        arcs, excess = random_network(seed)
        network, numbers = built(arcs, len(excess))
        network.solve(excess)
        left = network.left_over(excess)
        seen = network.reachable(left)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(excess)))
        for number, (tail, head, _, _) in zip(numbers, arcs, strict=True):
            if network.room(number):
                graph.add_edge(tail, head)
            if network.flow(number):
                graph.add_edge(head, tail)
        sources = {node for node, amount in enumerate(left) if amount > 0}
        reached = sources.union(*(nx.descendants(graph, node) for node in sources))
        assert {node for node, one in enumerate(seen) if one} == reached
        assert not any(left[node] < 0 for node in reached)


@pytest.mark.timeout(20)
def test_long_chains_and_wide_layers_end_soon() -> None:
    length = 2_000
    chain = Network(length)
    for node in range(length - 1):
        chain.arc(node, node + 1, 1, 1)
    assert chain.solve([2, *[0] * (length - 2), -2]) == 1

    wide = Network(602)
    for source in range(300):
        wide.arc(source, 600, UNBOUNDED, source % 2)
        wide.arc(600, 300 + source, 3, 1)
    assert wide.solve([5] * 300 + [-4] * 300 + [0, 0]) == 300 * 5 - 300 * 3


def test_there_may_be_nothing_to_do() -> None:
    assert Network(0).solve([]) == 0
    assert Network(2).solve([0, 0]) == 0
    assert Network(2).solve([3, -3]) == 3
    assert Network(1).reachable([0]) == [False]
