"""`evensplit plan`: the assignment that a query would get, from live clusters or from a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from evensplit.checkpoint.offset_log import read_offset_log
from evensplit.checkpoint.places.place import Place
from evensplit.cli.assign.plan_tables import comparison, one_plan
from evensplit.cli.assign.whatif import Plan, Present, Terms, compared, plan_of
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.live.next_batch import NAMING, names_clusters, observe
from evensplit.cli.usage import (
    PLACE,
    end_with,
    ending,
    form_option,
    new_console,
    options_of,
    source_options,
    wrong_options,
)
from evensplit.core.model import Cluster
from evensplit.core.policies import POLICIES
from evensplit.core.state.settings import REBALANCES, SCOPES, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.split_history import BatchEnd
from evensplit.spark.options.parse import SourceOptions, parse_options

ELSEWHERE = {"metadata": "checkpoint"}
"""Stands in for the options that name clusters if the checkpoint names them."""


@click.command(
    epilog=ending(
        "the plan was printed",
        "the checkpoint cannot be read; a cluster does not answer (with CHECKPOINT, the plan is printed all the same); "
        "or, without CHECKPOINT, a topic does not exist",
        "evensplit plan -o kafka.bootstrap.servers=broker:9092 -o subscribe=orders",
        "evensplit plan -o metadata=clusters.yaml --readers 8 --compare",
        "evensplit plan /checkpoints/orders --readers 12",
    )
)
@click.argument("checkpoint", type=PLACE, required=False)
@source_options
@click.option("--source", metavar="SOURCE", help="The source in CHECKPOINT, if the query has several.")
@click.option(
    "--readers", metavar="N", help="The number of readers. Default: as in CHECKPOINT, else the CPUs of this machine."
)
@click.option(
    "--policy", type=click.Choice(POLICIES), help="The assignment policy. Default: as in CHECKPOINT, else balanced."
)
@click.option("--assign-scope", type=click.Choice(SCOPES), help="Balance all clusters together, or each on its own.")
@click.option("--rebalance", type=click.Choice(REBALANCES), help="When partitions may move to another reader.")
@click.option("--pin", metavar="JSON", help='The clusters or topics that readers may read, as {"0-3": ["east"]}.')
@click.option("--lag", is_flag=True, help="With CHECKPOINT and no -o for clusters: ask the clusters in the checkpoint.")
@click.option("--compare", is_flag=True, help="Compare all policies in numbers.")
@form_option
def plan(
    checkpoint: Place | None,
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
    """Show the assignment that a query would get.

    Nothing is changed. The partitions come from live clusters, which -o names as in a query (for a metadata file: -o
    metadata=FILE), or from CHECKPOINT, the checkpointLocation of a query (a path, or a URL as s3a://bucket/orders),
    which may be running; then no broker is asked. With both, the clusters are asked, and the query goes on from the
    owners and positions in CHECKPOINT.

    Options that are left out are as in CHECKPOINT. Moves are counted from the owners there.
    """
    flags = {"readers": readers, "policy": policy, "assignScope": assign_scope, "rebalance": rebalance, "pin": pin}
    said = _with_flags(options_of(given), flags)
    live = names_clusters(said)
    if checkpoint is None and not live:
        raise click.UsageError(
            "no partitions to plan for; expected CHECKPOINT, or one of " + ", ".join(f"-o {name}" for name in NAMING)
        )
    if checkpoint is None and (source is not None or lag):
        raise click.UsageError("--source and --lag are for a CHECKPOINT; leave them out, or give one")
    kept = None if checkpoint is None else _last(checkpoint, source)
    state = EnumeratorState() if kept is None else kept.state
    options = _parsed(said, state, live=live)
    terms = _terms(said, options, kept)
    present = Present(state)
    if live or lag:
        seen = observe(options, state, terms.readers, named=live)
        present = Present(state, seen.state, seen.latest, seen.notes, seen.unanswered)
    if not state.readers and "readers" not in map(str.lower, said):
        here = f"{terms.readers} readers: one per CPU of this machine; set --readers for another number"
        present = replace(present, notes=(*present.notes, here))
    plans = compared(present, terms, POLICIES) if compare else {terms.policy: plan_of(present, terms)}
    if form == "json":
        click.echo(json.dumps(_plain(checkpoint, present, terms, plans), indent=1))
    elif compare:
        new_console().print(comparison(present, terms, plans))
    else:
        new_console().print(one_plan(present, plans[terms.policy]))
    end_with(not present.unanswered)


def _parsed(said: Mapping[str, str], state: EnumeratorState, *, live: bool) -> SourceOptions:
    """Parse the options. Raises click.UsageError."""
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
    return options


def _with_flags(said: Mapping[str, str], flags: Mapping[str, str | None]) -> Mapping[str, str]:
    """Add the flags to the options. Raises click.UsageError for an option given in both ways."""
    twice = [name for name in said if any(flag.lower() == name.lower() and value for flag, value in flags.items())]
    if twice:
        raise click.UsageError(f"-o {' and -o '.join(twice)} is given, and the flag of that name too; expected one")
    return {**said, **{name: value for name, value in flags.items() if value is not None}}


def _last(checkpoint: Place, source: str | None) -> BatchEnd:
    log = read_offset_log(checkpoint)
    if source is not None:
        check_source(source, log.sources, "--source")
    elif len(log.sources) > 1:
        raise click.UsageError(f"the query has the sources {', '.join(log.sources)}; say which, with --source")
    return log.outermost(source or log.sources[0])[1]


def _terms(said: Mapping[str, str], options: SourceOptions, kept: BatchEnd | None) -> Terms:
    """The terms of the options; those of the checkpoint for options that are left out."""
    given = {name.lower() for name in said}

    def settings_for(option: str) -> Settings:
        return options.settings if kept is None or option in given else kept.state.settings

    return Terms(
        options.readers or _processors(),
        settings_for("policy").policy,
        settings_for("assignscope").scope,
        settings_for("rebalance").rebalance,
        options.pins if kept is None or "pin" in given else dict(kept.state.eligible),
    )


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plain(checkpoint: Place | None, present: Present, terms: Terms, plans: Mapping[str, Plan]) -> dict[str, Any]:
    return {
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "splits": len(present.splits),
        "readers": terms.readers,
        "readersNow": present.before.readers or None,
        "rebalance": terms.rebalance,
        "asked": present.found is not None,
        "lag": {str(split): lag for split, lag in present.lag.items()},
        "notes": list(present.notes),
        "plans": [one.to_json(present.lag) for one in plans.values()],
    }
