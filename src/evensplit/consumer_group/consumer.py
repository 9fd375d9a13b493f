"""A consumer that stays in its group, and that reports which partitions it lost, kept and gained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import kafka
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.structs import MemberState

from evensplit.consumer_group.assignors import CooperativeBalancedAssignor

OnChange = Callable[[frozenset[TopicPartition], frozenset[TopicPartition], frozenset[TopicPartition]], object]
"""`on_change(lost, kept, gained)`: the partitions that a consumer no longer owns, still owns, and owns from now on."""

STRATEGY = "partition_assignment_strategy"

RELIED_ON = (
    "config", "need_rejoin", "poll", "rejoining", "request_rejoin", "reset_generation", "stable", "state",
    "_do_join_and_sync_async", "_generation", "_is_leader", "_lock", "_on_join_complete_async",
    "_on_join_prepare_async", "_perform_assignment", "_rebalance_protocol", "_subscription",
)  # fmt: skip
"""The attributes of kafka-python's coordinator that `Coordinator` needs."""


class GroupConsumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python comes without types
    """kafka-python's `KafkaConsumer` for a consumer group, without its ways of falling out of the group.

    Use it like `KafkaConsumer`, by `poll` with any timeout or by iteration, with the same options. In addition:

    - A rebalance that has begun is finished by the next calls of `poll`, however short their timeout is. The plain
      consumer (3.0.12) can forget that it is joining: it then goes on reading its old partitions without heartbeats.
      With `timeout_ms=0`, the default of `poll`, it hardly ever joins.
    - `on_change(lost, kept, gained)` is called after each rebalance that changed the consumer's partitions, with three
      frozensets of `TopicPartition`. Partitions that were revoked and given back are `kept`.

    `on_change` is called in the thread that calls `poll` or iterates, before a record of a gained partition is
    returned. So it may call `seek`, `position` and `commit`, which kafka-python's own listener may not. If the consumer
    was removed from the group, all partitions are reported as lost as soon as it learns of that, in a call of its own.
    Partitions that it gets afterwards are `gained`, and read from the committed offset. The same happens with an eager
    assignor after a round that the consumer missed, since others may have read in between. After `unsubscribe` and
    `close`, all partitions are lost, too. For partitions that the caller chose with `assign`, nothing is called.
    An exception of `on_change` is raised by the method that called it. No record is lost by that, and the change is not
    reported again.

    Under an eager assignor, the next owner may already read the partitions reported as `lost`. Under a cooperative one
    it does not, unless the consumer was removed, was closed or has changed its subscription.

    Args:
        topics: the topics to subscribe to.
        on_change: see above; None: no call.
        configs: the options of `KafkaConsumer`; `group_id` is required.

    Raises ValueError without a group, for an invalid assignor or an `on_change` that cannot be called, and RuntimeError
    if this version of kafka-python is not supported.
    """

    def __init__(self, *topics: str, on_change: OnChange | None = None, **configs: Any) -> None:
        if configs.get("group_id") is None:
            raise ValueError("GroupConsumer is a member of a group: expected group_id, found none. Give it a group_id.")
        if on_change is not None and not callable(on_change):
            raise ValueError(f"on_change: expected a function of three sets of TopicPartition; found {on_change!r}")
        assignors = _assignors(configs.get(STRATEGY, self.DEFAULT_CONFIG[STRATEGY]))
        self._on_change = on_change
        self._owned: frozenset[TopicPartition] = frozenset()
        super().__init__(*topics, **{**configs, STRATEGY: assignors})
        try:
            guard(self._coordinator, self._tell)
        except RuntimeError:
            super().close()
            raise
        cooperative = all(RebalanceProtocol.COOPERATIVE in one.supported_protocols() for one in assignors)
        for one in assignors:
            if isinstance(one, CooperativeBalancedAssignor):
                one.bind(self.assignment if cooperative else frozenset)

    def unsubscribe(self) -> None:
        """Leave the group and give up all partitions; see `KafkaConsumer.unsubscribe`."""
        super().unsubscribe()
        self._now_owns(frozenset())

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and close the consumer; see `KafkaConsumer.close`."""
        try:
            super().close(autocommit=autocommit, timeout_ms=timeout_ms)
        finally:
            self._now_owns(frozenset())

    def _tell(self, *, lost_all: bool, settled: bool) -> None:
        if lost_all:
            self._now_owns(frozenset())
        if settled:
            self._now_owns(frozenset(self.assignment()))

    def _now_owns(self, now: frozenset[TopicPartition]) -> None:
        # Noted first, so that no change is reported twice, even if `on_change` raises.
        before, self._owned = self._owned, now
        if self._on_change is not None and now != before:
            self._on_change(before - now, before & now, now - before)


def _assignors(given: Any) -> list[Any]:
    """Instances of the assignors in `given`. Raises ValueError for the first that is no assignor."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    assignors = []
    for one in given if several else [given]:
        made = one() if several and callable(one) else one
        if not several or not isinstance(made, AbstractPartitionAssignor):
            raise ValueError(
                f"{STRATEGY}: expected a list of assignors, such as [BalancedAssignor], with the classes "
                "BalancedAssignor, StickyAssignor, FairAssignor and CooperativeBalancedAssignor of "
                f"evensplit.consumer_group or those of kafka-python; found {getattr(one, '__name__', repr(one))}"
            )
        assignors.append(made)
    return assignors


