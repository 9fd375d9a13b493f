"""What an assignment is worth in numbers, for comparing policies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from evensplit.cli.assign.cases import Case
from evensplit.core.assign import Assignment

OPTIMAL = "optimal"


@dataclass(frozen=True, slots=True)
class Score:
    """Lower is better, everywhere.

    `spread`: the largest load less the smallest. `moved`: splits taken from a member that could have kept them.
    `topic_spread`: the same as `spread`, for the topic where it is largest, between the members that may read it.
    `balance_score`: KIP-54's, the sum of the differences of all pairs of loads. `squares`: the sum of the loads'
    squares, which is least for the most even loads that eligibility allows. `unassigned`: splits that nobody may read.
    """

    spread: int
    moved: int
    topic_spread: int
    balance_score: int
    squares: int
    unassigned: int

    def to_json(self) -> dict[str, Any]:
        """As JSON's own types."""
        return asdict(self)

    def beside(self, optimum: Score) -> str:
        """How far it is from the most even loads with the fewest moves: first in the squares, then in moves."""
        if self.squares > optimum.squares:
            return f"+{self.squares / optimum.squares - 1:.1%} squares"
        if self.moved > optimum.moved:
            return f"+{self.moved - optimum.moved:,} moved"
        return OPTIMAL


def score(case: Case, assignment: Assignment) -> Score:
    """The numbers of one assignment of a case."""
    loads = sorted(assignment.loads.values())
    return Score(
        spread=loads[-1] - loads[0],
        moved=assignment.moved,
        topic_spread=_topic_spread(case, assignment),
        balance_score=balance_score(loads),
        squares=sum(load * load for load in loads),
        unassigned=len(assignment.unassigned),
    )


def balance_score(loads: Iterable[int]) -> int:
    """KIP-54's score: the differences of all pairs of loads, added up; 0 if all are equal."""
    ordered = sorted(loads)
    # The load at place i is above i others and below the rest.
    return sum(load * (2 * place - len(ordered) + 1) for place, load in enumerate(ordered))


def _topic_spread(case: Case, assignment: Assignment) -> int:
    counts = Counter((split.topic, member) for split, member in assignment.owner.items())
    held: defaultdict[str, list[int]] = defaultdict(list)
    for member, topics in case.eligible().items():
        for topic in topics:
            held[topic.name].append(counts[topic.name, member])
    return max((max(loads) - min(loads) for loads in held.values()), default=0)
