"""`evensplit skip`: leave out a range of offsets, such as a record that no program can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import click

from evensplit.checkpoint.edits import lines_of
from evensplit.checkpoint.places.place import Place
from evensplit.cli.history.why import Wanted, parse_split
from evensplit.cli.live.connection_options import kafka_options, reaching, said_of, servers_known
from evensplit.cli.live.known_logs import ask_known, created_anew
from evensplit.cli.live.log_ends import connected, settings_of
from evensplit.cli.repair.carry_out import (
    Outcome,
    begin,
    checkpoint_argument,
    editing,
    finish,
    make_edit,
    newest_states,
)
from evensplit.cli.usage import ending
from evensplit.core.model import SplitId
from evensplit.core.repair.edit import OpenBatch, skip
from evensplit.core.repair.places import check_in_log, first_unread, offsets_text, unread
from evensplit.core.state.offset_strategies import LATEST
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, some
from evensplit.errors import ClusterError, EditRefused

_RANGE = re.compile(r"(?P<first>[0-9]{1,19})(?:-(?P<last>[0-9]{1,19}))?", re.ASCII)
NOW_MAX = 1_000_000
"""A batch that reads more offsets than this, to come to the range that is skipped, is pointed out."""


@dataclass(frozen=True, slots=True)
class _Range:
    """What is to be skipped. `first`, `last`: offsets, both left out; None: all that is unread."""

    split: Wanted
    first: int | None
    last: int | None

    def __str__(self) -> str:
        if self.first is None:
            return str(self.split)
        return f"{self.split}:{self.first}" + ("" if self.last == self.first else f"-{self.last}")


def _parse_range(context: click.Context, parameter: click.Parameter, text: str) -> _Range:
    # A name has no colon, and sentences write offsets with commas.
    name, colon, offsets = text.partition(":")
    split = parse_split(context, parameter, name)
    if not colon:
        return _Range(split, None, None)
    found = _RANGE.fullmatch(offsets.replace(",", ""))
    if found is None:
        raise click.BadParameter(f"{text!r}: expected FROM or FROM-TO after the colon, as in orders/3:120-129")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if last < first:
        raise click.BadParameter(f"{text!r}: expected FROM at or before TO; found {first} and {last}")
    return _Range(split, first, last)


@click.command(
    "skip",
    epilog=ending(
        "edited; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit skip /checkpoints/orders orders/3:120",
        "evensplit skip /checkpoints/orders east/orders/3:120-129 --yes",
    ),
)
@checkpoint_argument
@click.argument("wanted", metavar="[CLUSTER/]TOPIC/PARTITION[:FROM[-TO]]", callback=_parse_range)
@editing
@reaching
def skip_command(
    checkpoint: Place,
    wanted: _Range,
    chosen: tuple[str, ...],
    servers: tuple[str, ...],
    options: tuple[str, ...],
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """Never read some offsets of one partition.

    FROM is the first and TO the last offset that is left out; FROM alone is one offset. Without them, all that is
    unread is left out, up to the end of the log as it is now. CHECKPOINT is the checkpointLocation of a query that has
    ended, as with an error that names the offset. What is unread before FROM is read by one batch, and the query goes
    on after TO. For what no batch was to read yet, the cluster is asked, at the servers in the checkpoint or those of
    --bootstrap-servers. CLUSTER can be left out if only one cluster has such a partition.
    """
    outcome = begin(checkpoint, "skip", str(wanted))
    found = _splits(newest_states(outcome, chosen), wanted.split)
    places = said_of(servers, list(found), "--bootstrap-servers")
    settings = kafka_options(options, list(found))

    def make(source: str, batch: OpenBatch) -> EnumeratorState | None:
        key = found.get(source)
        if key is None:
            return None
        log: _Log | None
        ask = partial(_ask, batch, key, places.get(source), settings[source])
        if wanted.first is None or wanted.last is None:
            log = ask()
            first, to = unread(batch, key, log.end)
        else:
            first, to = wanted.first, wanted.last + 1
            log = _asked(outcome, ask) if to > (batch.end.splits[key].position or 0) else None
        if log is not None:
            check_in_log(key, to, log.end)
        after = skip(batch, key, first, to, outcome.told)
        if log is not None:
            outcome.notes.extend(_beside(log, key, first_unread(batch, key), first, to))
        return after

    make_edit(outcome, tuple(line for source in found for line in lines_of(outcome.checkpoint, source)), make)
    now = sum(one.now for ones in outcome.found.values() for one in ones)
    if now > NOW_MAX:
        outcome.notes.append(
            f"The batch reads {counted(now, 'offset')} at once, whatever the limits of the query, to come to the range "
            "that is left out. To read them by and by, let the query run until it is near, and skip then"
        )
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)


def _splits(sources: Mapping[str, EnumeratorState], wanted: Wanted) -> dict[str, SplitId]:
    """Source -> the split that is meant. Raises EditRefused unless it is one split of one source."""
    found = {source: [key for key in state.splits if wanted.means(key)] for source, state in sources.items()}
    clusters = sorted({key.cluster for keys in found.values() for key in keys})
    if len(clusters) > 1:
        raise EditRefused(f"{wanted} is in several clusters; expected one of {', '.join(clusters)} before it")
    there = {source: keys[0] for source, keys in found.items() if keys}
    if len(there) > 1:
        raise EditRefused(
            f"{wanted} is read by sources {', '.join(there)} of the query; expected --source with one of them"
        )
    if not there:
        known = sorted({f"{key.cluster}/{key.topic}" for state in sources.values() for key in state.splits})
        raise EditRefused(
            f"there is no partition {wanted} in the checkpoint; it has partitions of {some(known) or 'nothing'}"
        )
    return there


@dataclass(frozen=True, slots=True)
class _Log:
    """What the log has, as offsets: from `begin` to `end`, and decided up to `stable` (both exclusive)."""

    begin: int
    stable: int
    end: int


def _asked(outcome: Outcome, ask: Callable[[], _Log]) -> _Log | None:
    """The log; None, and a note, if nobody says."""
    try:
        return ask()
    except _LogUnknown as error:
        outcome.notes.append(
            f"It is not known whether the log goes so far: {error.message}. If it ends before, the query takes that "
            "for a loss"
        )
        return None


def _beside(log: _Log, key: SplitId, begin: int, first: int, to: int) -> list[str]:
    """What the log has to say of a batch that reads from `begin` to `first` and leaves out what comes up to `to`."""
    notes: list[str] = []
    kept = min(first, log.begin)
    if begin < kept:
        them, are = ("it", "is") if kept == begin + 1 else ("them", "are")
        alone = f", skip {key}:{begin}-{kept - 1} first, and this range when the query has run"
        cure = f" as well, skip {key}:{begin}-{to - 1}" if kept == first else alone
        notes.append(
            f"The log of {key} begins at offset {log.begin}: {offsets_text(begin, kept)} before the range {are} gone "
            f"unread, and the query says so in this batch, as failOnDataLoss has it. To leave {them} out{cure}"
        )
    if log.stable < min(to, log.end):
        notes.append(_undecided(log, key, begin, first))
    return notes


def _undecided(log: _Log, key: SplitId, begin: int, first: int) -> str:
    committed = "A query with kafka.isolation.level=read_committed"
    said = f"From offset {log.stable} on there is a transaction in {key} that is neither committed nor aborted yet. "
    if max(begin, log.stable) < first:
        return (
            f"{said}{committed} cannot read {offsets_text(max(begin, log.stable), first)} before the range "
            "until it has ended: the batch fails again and again till then. Wait for it, or end it "
            "(kafka-transactions.sh), and skip then"
        )
    return (
        f"{said}The range is left out, also if that is committed later; {committed[0].lower()}{committed[1:]} goes on "
        "after it once it has ended"
    )


class _LogUnknown(click.ClickException):
    """The cluster did not say where a log ends."""


def _ask(batch: OpenBatch, key: SplitId, said: str | None, options: Mapping[str, str]) -> _Log:
    """The log, by the servers that are `said` or those in the checkpoint.

    Raises _LogUnknown if nobody says, EditRefused for another cluster or topic, click.UsageError for options that
    cannot be.
    """
    try:
        servers = servers_known(key.cluster, batch.end.clusters[key.cluster].bootstrap_servers, said)
    except click.UsageError as error:
        raise _LogUnknown(error.message) from error
    settings, at = replace(settings_of(servers, options), read_committed=True), (key.topic, key.partition)
    client = connected(key.cluster, settings)
    try:
        logs = ask_known(client, batch.end, [key], settings)
        # What is appended meanwhile is not taken for undecided.
        end, stable = (
            client.list_offsets({at: LATEST}, complete=False, undecided=one).get(at) for one in (True, False)
        )
    except ClusterError as error:
        raise _LogUnknown(f"its cluster did not answer: {error}") from error
    finally:
        client.close()
    if created_anew(batch.end, logs, [key]):
        raise EditRefused(
            f"topic {key.cluster}/{key.topic} was created anew: the query begins at its first offset, whatever is left "
            "out of the former one, whose positions the checkpoint has. Let it run one batch first, and skip then"
        )
    if end is None or stable is None or at not in logs.begins:
        raise _LogUnknown(f"the log of {key} is not known: its leader did not answer, or there is none")
    return _Log(logs.begins[at], stable, end)
