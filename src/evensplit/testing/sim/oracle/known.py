"""What the oracle knows of every split, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evensplit.core.machine.events import Asked
from evensplit.core.model import Loss, Split, SplitId
from evensplit.testing.sim.edits.counts import Counts
from evensplit.testing.sim.oracle.one_log import OneLog
from evensplit.testing.sim.oracle.read_ranges import ReadParts
from evensplit.testing.sim.oracle.topic_ids import TopicIds


@dataclass(slots=True)
class Claims:
    """What one reader reported before the first assignment of a session."""

    generation: int | None
    splits: frozenset[SplitId]


class Missed(NamedTuple):
    """Complete answers in a row lack something."""

    since_ms: int
    """When the first of them was asked for."""
    times: int
    last_ms: int
    """When the last of them was asked for."""
    turned: bool
    """The last one may be another broker's."""


@dataclass(slots=True)
class Known:
    """What is known without the enumerator.

    Of the checkpoint: `known`: split -> topic id. `marks`: split -> the next offset to deliver. `stops`: where a
    bounded read ends. `clusters`: how the first discovery of each starts, or that it is done. `by_strategy`: splits
    that a first discovery by the strategy found. `assigned_readers`: the readers of the last assignment. `runs`: for
    each split with a start, a number that no other run of offsets without a break has, and where the run began.
    `kafka`: what each cluster calls itself. `undeclared`: losses that were noticed since the last batch was planned.
    `settled`: what has been deleted, and what was lost with it is declared. `moved`: when splits moved for the work of
    readers in the last hour, and how many; None: owners have never been decided by work. `edited`: run -> how much more
    often its offsets are to be read than once, by edits. `left_out`: run -> what was skipped of it. `skips`: split ->
    the same, of the last batch alone.

    Of the session: `missing`: split or cluster -> the last complete answers without it. `listings`: how many complete
    answers the metadata gave, `listed`: the number of the last one. `subscribed`: the topics of clusters whose
    subscription the last of them named, `unwanted`: splits that are not among them, as `missing`. `removed`,
    `registered`: readers. `claims`: reader -> its last report. `ends`: how far logs were seen to reach. `short`: logs
    that end before their positions: how many answers in a row said so, the lowest of the ends, the last answer, and the
    time of the first one. `ids`: what is to be believed of the ids of topics. `leaving`: clusters that may be removed.
    `heard`: the number of the last answer of each cluster; `discoveries`: of its last complete one; `observed`: of the
    last one about its logs. `read`: what batches have read.

    Of the event: `expected`: what has to be reported lost, and whether that ends the run. `refused`: the clusters that
    have to be refused. `void`: nothing of it counts. `renamed`: a cluster's name before and now. `uncompared`: where
    the oldest range of each split began that had been read and was not compared when the last batch was planned.
    """

    known: dict[SplitId, str] = field(default_factory=dict)
    marks: dict[SplitId, int] = field(default_factory=dict)
    stops: dict[SplitId, int] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    by_strategy: dict[SplitId, bool] = field(default_factory=dict)
    assigned_readers: tuple[int, ...] = ()
    runs: dict[SplitId, tuple[int, int]] = field(default_factory=dict)
    begun: int = 0
    kafka: dict[str, str] = field(default_factory=dict)
    undeclared: list[Loss] = field(default_factory=list)
    one_log: OneLog = field(default_factory=OneLog)
    settled: dict[SplitId, bool] = field(default_factory=dict)
    moved: tuple[tuple[int, int], ...] | None = None
    edited: dict[int, Counts] = field(default_factory=dict)
    left_out: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    skips: dict[SplitId, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    missing: dict[SplitId | str, Missed] = field(default_factory=dict)
    listings: int = 0
    listed: int = 0
    subscribed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    removed: dict[int, bool] = field(default_factory=dict)
    registered: dict[int, bool] = field(default_factory=dict)
    claims: dict[int, Claims] = field(default_factory=dict)
    now_ms: int | None = None
    interval_ms: int = 30_000
    loss: str = "fail"
    unwanted: dict[SplitId, Missed] = field(default_factory=dict)
    ends: dict[SplitId, int] = field(default_factory=dict)
    short: dict[SplitId, tuple[int, int, int, int]] = field(default_factory=dict)
    ids: TopicIds = field(default_factory=TopicIds)
    leaving: dict[str, bool] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    discoveries: dict[str, int] = field(default_factory=dict)
    observed: dict[str, int] = field(default_factory=dict)
    read: ReadParts = field(default_factory=ReadParts)

    expected: list[tuple[Loss, bool]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    void: bool = False
    renamed: tuple[str, str] | None = None
    uncompared: Mapping[SplitId, int] = field(default_factory=dict)

    def expect_nothing(self) -> None:
        """The event that comes is to be reported by nothing."""
        self.expected, self.refused, self.void, self.renamed = [], (), False, None

    def asked_ms(self, asked: Asked) -> int:
        """When an answer was asked for."""
        now_ms = self.now_ms or 0
        return now_ms if asked.at_ms is None else min(asked.at_ms, now_ms)

    def lose(self, loss: Loss, *, settled: bool = False) -> bool:
        """Whether reading goes on without what was lost."""
        fatal = self.loss == "fail" and not settled
        self.expected.append((loss, fatal))
        return not fatal

    def is_gone(self, key: SplitId | str, *, unwanted: bool = False) -> bool:
        """Two complete answers in a row lack it, the last one a discovery interval or more after the first.

        `unwanted`: answers of the metadata, which says what is to be read, rather than of the cluster.
        """
        kept: Mapping[Any, Missed] = self.unwanted if unwanted else self.missing
        one = kept.get(key)
        return one is not None and one.times > 1 and one.turned and one.last_ms - one.since_ms >= self.interval_ms

    def begin(self, split: SplitId, offset: int) -> None:
        self.begun += 1
        self.marks[split], self.runs[split] = offset, (self.begun, offset)
        self.one_log.epochs.pop(split, None)

    def is_log_doubted(self, key: SplitId, split: Split | None) -> bool:
        """Whether what is said of the log of a split may be about another topic."""
        if self.ids.is_doubted(key):
            return True
        # A split that was read to its stop is not taken up again, whatever is listed.
        former = self.ids.former.get((key.cluster, key.topic), {})
        return self.known.get(key, "") in former and not (split is not None and split.finished)

    def is_of(self, topic_ids: Mapping[SplitId, str], split: SplitId) -> bool:
        told, known = topic_ids.get(split, ""), self.known[split]
        return not told or not known or told == known
