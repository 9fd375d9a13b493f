"""A process that reads as a member of a consumer group, in the loop that anybody would write.

    python -m tests.support.group_reader BOOTSTRAP_SERVERS GROUP TOPIC ASSIGNOR

It ends, and leaves the group, when its standard input does. It writes lines of JSON: `read` what a poll returned, then
`committed` when that is; and `generation`, `owned` and `told`, whenever they change: the generation in which the
member is settled or null, the partitions that it owns, and those that it owns by the reports of `on_change`.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from kafka.structs import MemberState

from evensplit import consumer_group
from tests.support.group_loops import SESSION_TIMEOUT_MS


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(servers: str, group: str, topic: str, assignor: str) -> None:
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    told: set[int] = set()

    def on_change(*sets: frozenset[Any]) -> None:
        lost, kept, gained = ({one.partition for one in some} for some in sets)
        assert lost | kept == told
        assert not gained & kept
        told.difference_update(lost)
        told.update(gained)

    consumer = consumer_group.GroupConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        partition_assignment_strategy=[getattr(consumer_group, assignor)],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=300,
        metadata_max_age_ms=1000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        on_change=on_change,
    )
    last: Any = None
    while not over.is_set():
        found = consumer.poll(timeout_ms=500)
        if found:
            say(read=[[one.partition, some[0].offset, some[-1].offset] for one, some in found.items()])
            consumer.commit()
            say(committed=True)
        membership = consumer.group_metadata()
        generation = membership.generation_id if membership.state == MemberState.STABLE else None
        owned = sorted(one.partition for one in consumer.assignment())
        now = {"generation": generation, "owned": owned, "told": sorted(told)}
        if now != last:
            last = now
            say(**now)
    consumer.close()
    assert not told


if __name__ == "__main__":
    main(*sys.argv[1:])
