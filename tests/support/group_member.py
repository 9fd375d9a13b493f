"""A process that is a member of consumer groups: one consumer for each assignor, each in a group of its own.

    python -m tests.support.group_member BOOTSTRAP_SERVERS GROUP_PREFIX NAME

It takes one JSON value a line on its standard input: a list of topics to subscribe to from now on, or null to leave the
groups and end. For each consumer it writes a line of JSON whenever something of it has changed: see `Report`.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Any

from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from evensplit.consumer_group import BalancedAssignor, GroupConsumer

ASSIGNORS: tuple[type[Any], ...] = (BalancedAssignor, StickyPartitionAssignor)
POLL_MS = 20
SESSION_TIMEOUT_MS = 6000  # the least that brokers allow by default
HEARTBEAT_INTERVAL_MS = 300


@dataclass(frozen=True)
class Report:
    """A consumer's view of its group. `settled`: it has an assignment, and as far as it knows no rebalance will follow.

    `proven`: for the leader, whether the certificate of its plan holds, if its assignor makes any.
    """

    assignor: str
    generation: int
    owned: tuple[str, ...]
    settled: bool
    proven: bool | None


class Member:
    """One consumer."""

    def __init__(self, servers: str, group: str, name: str, assignor: Any) -> None:
        self._assignor = assignor
        self._consumer = GroupConsumer(
            bootstrap_servers=servers,
            group_id=group,
            client_id=name,
            partition_assignment_strategy=[assignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            retry_backoff_ms=50,
            enable_auto_commit=False,
        )
        self._quiet_polls = 0
        self._reported: Report | None = None

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics)

    def poll(self) -> None:
        self._consumer.poll(timeout_ms=POLL_MS)
        report = self._report()
        if report != self._reported:
            self._reported = report
            print(json.dumps(asdict(report)), flush=True)

    def close(self) -> None:
        self._consumer.close()

    def _report(self) -> Report:
        coordinator = self._consumer._coordinator
        cluster = coordinator._cluster
        # A leader asks for metadata once more with each plan, and only the answer says whether another one follows.
        waiting = cluster.need_update or cluster.metadata_refresh_in_progress
        quiet = coordinator.stable() and not coordinator.need_rejoin() and not waiting
        self._quiet_polls = self._quiet_polls + 1 if quiet else 0
        plan = getattr(self._assignor, "latest", None)
        return Report(
            assignor=self._assignor.name,
            generation=coordinator._generation.generation_id,
            owned=tuple(sorted(f"{topic}-{partition}" for topic, partition in self._consumer.assignment())),
            settled=self._quiet_polls >= 2,
            proven=plan.verify() if plan is not None and coordinator._is_leader else None,
        )


def main(servers: str, prefix: str, name: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    orders: queue.Queue[list[str] | None] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(json.loads(line))
        orders.put(None)

    threading.Thread(target=listen, daemon=True).start()
    topics = orders.get()
    members = [] if topics is None else [Member(servers, f"{prefix}-{one.name}", name, one()) for one in ASSIGNORS]
    while topics is not None:
        for member in members:
            member.subscribe(topics)
        while orders.empty():
            for member in members:
                member.poll()
        topics = orders.get()
    for member in members:
        member.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
