"""How plans look on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evensplit.cli.assign.assign_tables import MEMBERS_MAX, compressed
from evensplit.cli.assign.whatif import Plan, Present, Terms, lag_of
from evensplit.cli.usage import cell
from evensplit.core.model import SplitId
from evensplit.core.state.settings import ALWAYS, PER_CLUSTER
from evensplit.core.text import counted, plain, some

STATEMENTS_MAX = 10
"""So many clusters, each balanced on its own, have a sentence each."""

MOVES_MAX = 20
"""So many pairs of readers, between which splits move, have a line each."""


def one_plan(present: Present, plan: Plan) -> RenderableType:
    """Who would read what, what would move, and what is proven."""
    owners = present.owners
    owned: dict[int, list[SplitId]] = {reader: [] for reader in plan.loads}
    for split, reader in plan.owner.items():
        owned[reader].append(split)
    lag, arrived = lag_of(plan.owner, present.lag), Counter(move.target for move in plan.moves)
    table = Table(title=Text(_title(present, plan.terms), "bold"), title_justify="left", box=SIMPLE)
    table.add_column("reader", justify="right")
    table.add_column("partitions", justify="right")
    headings = (*(("moved here", "new") if owners else ()), *(("lag",) if present.found is not None else ()))
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("which", overflow="fold", ratio=1)
    for reader, splits in list(owned.items())[:MEMBERS_MAX]:
        new = sum(split not in owners for split in splits)
        moved = (cell(arrived[reader]), cell(new)) if owners else ()
        behind = (cell(lag.get(reader, 0)),) if present.found is not None else ()
        table.add_row(cell(reader), cell(len(splits)), *moved, *behind, compressed(splits))
    parts: list[RenderableType] = [table]
    if len(owned) > MEMBERS_MAX:
        parts.append(Text(f"… and {len(owned) - MEMBERS_MAX:,} more readers; --format json has all of them"))
    if plan.unassigned:
        parts.append(Text("No reader may read: ", "yellow").append_text(compressed(plan.unassigned)))
    if owners:
        parts.extend(_moves(plan))
    parts.extend(_proofs(plan))
    if plan.terms.rebalance != ALWAYS and owners:
        parts.append(Text(f"With rebalance={plan.terms.rebalance}, partitions keep their owner where they may."))
    parts.extend(Text(f"Note: {plain(note)}") for note in present.notes)
    return Group(*parts)


def comparison(present: Present, terms: Terms, plans: Mapping[str, Plan]) -> RenderableType:
    """All policies beside each other."""
    table = Table(title=Text(_title(present, terms, named=False), "bold"), title_justify="left", box=SIMPLE)
    table.add_column("policy", no_wrap=True)
    for heading in ("least", "most", "spread", "moves", "of these\nforced", "busiest\nlag")[
        : 6 if present.found is not None else 5
    ]:
        table.add_column(heading, justify="right")
    table.add_column("even", no_wrap=True)
    for policy, plan in plans.items():
        lags = [lag for lag in lag_of(plan.owner, present.lag).values() if lag is not None]
        behind = (cell(max(lags, default=None)),) if present.found is not None else ()
        table.add_row(
            Text(policy, "bold" if policy == terms.policy else ""),
            cell(plan.load_min),
            cell(plan.load_max),
            cell(plan.load_max - plan.load_min),
            cell(len(plan.moves)),
            cell(len(plan.moves) - plan.free_moves),
            *behind,
            Text("yes", "green") if plan.even else Text("no", "yellow"),
        )
    proofs: list[Text] = [Text("Proven:")]
    for policy, plan in plans.items():
        shown = some(plan.statements(), STATEMENTS_MAX, "; ")
        proofs.append(Text(f"  {policy:12}{plain(shown)}", "" if plan.even else "yellow"))
    return Group(table, *proofs, *(Text(f"Note: {plain(note)}") for note in present.notes))


def _title(present: Present, terms: Terms, *, named: bool = True) -> str:
    now = ""
    if present.before.readers and present.before.readers != terms.readers:
        now = f" (now {present.before.readers:,})"
    by = f" by {terms.policy}" if named else ""
    scope = ", each cluster on its own" if terms.scope == PER_CLUSTER else ""
    return f"{counted(len(present.splits), 'partition')} to {counted(terms.readers, 'reader')}{now}{by}{scope}"


def _moves(plan: Plan) -> list[Text]:
    """What would move, a line for each two readers."""
    if not plan.moves:
        return [Text("Nothing moves.")]
    forced = len(plan.moves) - plan.free_moves
    because = f", {forced:,} of them since their reader is gone or may not read them" if forced else ""
    lines = [Text(f"{counted(len(plan.moves), 'partition')} would move{because}:")]
    pairs: dict[tuple[int, int], list[SplitId]] = {}
    for move in plan.moves:
        pairs.setdefault((move.source, move.target), []).append(move.split)
    for (source, target), splits in list(pairs.items())[:MOVES_MAX]:
        lines.append(Text(f"  from reader {source} to reader {target}: ").append_text(compressed(splits)))
    if len(pairs) > MOVES_MAX:
        lines.append(Text(f"  … and between {len(pairs) - MOVES_MAX:,} more pairs of readers"))
    return lines


def _proofs(plan: Plan) -> list[Text]:
    said = plan.statements()
    style = "green" if plan.even else ""
    lines = [Text(f"Proven: {plain(one)}.", style) for one in said[:STATEMENTS_MAX]]
    if len(said) > STATEMENTS_MAX:
        lines.append(Text(f"… and {len(said) - STATEMENTS_MAX:,} more clusters; --format json has all of them"))
    return lines
