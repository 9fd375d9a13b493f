"""What the consumer for groups asks of kafka-python, and how long the end of a join is worth something."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.structs import MemberState, TopicPartition

from evensplit.consumer_group import BalancedAssignor, GroupConsumer
from evensplit.consumer_group.consumer import Coordinator, Joined, guard


def test_it_is_for_groups() -> None:
    with pytest.raises(ValueError, match="expected group_id, found none"):
        GroupConsumer("orders", bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize(
    "given, found",
    [
        ("balanced", "'balanced'"),
        (["balanced"], "'balanced'"),
        (BalancedAssignor, "BalancedAssignor"),
        ([BalancedAssignor, None], "None"),
        ([dict], "dict"),
        (None, "None"),
    ],
)
def test_what_is_no_assignor_is_refused_with_those_that_there_are(given: object, found: str) -> None:
    with pytest.raises(ValueError, match="expected a list of assignors") as caught:
        GroupConsumer("orders", group_id="g", partition_assignment_strategy=given)
    assert str(caught.value) == (
        "partition_assignment_strategy: expected a list of assignors, such as [BalancedAssignor], with the classes "
        "BalancedAssignor, StickyAssignor, FairAssignor and CooperativeBalancedAssignor of evensplit.consumer_group or "
        f"those of kafka-python; found {found}"
    )


def test_what_cannot_be_called_is_refused_when_the_consumer_is_made() -> None:
    with pytest.raises(ValueError, match="on_change: expected a function of three sets of TopicPartition; found 'no'"):
        GroupConsumer("orders", group_id="g", on_change="no")  # type: ignore[arg-type]


def test_a_coordinator_that_is_not_the_known_one_is_refused_by_name() -> None:
    other = SimpleNamespace(config={}, poll=None)
    with pytest.raises(RuntimeError, match=r"kafka-python 3\..*found SimpleNamespace; missing: need_rejoin, rejoining"):
        guard(other, print)
    without = object.__new__(ConsumerCoordinator)  # no __init__: what it sets is missing
    with pytest.raises(RuntimeError, match=r"found ConsumerCoordinator; missing: config, rejoining, state, _gen"):
        guard(without, print)
    assert type(without) is ConsumerCoordinator


@pytest.mark.parametrize(
    "change, joins",
    [
        ({}, 0),
        ({"state": MemberState.STABLE}, 1),
        ({"_generation": Generation(8, "m", "p")}, 1),
        ({"until_s": -1.0}, 1),
        ({"_joined": None}, 1),
    ],
)
def test_the_end_of_a_join_is_taken_once_and_in_time(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], joins: int
) -> None:
    made: list[bytes] = []

    async def join(self: Any) -> bytes:
        made.append(b"new")
        return b"new"

    monkeypatch.setattr(ConsumerCoordinator, "_do_join_and_sync_async", join)
    coordinator = object.__new__(Coordinator)
    generation = Generation(7, "m", "p")
    until_s = time.monotonic() + change.get("until_s", 60.0)
    coordinator.config = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3_000}
    coordinator._generation = generation
    coordinator._joined = Joined(generation, b"unheard", until_s)
    coordinator.state = MemberState.REBALANCING
    for name, value in change.items():
        if name != "until_s":
            setattr(coordinator, name, value)
    assert asyncio.run(coordinator._do_join_and_sync_async()) == (b"new" if joins else b"unheard")
    assert len(made) == joins
    joined = coordinator._joined
    assert joined is not None
    assert joined.until_s <= time.monotonic() + 42 + (0 if joins else 60)
    assert joined.assignment == (b"new" if joins else b"unheard")


@pytest.mark.parametrize("protocol", list(RebalanceProtocol))
@pytest.mark.parametrize("heard, now, missed", [(None, 7, False), (6, 7, False), (7, 7, False), (5, 7, True)])
def test_a_round_of_the_eager_protocol_that_was_missed_costs_the_positions(
    monkeypatch: pytest.MonkeyPatch, protocol: RebalanceProtocol, heard: int | None, now: int, missed: bool
) -> None:
    """In it somebody else may have read, and committed."""
    completed: list[tuple[Any, ...]] = []

    async def complete(self: Any, *what: Any) -> None:
        completed.append((*what, set(subscription.assigned_partitions())))

    monkeypatch.setattr(ConsumerCoordinator, "_on_join_complete_async", complete)
    subscription = SubscriptionState()
    subscription.subscribe(["orders"])
    subscription.assign_from_subscribed([TopicPartition("orders", 0)])
    coordinator = object.__new__(Coordinator)
    coordinator.watch(print)
    coordinator._subscription = subscription
    coordinator._rebalance_protocol = protocol
    coordinator._round = heard
    asyncio.run(coordinator._on_join_complete_async(now, "member", "protocol", b"assignment"))
    lost = missed and protocol is RebalanceProtocol.EAGER
    kept = set() if lost else {TopicPartition("orders", 0)}
    assert completed == [(now, "member", "protocol", b"assignment", kept)]
    assert (coordinator._lost_all, coordinator._round) == (lost, now)
