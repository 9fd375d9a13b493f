"""How assignments look on a terminal, and what they are worth in numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evensplit.cli.assign.cases import Case
from evensplit.cli.usage import cell
from evensplit.core.assign import Assignment, Certificate
from evensplit.core.model import SplitId
from evensplit.core.text import plain

MEMBERS_MAX = 100
"""So many members are shown; JSON has them all."""
RUNS_MAX = 24
"""So many runs of partitions are shown of one member."""
LOADS_MAX = 4
"""So many different loads are shown in a summary."""
BRIEF_FROM = 10_000_000
"""From here on numbers that stand beside many others are rounded."""
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


def one_case(case: Case, assignment: Assignment) -> RenderableType:
    """Who has what, and what is proven about it."""
    previous = case.previous()
    owned: dict[str, list[SplitId]] = {member: [] for member in case.members}
    for split, member in assignment.owner.items():
        owned[str(member)].append(split)
    table = Table(title=Text(case.id, "bold"), title_justify="left", box=SIMPLE)
    table.add_column("member", overflow="fold")
    table.add_column("load", justify="right")
    if previous:
        for heading in ("kept", "moved here", "new"):
            table.add_column(heading, justify="right")
    table.add_column("partitions", overflow="fold", ratio=1)
    for member, splits in list(owned.items())[:MEMBERS_MAX]:
        before = Counter("new" if split not in previous else previous[split] == member for split in splits)
        counts = [cell(before[kind]) for kind in (True, False, "new")] if previous else []
        table.add_row(Text(member), f"{len(splits):,}", *counts, compressed(splits))
    parts: list[RenderableType] = [table]
    if len(owned) > MEMBERS_MAX:
        parts.append(Text(f"… and {len(owned) - MEMBERS_MAX:,} more members; --format json has all of them"))
    if assignment.unassigned:
        unread = Text("No member may read: ", "yellow")
        parts.append(unread.append_text(compressed(assignment.unassigned)))
    parts.append(_proof(assignment))
    return Group(*parts)


def compressed(splits: Sequence[SplitId]) -> Text:
    """Partitions by topic, neighbours joined: `orders 0-3,7  clicks 2`. A long list ends with how many are left out.

    A topic is behind its cluster, where that has a name: `east/orders 0-3`.
    """
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for split in sorted(splits):
        by_topic[f"{split.cluster}/{split.topic}" if split.cluster else split.topic].append(split.partition)
    text, room, shown = Text(), RUNS_MAX, 0
    for topic, numbers in by_topic.items():
        if not room:
            break
        found = runs(numbers)[:room]
        room -= len(found)
        shown += sum(last - first + 1 for first, last in found)
        names = ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)
        text.append("  " if text else "").append(plain(topic), "cyan").append(f" {names}")
    if shown < len(splits):
        text.append(f"  … {len(splits) - shown:,} more", "dim")
    return text


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each row of neighbours; `numbers` ascend."""
    rows = groupby(enumerate(numbers), key=lambda place: place[1] - place[0])
    return [(row[0][1], row[-1][1]) for _, group in rows for row in [list(group)]]


def summary(policy: str, solved: Iterable[tuple[Case, Assignment]]) -> RenderableType:
    """Many cases, a line for each."""
    table = Table(box=SIMPLE, title_justify="left")
    table.add_column("case", overflow="fold")
    for heading in ("members", "partitions"):
        table.add_column(heading, justify="right")
    table.add_column("loads", overflow="fold")
    for heading in ("moved", "unread"):
        table.add_column(heading, justify="right")
    table.add_column("proven and checked", overflow="fold")
    even = moved = right = 0
    for case, assignment in solved:
        wrong = assignment.problems()
        even, right = even + assignment.certificate.even, right + (not wrong)
        moved += assignment.moved
        table.add_row(
            Text(case.id),
            cell(len(case.members)),
            cell(sum(case.topics.values())),
            _loads(assignment.loads.values()),
            cell(assignment.moved),
            cell(len(assignment.unassigned)),
            Text("; ".join(wrong), "bold red") if wrong else Text(_proven(assignment.certificate)),
        )
    count = table.row_count
    table.title = Text(f"{count:,} cases by {policy}", "bold")
    total = f"As even as possible: {even:,} of {count:,}. Moved: {moved:,}. Certificates that hold: {right:,}."
    return Group(table, Text(total))


