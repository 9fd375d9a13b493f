"""Flows of least cost in small networks with whole capacities and costs of -1, 0 and 1.

The networks are those of compressed assignments: a node for each class of splits and each reader, not for each split.
The method is the primal-dual one: shortest paths by reduced cost, then a blocking flow (Dinic) along all of them at
once. Costs of paths are small, so there are few rounds, and none of them can be repeated: the distance of the sinks
grows with each (no local search that could cycle).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

UNBOUNDED = 1 << 60
"""A capacity that is never reached."""


class Network:
    """A network that is built arc by arc and then solved in place."""

    def __init__(self, nodes: int) -> None:
        self._out: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []
        self._potential = [0] * nodes

    def arc(self, tail: int, head: int, capacity: int, cost: int = 0) -> int:
        """Add an arc, of cost 0 or 1, and return its number; its reverse, at first without room, has the next one."""
        number = len(self._head)
        self._out[tail].append(number)
        self._out[head].append(number + 1)
        self._head += (head, tail)
        self._room += (capacity, 0)
        self._cost += (cost, -cost)
        return number

    def flow(self, arc: int) -> int:
        """What flows through an arc."""
        return self._room[arc + 1]

    def room(self, arc: int) -> int:
        """What could still flow through an arc."""
        return self._room[arc]

    def solve(self, excess: Sequence[int]) -> int:
        """Send the excess of each node (positive) to nodes that lack (negative), at the least cost.

        Returns what could not be sent. Whatever was sent was sent at the least cost for that amount.
        """
        left = list(excess)
        potential = self._potential = [0] * len(left)
        while True:
            sources = [node for node, amount in enumerate(left) if amount > 0]
            distance = self._distances(sources, potential)
            reached = [distance[node] for node, amount in enumerate(left) if amount < 0 and distance[node] is not None]
            if not sources or not reached:
                return sum(amount for amount in left if amount > 0)
            nearest = min(at for at in reached if at is not None)
            # Beyond the nearest sink nothing needs to be known: cutting there keeps all reduced costs at 0 or above.
            for node, at in enumerate(distance):
                potential[node] += nearest if at is None or at > nearest else at
            while self._block(left, potential):
                pass

    def even(self, node: int, other: int) -> bool:
        """After `solve`: whether a way between the two, in either direction, may cost nothing."""
        return self._potential[node] == self._potential[other]

    def trees(self, roots: Sequence[int], around: int) -> tuple[list[int | None], list[int]]:
        """After `solve`: the nodes that a unit can be passed on to from a root at no cost, never through `around`.

        Returns for each node the first of `roots` that leads to it, and the last arc of the way from there; -1 at the
        roots themselves. The ways of different roots have no node in common.
        """
        out, head, room, cost, potential = self._out, self._head, self._room, self._cost, self._potential
        root: list[int | None] = [None] * len(out)
        via = [-1] * len(out)
        for start in roots:
            if root[start] is not None:
                continue
            root[start] = start
            queue = [start]
            for node in queue:
                for arc in out[node]:
                    other = head[arc]
                    if root[other] is not None or other == around or not room[arc]:
                        continue
                    if potential[node] + cost[arc] == potential[other]:
                        root[other], via[other] = start, arc
                        queue.append(other)
        return root, via

    def pass_on(self, node: int, via: Sequence[int]) -> None:
        """Send one unit from the root of `node` to it, on the way that `trees` found."""
        while via[node] >= 0:
            arc = via[node]
            self._room[arc] -= 1
            self._room[arc ^ 1] += 1
            node = self._head[arc ^ 1]

    def reachable(self, excess: Sequence[int]) -> list[bool]:
        """Which nodes can be reached from one with an excess, through arcs that have room."""
        seen = [amount > 0 for amount in excess]
        queue = [node for node, amount in enumerate(excess) if amount > 0]
        for node in queue:
            for arc in self._out[node]:
                if self._room[arc] and not seen[self._head[arc]]:
                    seen[self._head[arc]] = True
                    queue.append(self._head[arc])
        return seen

    def left_over(self, excess: Sequence[int]) -> list[int]:
        """The excess of each node after `solve(excess)`."""
        left = list(excess)
        for number in range(0, len(self._head), 2):
            sent = self._room[number + 1]
            if sent:
                left[self._head[number + 1]] -= sent
                left[self._head[number]] += sent
        return left

    def _distances(self, sources: Sequence[int], potential: Sequence[int]) -> list[int | None]:
        """Shortest distance by reduced cost from any of `sources`; None where nothing leads (Dial's buckets)."""
        out, head, room, cost = self._out, self._head, self._room, self._cost
        distance: list[int | None] = [None] * len(out)
        buckets: list[list[int]] = [list(sources)]
        for node in sources:
            distance[node] = 0
        at = 0
        while at < len(buckets):
            for node in buckets[at]:
                if distance[node] != at:
                    continue
                own = potential[node] + at
                for arc in out[node]:
                    if room[arc]:
                        other = head[arc]
                        length = own + cost[arc] - potential[other]
                        known = distance[other]
                        if known is None or length < known:
                            distance[other] = length
                            while len(buckets) <= length:
                                buckets.append([])
                            buckets[length].append(other)
            at += 1
        return distance

    def _block(self, left: list[int], potential: Sequence[int]) -> bool:
        """One blocking flow through arcs of reduced cost 0; False when there was no way left."""
        out, head, room, cost = self._out, self._head, self._room, self._cost
        depth = [-1] * len(out)
        queue = deque(node for node, amount in enumerate(left) if amount > 0)
        for node in queue:
            depth[node] = 0
        found = False
        while queue:
            node = queue.popleft()
            if left[node] < 0:
                found = True
                continue
            for arc in out[node]:
                other = head[arc]
                if room[arc] and depth[other] < 0 and potential[node] + cost[arc] == potential[other]:
                    depth[other] = depth[node] + 1
                    queue.append(other)
        if not found:
            return False
        turn = [0] * len(out)
        for source, amount in enumerate(left):
            if amount > 0:
                self._push(source, left, potential, depth, turn)
        return True

    def _push(
        self, source: int, left: list[int], potential: Sequence[int], depth: Sequence[int], turn: list[int]
    ) -> None:
        """Send what `source` has along the layers, path by path, never trying an arc twice."""
        out, head, room, cost = self._out, self._head, self._room, self._cost
        path: list[int] = []
        node = source
        while True:
            if left[node] < 0:
                amount = min(left[source], -left[node], min(room[arc] for arc in path))
                left[source] -= amount
                left[node] += amount
                cut = len(path)
                for place, arc in enumerate(path):
                    room[arc] -= amount
                    room[arc ^ 1] += amount
                    if not room[arc] and place < cut:
                        cut = place
                if not left[source]:
                    return
                # Go on from the first arc that is full, or from the end where the sink is.
                cut = min(cut, len(path) - 1)
                node = head[path[cut] ^ 1]
                del path[cut:]
                continue
            arcs = out[node]
            while turn[node] < len(arcs):
                arc = arcs[turn[node]]
                other = head[arc]
                if room[arc] and depth[other] == depth[node] + 1 and potential[node] + cost[arc] == potential[other]:
                    path.append(arc)
                    node = other
                    break
                turn[node] += 1
            else:
                if not path:
                    return
                node = head[path.pop() ^ 1]
                turn[node] += 1