class Joined(NamedTuple):
    """The end of a join: the assignment, its generation, and until when the broker counts the member as alive."""

    generation: Generation
    assignment: bytes
    until_s: float


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]
    """kafka-python's coordinator, changed so that it finishes every join that it has begun.

    In kafka-python, a `poll` that times out leaves the join to the next one. But the next one checks again whether
    there is a reason to join: a changed subscription is one only until the request is sent, and changed metadata only
    until the leader has made its plan. The response is then never read, and heartbeats stay off. A join that ends
    between two polls is dropped and made again. And a consumer that is removed from the group while it joins keeps its
    positions, although others read on from there.
    """

    _joined: Joined | None
    _round: int | None  # the last generation whose assignment was received
    _lost_all: bool
    _tell: Callable[..., None]

    def watch(self, tell: Callable[..., None]) -> None:
        """Set the attributes of this class; see `guard`."""
        self._joined = None
        self._round = None
        self._lost_all = False
        self._tell = tell

    def need_rejoin(self) -> bool:
        """Whether to join, or to continue a pending join."""
        if self.rejoining:
            self.request_rejoin()
        return bool(super().need_rejoin())

    def reset_generation(self, *args: Any, **kwargs: Any) -> None:
        """Note that the member is no longer in the group, and must give up its partitions before it joins again."""
        super().reset_generation(*args, **kwargs)
        with self._lock:  # called by the network's thread, too
            self._lost_all = True
        if self._subscription.assigned_partitions():
            self.rejoining = False

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Take part in the group, then report changes."""
        done = bool(super().poll(timeout_ms=timeout_ms))
        with self._lock:
            lost_all, self._lost_all = self._lost_all, False
        self._tell(lost_all=lost_all, settled=self.stable() and not self.rejoining)
        return done

    async def _on_join_prepare_async(self, *args: Any, **kwargs: Any) -> None:
        # A leader keeps the topics of the other members. Otherwise metadata that comes while it joins leaves them out,
        # its plan is made from that, and the next metadata differs: it would rebalance again and again.
        watched = set(self._subscription.group_subscription()) if self._is_leader else set()
        try:
            await super()._on_join_prepare_async(*args, **kwargs)
        finally:
            if watched:
                self._subscription.group_subscribe(watched)

    async def _on_join_complete_async(self, generation: int, *args: Any, **kwargs: Any) -> None:
        missed = self._round is not None and generation > self._round + 1
        if missed and self._rebalance_protocol == RebalanceProtocol.EAGER:
            # In between, others may have owned and read its partitions, so its positions are out of date.
            self._subscription.assign_from_subscribed([])
            self._lost_all = True
        self._round = generation
        await super()._on_join_complete_async(generation, *args, **kwargs)

    def _perform_assignment(self, *args: Any, **kwargs: Any) -> Any:
        self._subscription.reset_group_subscription()  # the topics of the members are added to it
        return super()._perform_assignment(*args, **kwargs)

    async def _do_join_and_sync_async(self) -> bytes:
        last = self._joined
        if (
            last is not None
            and last.generation is self._generation
            and self.state is MemberState.REBALANCING
            and time.monotonic() < last.until_s
        ):
            return last.assignment
        assignment: bytes = await super()._do_join_and_sync_async()
        # The broker has just heard from the member, and must get a heartbeat in time.
        alive_ms = self.config["session_timeout_ms"] - self.config["heartbeat_interval_ms"]
        self._joined = Joined(self._generation, assignment, time.monotonic() + alive_ms / 1000)
        return assignment


def guard(coordinator: Any, tell: Callable[..., None]) -> None:
    """Turn kafka-python's coordinator into a `Coordinator`.

    `tell`: called by each poll, with `lost_all` (whether others may have owned the member's partitions since the last
    one) and `settled` (whether it is stable in a generation). Raises RuntimeError for an unknown coordinator.
    """
    missing = [name for name in RELIED_ON if not hasattr(coordinator, name)]
    if type(coordinator) is not ConsumerCoordinator or missing:
        raise RuntimeError(
            f"GroupConsumer does not know the insides of kafka-python {kafka.__version__}: expected a "
            f"ConsumerCoordinator, found {type(coordinator).__name__}; missing: {', '.join(missing) or 'nothing'}. "
            "Install a version of kafka-python that the requirements of evensplit allow."
        )
    coordinator.__class__ = Coordinator
    coordinator.watch(tell)
