"""Bugs planted in the shipped reader: the simulator of fetches has to find each of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

from evensplit.errors import DataLossError
from evensplit.kafka.fetch import fetcher, problems, request, response
from evensplit.kafka.fetch.fetcher import Fetcher
from evensplit.kafka.fetch.leader import Leader
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.fetch.routing import Routing
from evensplit.kafka.fetch.second_opinion import Search
from evensplit.kafka.options.client import ClientSettings
from tests.sim.planting import swapped

Swap = tuple[str, Any, Any]


@dataclass(frozen=True)
class PlantedFetch:
    """A bug. `laws`: those of which any may be the first that it breaks. `swaps`: what takes the place of what.

    `seed`: the one that finds it, the first from 0. `like`: as in `Planted`.
    """

    says: str
    laws: tuple[str, ...]
    swaps: tuple[Swap, ...]
    seed: int = 0
    like: str = ""

    def planted(self) -> AbstractContextManager[object]:
        """It is there for as long as this is entered."""
        stack = ExitStack()
        for name, other, where in self.swaps:
            stack.enter_context(swapped(name, other, where))
        return stack


def _loses_asked(self: Fetcher, leader: Leader, error: Any, real: Any = Fetcher._lose) -> None:
    """A connection breaks: what was under way on it is forgotten."""
    leader.asked = []
    real(self, leader, error)


def _no_aborted(*arguments: Any, **options: Any) -> Any:
    """Nothing is known of aborted transactions."""
    answer = _apply_response(*arguments, **options)
    for span in answer.spans:
        span.aborted = ()
    return answer


def _ask_uncommitted(reads: Any, settings: ClientSettings, *others: Any) -> Any:
    """The isolation level is not told."""
    return _fetch_request(reads, replace(settings, read_committed=False), *others)


def _later_position(*arguments: Any) -> request.Walked:
    """A record batch that is cut off counts as read."""
    walked = _walk(*arguments)
    if walked.cut_bytes and walked.batches and walked.position is not None:
        return walked._replace(position=min(walked.position + 1, arguments[4]))
    return walked


def _settled(self: Routing, read: PartitionRead) -> bool:
    """What does not come is not there, remote storage or not."""
    read.advance(read.end, self._waiting.now_s)
    return True


def _lost_at_once(self: Routing, read: PartitionRead) -> bool:
    """One broker's word that there is no such offset is enough."""
    self.lose(read, problems.ends_before(read, 0, read.position))
    return True


def _lost_to_the_end(self: Routing, read: PartitionRead, error: DataLossError, behind: int = 0) -> None:
    """Where a log begins later than it did, all of the range is passed over."""
    _lose(self, read, error)


def _skipped_less(read: PartitionRead, error: DataLossError, behind: int, now_s: float) -> None:
    """The first offset that was skipped is not told."""
    read.advance(min(read.position + 1, read.end), now_s)
    _pass_over(read, error, behind, now_s)


def _home_by_name(self: Routing, read: PartitionRead, leaders: Any) -> Any:
    """Whatever has the topic's name is read."""
    self._topic_ids = {}
    read.begun = False
    return _leader_of(self, read, leaders)


def _never_overdue(self: Routing, read: PartitionRead) -> None:
    """What does not get on is tried for ever."""


def _half_the_time(self: Routing, read: PartitionRead) -> float:
    """A read has half of its time."""
    settings = self._settings[read.split.cluster]
    return settings.progress_timeout_ms / 2000 - (self._waiting.now_s - read.stamp_s)


def _of_any_log(read: PartitionRead, data: bytearray, begin: int, end: int) -> tuple[int, int, int | None]:
    """Leader epochs say nothing."""
    return end, read.epoch, None


_apply_response, _walk, _pass_over = response.apply_response, request.walk, problems.pass_over
_fetch_request, _lose, _leader_of = request.fetch_request, Routing.lose, Routing._leader_of

PLANTED_FETCHES: Mapping[str, PlantedFetch] = {
    "asked-forgotten": PlantedFetch(
        "what was under way on a connection that broke is not asked for again",
        ("F1",),
        (("_lose", _loses_asked, Fetcher),),
        seed=7,
    ),
    "aborted-delivered": PlantedFetch(
        "aborted transactions are delivered", ("F2",), (("apply_response", _no_aborted, fetcher),), seed=1
    ),
    "uncommitted-asked": PlantedFetch(
        "what is asked for under read_committed is read_uncommitted",
        ("F2",),
        (("fetch_request", _ask_uncommitted, fetcher),),
        seed=1,
    ),
    "cut-batch-passed": PlantedFetch(
        "a record batch that is cut off is passed over", ("F1", "F4"), (("walk", _later_position, response),), seed=1
    ),
    "remote-passed": PlantedFetch("remote storage is passed over", ("F1",), (("settle", _settled, Routing),), seed=106),
    "out-of-range-believed": PlantedFetch(
        "an offset out of range is lost",
        ("F3", "F4"),
        (("check_loss", _lost_at_once, Routing),),
        seed=12,
        like="evensplit, before: one broker's word believed",
    ),
    "lost-to-the-end": PlantedFetch(
        "more is passed over than was deleted", ("F3",), (("lose", _lost_to_the_end, Routing),), seed=143
    ),
    "skips-miscounted": PlantedFetch(
        "less is said to be skipped than is", ("F1",), (("pass_over", _skipped_less, problems),), seed=45
    ),
    "names-believed": PlantedFetch(
        "a topic's id is not looked at",
        ("F2", "F4"),
        (("_leader_of", _home_by_name, Routing),),
        seed=108,
        like="evensplit, before: a topic created anew within a batch",
    ),
    "names-not-compared": PlantedFetch(
        "what was read by name is not looked at afterwards",
        ("F2",),
        (("compare_names", lambda *_, **__: None, Fetcher),),
        seed=381,
        like="evensplit, before: a topic created anew within a batch",
    ),
    "one-word-enough": PlantedFetch(
        "what one broker does not know is gone",
        ("F3", "F4"),
        (
            ("unheard", lambda self: [], Search),
            ("_sought_s", lambda self, read: 0.0, Routing),
            ("left_s", lambda self, read: 0.0, Routing),
        ),
        like="evensplit, before: one broker's word believed",
        seed=1,
    ),
    "epochs-not-compared": PlantedFetch(
        "leader epochs of record batches are not looked at",
        ("F2", "F3", "F4"),
        (("_of_this_log", _of_any_log, response),),
        seed=7,
        like="evensplit, before: an unclean election",
    ),
    "never-overdue": PlantedFetch(
        "no error comes of it",
        ("F5",),
        (("raise_if_overdue", _never_overdue, Routing),),
        seed=13,
        like="evensplit, before: silence without an error",
    ),
    "half-the-time": PlantedFetch("errors come too early", ("F4",), (("left_s", _half_the_time, Routing),), seed=12),
    "quota-ignored": PlantedFetch(
        "a quota is not kept to", ("F6",), (("throttle", lambda *_: False, Leader),), seed=39
    ),
    "bounds-ignored": PlantedFetch(
        "more is asked for than is allowed", ("F6",), (("_records_bytes_max", lambda *_: 50 << 20, request),)
    ),
}
"""Name -> bug."""