def _proven(certificate: Certificate) -> str:
    """The statement of a certificate, short enough for a line."""
    if not certificate.even:
        return f"+{certificate.gap:.0%} largest load" if certificate.gap else "less even"
    return "even, fewest moves" if certificate.fewest_moves else "even"


def comparison(case: Case, by_policy: Mapping[str, Score]) -> RenderableType:
    """All policies on one case."""
    table = _comparison_table(case.id)
    for policy, one in by_policy.items():
        table.add_row(*_comparison_row(policy, one, by_policy["balanced"]))
    return table


def comparison_of_many(compared: Sequence[tuple[Case, Mapping[str, Score]]]) -> RenderableType:
    """All policies on each of many cases, and what that comes to."""
    table = _comparison_table(f"{len(compared)} cases", "case")
    for case, by_policy in compared:
        for policy, one in by_policy.items():
            name = Text(case.id if policy == next(iter(by_policy)) else "")
            table.add_row(name, *_comparison_row(policy, one, by_policy["balanced"]))
        table.add_section()
    total = Table(title=Text("Together", "bold"), title_justify="left", box=SIMPLE)
    total.add_column("policy")
    for heading in (OPTIMAL, "as even", "less even", "largest spread", "moved"):
        total.add_column(heading, justify="right")
    for policy in compared[0][1]:
        mine = [(by_policy[policy], by_policy["balanced"]) for _, by_policy in compared]
        even = sum(one.squares == best.squares for one, best in mine)
        best = sum(one.beside(best) == OPTIMAL for one, best in mine)
        spread, moved = max(one.spread for one, _ in mine), sum(one.moved for one, _ in mine)
        total.add_row(policy, *(cell(count) for count in (best, even - best, len(mine) - even, spread, moved)))
    return Group(table, total)


def _comparison_table(title: str, *first: str) -> Table:
    table = Table(title=Text(title, "bold"), title_justify="left", box=SIMPLE)
    for heading in first:
        table.add_column(heading, overflow="fold")
    table.add_column("policy", no_wrap=True)
    for heading in ("spread", "moved", "topic\nspread", "balance\nscore", "sum of\nsquares"):
        table.add_column(heading, justify="right")
    table.add_column("optimal,\nor the gap", no_wrap=True)
    return table


def _comparison_row(policy: str, one: Score, best: Score) -> tuple[RenderableType, ...]:
    beside = one.beside(best)
    numbers = (one.spread, one.moved, one.topic_spread, one.balance_score, one.squares)
    return policy, *(_brief(number) for number in numbers), Text(beside, "green" if beside == OPTIMAL else "")


def _proof(assignment: Assignment) -> Text:
    wrong = assignment.problems()
    if wrong:
        return Text("The certificate is wrong: " + "; ".join(wrong), "bold red")
    return Text(f"Proven: {assignment.certificate.statement()}.", "green")


def _loads(loads: Iterable[int]) -> str:
    """`3 x 2, 1 x 1`: how many members have which load, the largest first."""
    counts = sorted(Counter(loads).items(), reverse=True)
    shown = ", ".join(f"{times:,} x {load:,}" for load, times in counts[:LOADS_MAX])
    return shown if len(counts) <= LOADS_MAX else f"{shown}, … {counts[-1][0]:,}"


def _brief(number: int) -> str:
    return f"{number:,}" if number < BRIEF_FROM else f"{number:.3e}"
