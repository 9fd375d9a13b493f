"""`evensplit plan`: who would read what, from clusters as they are now, or from a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evensplit.checkpoint.offset_log import read_offset_log
from evensplit.cli.assign.plan_tables import comparison, one_plan
from evensplit.cli.assign.whatif import Plan, Present, Terms, compared, plan_of
from evensplit.cli.live.cluster_partitions import NAMING, clusters_now, look_at, names_clusters, present_of
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.usage import end_with, ending, form_option, options_of, source_options, wrong_options
from evensplit.core.assign import POLICIES
from evensplit.core.model import Cluster
from evensplit.core.state.settings import REBALANCES, SCOPES
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.split_history import BatchEnd
from evensplit.spark.driver.fleet_clusters import clusters_in
from evensplit.spark.options.parse import SourceOptions, parse_options

ELSEWHERE = {"metadata": "checkpoint"}
"""In place of options that name clusters, where a checkpoint does."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command is asked for. `said`: the options, `kept`: the checkpoint's last batch, if there is one."""

    said: Mapping[str, str]
    options: SourceOptions
    kept: BatchEnd | None

    @property
    def state(self) -> EnumeratorState:
        """Where the query stands; nothing yet without a checkpoint."""
        return EnumeratorState() if self.kept is None else self.kept.state


@click.command(
    epilog=ending(
        "the plan was printed",
        "the checkpoint cannot be read, a cluster that was asked does not answer (with CHECKPOINT, the plan is printed "
        "then, with what is known of it), or without CHECKPOINT a topic does not exist",
        "evensplit plan -o kafka.bootstrap.servers=broker:9092 -o subscribe=orders",
        "evensplit plan -o metadata=clusters.yaml --readers 8 --compare",
        "evensplit plan /checkpoints/orders --readers 12",
    )
)
@click.argument("checkpoint", type=click.Path(path_type=Path), required=False)
@source_options
@click.option("--source", metavar="SOURCE", help="Of CHECKPOINT: the source of the query, if it has several.")
@click.option("--readers", metavar="N", help="How many readers. Default: as in CHECKPOINT, else the processors here.")
@click.option("--policy", type=click.Choice(POLICIES), help="How splits are given to readers. Default: as it is.")
@click.option("--assign-scope", type=click.Choice(SCOPES), help="What is balanced: all clusters together, or each.")
@click.option("--rebalance", type=click.Choice(REBALANCES), help="When splits that have an owner may move.")
@click.option("--pin", metavar="JSON", help='Which readers may read what, such as {"0-3": ["east"]}.')
@click.option("--lag", is_flag=True, help="With CHECKPOINT alone: ask its clusters what they have now.")
@click.option("--compare", is_flag=True, help="All policies beside each other, in numbers.")
@form_option
def plan(
    checkpoint: Path | None,
    given: tuple[str, ...],
    source: str | None,
    readers: str | None,
    policy: str | None,
    assign_scope: str | None,
    rebalance: str | None,
    pin: str | None,
    lag: bool,
    compare: bool,
    form: str,
) -> None:
    """Show who would read what, and change nothing.

    What there is to be read comes from live clusters, named by -o as in a query (a metadata file is -o metadata=FILE),
    or from CHECKPOINT, the checkpointLocation of a query, which may be running; then no broker is asked. With both,
    clusters are asked, and owners and positions are those of CHECKPOINT.

    Options that are left out are as in CHECKPOINT. Moves are counted from the owners there.
    """
    flags = {"readers": readers, "policy": policy, "assignScope": assign_scope, "rebalance": rebalance, "pin": pin}
    said = _with_flags(options_of(given), flags)
    live = names_clusters(said)
    if checkpoint is None and not live:
        raise click.UsageError(
            "nothing says what is to be read; expected CHECKPOINT, or one of "
            + ", ".join(f"-o {name}" for name in NAMING)
        )
    if checkpoint is None and (source is not None or lag):
        raise click.UsageError("--source and --lag are for a CHECKPOINT; leave them out, or name one")
    kept = None if checkpoint is None else _last(checkpoint, source)
    asked = _asked(said, kept, live=live)
    present, terms = _present(asked, live=live, lag=lag), _terms(asked)
    if not asked.state.readers and "readers" not in map(str.lower, said):
        here = f"{terms.readers} readers are as many as this machine has processors; --readers says how many there are"
        present = replace(present, notes=(*present.notes, here))
    with wrong_options():
        plans = compared(present, terms, POLICIES) if compare else {terms.policy: plan_of(present, terms)}
    if form == "json":
        click.echo(json.dumps(_plain(checkpoint, present, terms, plans), indent=1))
    elif compare:
        Console().print(comparison(present, terms, plans))
    else:
        Console().print(one_plan(present, plans[terms.policy]))
    end_with(not present.unanswered)


