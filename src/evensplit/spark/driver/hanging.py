"""Transactions that do not end: under read_committed, nothing behind them is read, however long that takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.text import counted
from evensplit.spark.driver.agenda import Due
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class _Held:
    """A log that goes on behind what is decided: `stable`, where that ends, was first seen at a time in s and in ms."""

    stable: int
    end: int
    since_s: float
    since_ms: int
    told: bool = False


class Hanging:
    """Says which last stable offsets have stood still for `limit_ms`, with something behind them.

    Offsets never go back, so one that is the same in two answers was the same in between. What one look costs goes by
    how many partitions have open transactions.

    `notices`: a sentence for each such cluster, as of its last answer.
    """

    def __init__(self, limit_ms: int, monotonic: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._limit_s = limit_ms / 1000
        self._monotonic = monotonic
        self._now_ms = now_ms
        self._held: dict[str, dict[TopicPartition, _Held]] = {}
        self._numbers: dict[str, int] = {}
        self._due_s: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self.notices: tuple[str, ...] = ()

    def look(self, answers: Mapping[str, PollResult], looked_at: Callable[[str], float]) -> None:
        """Take in the answers of all clusters; what has not been said yet is logged.

        `looked_at`: when the view of a cluster was asked for, in s. It can be taken in long afterwards.
        """
        for name in self._numbers.keys() - answers.keys():
            for of in (self._held, self._numbers, self._due_s, self._said):
                of.pop(name, None)
        for name, answer in answers.items():
            if isinstance(answer, ClusterSnapshot) and self._numbers.get(name) != answer.number:
                self._numbers[name] = answer.number
                self._take(name, answer, looked_at(name))
        said = ((name, self._said[name]) for name in sorted(self._said))
        self.notices = tuple(sentence for name, sentence in said if isinstance(answers[name], ClusterSnapshot))

    @property
    def dues(self) -> Iterable[Due]:
        """When another poll may make something known that has not been said yet."""
        return (Due(due_s, name, self._numbers[name]) for name, due_s in self._due_s.items())

    def _take(self, name: str, view: ClusterSnapshot, seen_s: float) -> None:
        before = self._held.pop(name, {})
        self._said.pop(name, None)
        self._due_s.pop(name, None)
        if not view.undecided:
            return
        seen_ms = self._now_ms() - int((self._monotonic() - seen_s) * 1000)
        held: dict[TopicPartition, _Held] = {}
        news: list[tuple[TopicPartition, _Held]] = []
        late: list[tuple[TopicPartition, _Held]] = []
        for key, end in view.undecided.items():
            stable, known = view.latest.get(key), before.get(key)
            if stable is None:
                continue
            one = _Held(stable, end, seen_s, seen_ms)
            if known is not None and known.stable == stable:
                one = replace(known, end=end)
            if seen_s - one.since_s >= self._limit_s:
                late.append((key, one))
                if not one.told:
                    one = replace(one, told=True)
                    news.append((key, one))
            held[key] = one
        self._held[name] = held
        waiting = [one.since_s for one in held.values() if not one.told]
        if waiting:
            self._due_s[name] = min(waiting) + self._limit_s
        if late:
            self._said[name] = self._sentence(name, late)
        if news:
            log.warning(self._sentence(name, news))

    def _sentence(self, name: str, late: list[tuple[TopicPartition, _Held]]) -> str:
        (topic, partition), first = late[0]
        count = counted(len(late), "partition")
        where = "; ".join((*map(_shown, late[:SHOWN_MAX]), *(["…"] if len(late) > SHOWN_MAX else [])))
        return (
            f"cluster {name!r}: for more than {self._limit_s:g} s (unreachableTimeout) a transaction has been open in "
            f"{count}, and under read_committed nothing behind its beginning is read: {where}. Let its producer end "
            f"it, or abort it: kafka-transactions.sh abort --topic {topic} --partition {partition} "
            f"--start-offset {first.stable}"
        )


def _shown(late: tuple[TopicPartition, _Held]) -> str:
    (topic, partition), one = late
    since = f"{datetime.fromtimestamp(one.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    return (
        f"topic {topic!r}, partition {partition} is decided up to offset {one.stable}, no further since {since} UTC, "
        f"and its log ends at {one.end}"
    )
