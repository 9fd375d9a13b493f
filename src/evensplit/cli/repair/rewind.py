"""`evensplit rewind`: let a query read again from an earlier place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from evensplit.checkpoint.edits import is_made_by_edit, streams
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import Stand
from evensplit.cli.live.connection_options import check_whose, kafka_options, reaching, said_of, servers_of
from evensplit.cli.live.known_logs import ask_known
from evensplit.cli.live.log_ends import connected, settings_of
from evensplit.cli.repair.edit.finish import finish
from evensplit.cli.repair.edit.making import make_edit, newest_states
from evensplit.cli.repair.edit.options import checkpoint_argument, editing
from evensplit.cli.repair.edit.outcome import Outcome, begin
from evensplit.cli.repair.scope import SCOPE_METAVAR, Scope, meant, parse_scopes
from evensplit.cli.repair.where import (
    PLANNED,
    SHOWN_MAX,
    Aim,
    Where,
    aim_by_cluster,
    first_planned,
    kept_ends,
    moment,
    parse_where,
    targets_of_offsets,
)
from evensplit.cli.usage import ending
from evensplit.core.model import Readable, SplitId, scopes, topic_names
from evensplit.core.repair.edit import OpenBatch, rewind
from evensplit.core.repair.places import rewindable, targets_of_batch, targets_since, within
from evensplit.core.state.offset_strategies import Ago, AtTime
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, some
from evensplit.errors import ClusterError, EditRefused
from evensplit.kafka.options.client import ClientSettings
from evensplit.times import time_of

ONLY_MAX = 20
"""So many `--only` are kept in the record of the edit."""


@click.command(
    "rewind",
    epilog=ending(
        "edited; or, without --yes, nothing prevents it",
        "refused or failed, as where a cluster does not answer; nothing was written",
        "evensplit rewind /checkpoints/orders --to 2h",
        "evensplit rewind /checkpoints/orders --to 2025-01-31T12:00:00Z --yes",
        "evensplit rewind /checkpoints/orders --to planned:40m",
        "evensplit rewind /checkpoints/orders --to batch:120 --only orders",
    ),
)
@checkpoint_argument
@click.option(
    "--to",
    "where",
    required=True,
    metavar="[planned:]AGE|[planned:]TIME|earliest|group:NAME|batch:N|OFFSETS",
    callback=parse_where,
    help="Where to go back to, in one of the forms above.",
)
@click.option(
    "--only",
    multiple=True,
    metavar=SCOPE_METAVAR,
    callback=parse_scopes,
    help="Only this. CLUSTER can be left out if only one has such a topic or partition. Repeatable.",
)
@editing
@reaching
def rewind_command(
    checkpoint: Place,
    where: Where,
    only: tuple[Scope, ...],
    chosen: tuple[str, ...],
    servers: tuple[str, ...],
    options: tuple[str, ...],
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """Read again from an earlier place.

    CHECKPOINT is the checkpointLocation of a query that has ended. Partitions that have not come as far as --to stay
    where they are: nothing is skipped. For times of records, groups and earliest, the clusters are asked, at the
    servers in the checkpoint or those of --bootstrap-servers. Batches keep their numbers, so sinks that know batches by
    them take what is read again for new.

    \b
    --to is one of
      2h, 30m, 1d, 90s              that long ago, by the timestamps of records
      2025-01-31T12:00:00Z          that time, with its zone
      1738324800000                 the same in milliseconds since 1970
      planned:40m                   where the first batch planned since then began
      planned:2025-01-31T12:00:00Z  the same since that time, or milliseconds
      earliest                      where the logs begin
      group:NAME                    where a consumer group stands
      batch:N                       where batch N began, of those that are kept
      {"orders":{"0":120}}          offsets, as `evensplit offsets` prints them
      file:/path                    such offsets, read from a file
    """
    outcome = begin(checkpoint, "rewind", _said(where, only))
    these = _meant(only, [*newest_states(outcome, chosen).values()])
    sources = streams(outcome.checkpoint)
    places, settings = said_of(servers, sources, "--bootstrap-servers"), kafka_options(options, sources)
    offsets = _offset_targets(outcome, where, these, chosen)
    why = [*outcome.notes]

    def make(source: str, batch: OpenBatch) -> EnumeratorState | None:
        wanted = within(rewindable(batch.end), these)
        if not wanted and len(sources) > 1:
            return None
        aim = Aim(dict(offsets.get(source, {})))
        _take_aim(outcome, aim, source, batch, where, wanted, places.get(source, ""), settings[source])
        ahead = [key for key, to in aim.targets.items() if (batch.end.splits[key].position or 0) > to]
        why.extend([*aim.stay.values(), *outcome.obstacles])
        if why and aim.targets and not ahead:
            why.append("no other partition is beyond the place to rewind to")
        if (aim.since or where.planned) and not ahead:
            why.extend([aim.meant, *_first_of(aim), *_hint(where)])
        if not ahead and (why or len(sources) > 1):
            outcome.notes.append(f"Source {source} stays as it is: nothing of it is beyond the place to rewind to")
            return None
        outcome.notes.extend([*aim.notes, *aim.stay.values()])
        left = len(wanted) - len(ahead)
        if ahead and left:
            outcome.notes.extend(_hint(where))
            stay = "stays where it is" if left == 1 else "stay where they are"
            of_source = f" of source {source}" if len(sources) > 1 else ""
            outcome.notes.append(f"{counted(left, 'partition')}{of_source} {stay}")
        return rewind(batch, aim.targets, outcome.told)

    make_edit(outcome, chosen, make)
    if not outcome.states:
        said = "; ".join(dict.fromkeys(why)) or "no partition is beyond the place to rewind to; see `evensplit offsets`"
        raise EditRefused(f"nothing goes back: {said}")
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)


def _said(where: Where, only: Sequence[Scope]) -> str:
    """The options for the state of the query, which has to stay small."""
    shown = [f"--only {one}" for one in only[:ONLY_MAX]]
    more = [f"(… {len(only)} in all)"] if len(only) > ONLY_MAX else []
    return " ".join([f"--to {where}", *shown, *more])


def _meant(only: Sequence[Scope], states: Sequence[EnumeratorState]) -> list[Readable]:
    """What `--only` names. Raises EditRefused for what is in several clusters, or of which nothing is read."""
    these = meant(only, states)
    there = [key for state in states for key in rewindable(state)]
    read = {scope for key in there for scope in scopes(key)}
    empty = [str(scope) for scope, one in zip(only, these, strict=True) if one not in read]
    if empty:
        reads = some(topic_names(there))
        raise EditRefused(f"--only names {', '.join(empty)}, of which the query reads nothing; it reads {reads}")
    return these


def _offset_targets(
    outcome: Outcome, where: Where, only: Sequence[Readable], chosen: Sequence[str]
) -> Mapping[str, Mapping[SplitId, int]]:
    """Source -> where the offsets that were said lead, and a note of what is left out. Raises EditRefused."""
    read = {source: rewindable(state) for source, state in outcome.checkpoint.newest.ours.items()}
    wanted = {source: within(keys, only) for source, keys in read.items() if not chosen or source in chosen}
    found = targets_of_offsets(where.offsets or (), read, wanted)
    may_be = frozenset(key for source in wanted for key in read[source])
    for option, keys in (
        ("--only", [str(key) for key in found.left_out if key in may_be]),
        ("--source", [str(key) for key in found.left_out if key not in may_be]),
    ):
        if keys:
            outcome.notes.append(f"{option} leaves out {some(keys)}")
    return found.targets


def _take_aim(
    outcome: Outcome,
    aim: Aim,
    source: str,
    batch: OpenBatch,
    where: Where,
    wanted: Sequence[SplitId],
    servers: str,
    options: Mapping[str, str],
) -> None:
    """Fill in where `wanted` are to go back to; offsets that were said are in `aim` already."""
    clusters = list(dict.fromkeys(key.cluster for key in (wanted if where.offsets is None else aim.targets)))
    stands = [Stand(source, name, batch.end.clusters[name].bootstrap_servers, {}) for name in clusters]
    check_whose(stands, {source: servers} if servers else {}, {source: options}, "--only")
    if where.strategy is not None:
        at_ms = moment(where.strategy, outcome.told.at_ms)
        if at_ms is not None:
            aim.meant = f"--to {where.text} is {time_of(at_ms)} UTC, by the timestamps of records"
            outcome.notes.append(aim.meant)
        for stand in stands:
            of_one = [key for key in wanted if key.cluster == stand.cluster]
            at = settings_of(servers_of(stand, servers), options)
            found = aim_by_cluster(batch.end, at, where.strategy, of_one, outcome.told.at_ms)
            aim.targets.update(found.targets)
            aim.stay.update(found.stay)
            aim.notes.extend(found.notes)
            aim.since.update(found.since)
        silent = [str(key) for key in wanted if key not in aim.targets and key not in aim.stay]
        if silent:
            outcome.obstacles.append(
                f"the logs of {some(silent)} are not known, as leaders do not answer, or there are none; rewind the "
                "others with --only"
            )
        return
    if where.batch is not None:
        aim.targets.update(targets_of_batch(where.batch, kept_ends(outcome.checkpoint, source), wanted))
    elif where.planned is not None:
        _take_planned(outcome, aim, source, where.text, moment(where.planned, outcome.told.at_ms) or 0, wanted)
    if servers:
        _compare(outcome, batch.end, aim, settings_of(servers, options))
    else:
        outcome.notes.append(
            "The logs were not asked whether they still have these offsets; --bootstrap-servers asks them. Where they "
            "do not, the query says so when it starts, as failOnDataLoss has it"
        )


def _take_planned(outcome: Outcome, aim: Aim, source: str, text: str, at_ms: int, wanted: Sequence[SplitId]) -> None:
    """Fill in where the batches since `at_ms` began to read."""
    checkpoint = outcome.checkpoint
    meant = f"--to {text} is {time_of(at_ms)} UTC"
    edited = is_made_by_edit(checkpoint, outcome.records)
    number, planned_ms = first_planned(checkpoint, at_ms, meant, edited=edited)
    first = f"batch {number}, of {time_of(planned_ms)} UTC"
    aim.meant = f"{meant}; the first batch that was planned since then is {first}"
    outcome.notes.append(aim.meant)
    before = next((one.text.planned_ms for one in checkpoint.batches if one.number == number - 1), None)
    if before is not None:
        outcome.notes.append(
            f"batch {number - 1} was planned before, at {time_of(before)} UTC: if it was done later, such as by a "
            f"program that was deployed in between, say --to batch:{number - 1}"
        )
    aim.targets.update(targets_since(number, kept_ends(checkpoint, source), wanted))


def _hint(where: Where) -> list[str]:
    """What else may have been meant by a time that does not lead back, or not all of what is read."""
    if not isinstance(where.strategy, Ago | AtTime):
        return []
    return [f"--to {PLANNED}{where.text.strip()} goes by when batches were planned"]


def _first_of(aim: Aim) -> list[str]:
    """Where the records of a time are, of the first partitions that nothing else is said of."""
    said = [text for key, text in aim.since.items() if key not in aim.stay]
    return said[:SHOWN_MAX] + ([f"… {len(said)} partitions in all"] if len(said) > SHOWN_MAX else [])


def _compare(outcome: Outcome, state: EnumeratorState, aim: Aim, settings: ClientSettings) -> None:
    """Let partitions go back only as far as the logs have something that is still of the same topic."""
    for cluster in dict.fromkeys(key.cluster for key in aim.targets):
        keys = [key for key in aim.targets if key.cluster == cluster]
        client = connected(cluster, settings)
        try:
            logs = ask_known(client, state, keys, settings)
        except ClusterError as error:
            outcome.notes.append(f"It is not known whether the logs still have these offsets: {error}")
            continue
        finally:
            client.close()
        aim.leave_recreated(state, logs, keys)
        aim.limit_to_logs(state, logs, [key for key in keys if key in aim.targets])
        positions = {(key.topic, key.partition): aim.targets[key] for key in keys if key in aim.targets}
        for log in logs.beside(positions):
            if log.problem:
                outcome.notes.append(f"{cluster}/{log.topic}/{log.partition}: {log.problem}")