def _asked(said: Mapping[str, str], kept: BatchEnd | None, *, live: bool) -> _Asked:
    """The options, understood. Raises click.UsageError for wrong ones."""
    state = EnumeratorState() if kept is None else kept.state
    given = dict(said) if live else {**said, **ELSEWHERE}
    if "readers" not in map(str.lower, given):
        # Which pins make sense depends on it.
        given["readers"] = str(state.readers or _processors())
    with wrong_options():
        options = parse_options(given)
    pinned = {one.id if isinstance(one, Cluster) else one.cluster for able in options.pins.values() for one in able}
    strange = [] if live else sorted(pinned.difference(state.clusters))
    if strange:
        known = ", ".join(state.clusters) or "none"
        raise click.UsageError(
            f"pin names clusters that the checkpoint does not have: {', '.join(strange)}; it has {known}"
        )
    return _Asked(said, options, kept)


def _with_flags(said: Mapping[str, str], flags: Mapping[str, str | None]) -> Mapping[str, str]:
    """The options, with those that have flags of their own."""
    twice = [name for name in said if any(flag.lower() == name.lower() and value for flag, value in flags.items())]
    if twice:
        raise click.UsageError(f"-o {' and -o '.join(twice)} is given, and the flag of that name too; expected one")
    return {**said, **{name: value for name, value in flags.items() if value is not None}}


def _last(checkpoint: Path, source: str | None) -> BatchEnd:
    log = read_offset_log(checkpoint)
    if source is not None:
        check_source(source, log.sources, "--source")
    elif len(log.sources) > 1:
        raise click.UsageError(f"the query has the sources {', '.join(log.sources)}; say which, with --source")
    return log.outermost(source or log.sources[0])[1]


def _present(asked: _Asked, *, live: bool, lag: bool) -> Present:
    state, options = asked.state, asked.options
    notes: list[str] = []
    if not live and not lag:
        return present_of(state)
    if live:
        clusters, missing = clusters_now(options, state)
        notes.extend(missing)
        return present_of(state, look_at(clusters, state), notes=notes)
    clusters = clusters_in(state, options.common)
    found = present_of(state, look_at(clusters, state), notes=notes)
    unasked = {split.id.cluster for split in state.load()} - {one.id for one in clusters}
    if not unasked:
        return found
    alone = [split.id for split in state.load() if split.id.cluster in unasked]
    owners = {**found.owners, **{key: owner for key in alone if (owner := state.splits[key].owner) is not None}}
    said = f"the checkpoint does not say where {', '.join(sorted(unasked))} is, so it was not asked"
    behind = {**found.behind, **dict.fromkeys(alone)}
    splits = tuple(sorted((*found.splits, *alone)))
    return replace(found, splits=splits, owners=owners, behind=behind, notes=(*found.notes, said))


def _terms(asked: _Asked) -> Terms:
    """What the options say, and the checkpoint where they do not."""
    options, state = asked.options, asked.state
    given = {name.lower() for name in asked.said}
    settings = state.settings
    has = asked.kept is not None
    return Terms(
        options.readers or _processors(),
        settings.policy if has and "policy" not in given else options.settings.policy,
        settings.scope if has and "assignscope" not in given else options.settings.scope,
        settings.rebalance if has and "rebalance" not in given else options.settings.rebalance,
        dict(state.eligible) if has and "pin" not in given else options.pins,
    )


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plain(checkpoint: Path | None, present: Present, terms: Terms, plans: Mapping[str, Plan]) -> dict[str, Any]:
    return {
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "splits": len(present.splits),
        "readers": terms.readers,
        "readersNow": present.readers or None,
        "rebalance": terms.rebalance,
        "asked": bool(present.behind),
        "lag": {str(split): behind for split, behind in present.behind.items()},
        "notes": list(present.notes),
        "plans": [one.to_json(present.behind) for one in plans.values()],
    }
