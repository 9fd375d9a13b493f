"""`evensplit skip`: leave out a range of offsets, such as a record that no program can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from evensplit.checkpoint.edits import lines_of
from evensplit.checkpoint.places.place import Place
from evensplit.cli.live.connection_options import LOGIN, kafka_options, reaching, said_of
from evensplit.cli.repair.edit.finish import finish
from evensplit.cli.repair.edit.making import make_edit, newest_states
from evensplit.cli.repair.edit.options import checkpoint_argument, editing
from evensplit.cli.repair.edit.outcome import Outcome, begin
from evensplit.cli.repair.scope import Scope, meant, parse_partition
from evensplit.cli.repair.skipped_logs import Log, ask, notes_on
from evensplit.cli.usage import ending
from evensplit.core.model import Range, Split, SplitId, topic_names
from evensplit.core.repair.edit import OpenBatch, skip
from evensplit.core.repair.places import check_in_log, firsts_unread, unread
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, plain, skip_text, some
from evensplit.errors import EditRefused

_RANGE = re.compile(r"(?P<first>[0-9]{1,19})(?:-(?P<last>[0-9]{1,19}))?", re.ASCII)
NOW_MAX = 1_000_000
"""A batch that reads more offsets than this, to come to the range that is skipped, is pointed out."""
RANGES_MAX = 20
"""So many ranges are kept in the record of the edit, as they were said."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be skipped. `first`, `last`: offsets, both left out; None: all that is unread."""

    scope: Scope
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            return str(self.scope)
        return skip_text(self.scope, self.first, self.last + 1)


_Part = tuple[SplitId, _Asked]
"""What is asked for, and of which partition that is."""
Options = Mapping[str, Mapping[str, str]]


def _parse_ranges(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[_Asked, ...]:
    return tuple(_parse_range(context, parameter, text) for text in texts)


def _parse_range(context: click.Context, parameter: click.Parameter, text: str) -> _Asked:
    # A name has no colon, and sentences write offsets with commas.
    name, colon, offsets = text.partition(":")
    scope = parse_partition(context, parameter, name)
    if not colon:
        return _Asked(scope)
    found = _RANGE.fullmatch(offsets.replace(",", ""))
    if found is None:
        raise click.BadParameter(f"{text!r}: expected FROM or FROM-TO after the colon, as in orders/3:120-129")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if last < first:
        raise click.BadParameter(f"{text!r}: expected FROM at or before TO; found {first} and {last}")
    return _Asked(scope, first, last)


@click.command(
    "skip",
    epilog=ending(
        "edited; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit skip /checkpoints/orders orders/3:120",
        "evensplit skip /checkpoints/orders orders/3:120-129 orders/4:7 --yes",
    ),
)
@checkpoint_argument
@click.argument(
    "wanted", metavar="[CLUSTER/]TOPIC/PARTITION[:FROM[-TO]]...", nargs=-1, required=True, callback=_parse_ranges
)
@editing
@reaching
def skip_command(
    checkpoint: Place,
    wanted: tuple[_Asked, ...],
    chosen: tuple[str, ...],
    servers: tuple[str, ...],
    options: tuple[str, ...],
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """Never read some offsets.

    FROM is the first and TO the last offset that is left out; FROM alone is one offset. Without them, all that is
    unread is left out, up to the end of the log as it is now. CHECKPOINT is the checkpointLocation of a query that has
    ended, as with an error that names the offset. What is unread before FROM is read by one batch, and the query goes
    on after TO. Of several ranges, also of one partition, all or none are left out. For what no batch was to read yet,
    the cluster is asked, at the servers in the checkpoint or those of --bootstrap-servers. CLUSTER can be left out if
    only one cluster has such a partition.
    """
    outcome = begin(checkpoint, "skip", _said(wanted))
    found = _by_source(newest_states(outcome, chosen), wanted)
    places = said_of(servers, list(found), "--bootstrap-servers")
    settings = kafka_options(options, list(found))
    _check_one_cluster(found, places, settings)

    def make(source: str, batch: OpenBatch) -> EnumeratorState | None:
        if source not in found:
            return None
        logs = ask(batch, _beyond(batch, found[source]), places.get(source), settings[source])
        begins = firsts_unread(batch)
        ranges = [_range(outcome, batch.end.splits[key], begins[key], one, logs.get(key)) for key, one in found[source]]
        after = skip(batch, ranges, outcome.told)
        outcome.notes.extend(notes_on(batch, after, logs))
        return after

    make_edit(outcome, tuple(line for source in found for line in lines_of(outcome.checkpoint, source)), make)
    now = sum(one.now for ones in outcome.found.values() for one in ones)
    if now > NOW_MAX:
        outcome.notes.append(
            f"The batch reads {counted(now, 'offset')} at once, whatever the limits of the query, to come to what is "
            "left out. To read them by and by, let the query run until it is near, and skip then"
        )
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)


def _said(asked: Sequence[_Asked]) -> str:
    """The ranges for the state of the query, which has to stay small."""
    more = [f"(… {len(asked)} in all)"] if len(asked) > RANGES_MAX else []
    return " ".join([*map(str, asked[:RANGES_MAX]), *more])


def _by_source(sources: Mapping[str, EnumeratorState], asked: Sequence[_Asked]) -> dict[str, list[_Part]]:
    """Source -> what is to be skipped of it. Raises EditRefused unless each is of one partition of one source."""
    found: dict[str, list[_Part]] = {}
    for one, key in zip(asked, meant([one.scope for one in asked], [*sources.values()]), strict=True):
        there = [source for source, state in sources.items() if key in state.splits]
        if len(there) > 1 and isinstance(key, SplitId):
            at = [f"{source} (next offset {sources[source].splits[key].position or 0})" for source in there]
            raise EditRefused(
                f"{one.scope} is read by sources {some(at)} of the query; expected --source with one of them"
            )
        if not there or not isinstance(key, SplitId):
            known = sorted(topic_names(key for state in sources.values() for key in state.splits))
            raise EditRefused(
                f"there is no partition {one.scope} in the checkpoint; it has partitions of {some(known) or 'nothing'}"
            )
        found.setdefault(there[0], []).append((key, one))
    return found


def _check_one_cluster(found: Mapping[str, Sequence[_Part]], places: Mapping[str, str], options: Options) -> None:
    """Raise click.UsageError if the same servers, or login, were used for several clusters of one source."""
    for source, parts in found.items():
        clusters = list(dict.fromkeys(key.cluster for key, _ in parts))
        said = ["--bootstrap-servers"] if source in places else []
        said.extend(f"--option kafka.{name}" for name in options[source] if name.startswith(LOGIN))
        if len(clusters) > 1 and said:
            raise click.UsageError(
                f"the ranges are in {len(clusters)} clusters: {', '.join(clusters)}; {' and '.join(said)} can be for "
                "one only: skip those of each in a command of its own"
            )


def _beyond(batch: OpenBatch, parts: Iterable[_Part]) -> list[SplitId]:
    """The partitions of which more is to be skipped than the batch was to read."""
    return list(
        dict.fromkeys(
            key for key, one in parts if one.last is None or one.last >= (batch.end.splits[key].position or 0)
        )
    )


def _range(outcome: Outcome, split: Split, begin: int, one: _Asked, log: Log | str | None) -> Range:
    """What `one` comes to in `split`, of which `begin` is unread.

    Raises EditRefused where the log does not have it, click.ClickException if that is unknown.
    """
    if one.first is None or one.last is None:
        if not isinstance(log, Log):
            raise click.ClickException(plain(f"{log}"))
        return Range(split.id, *unread(split, begin, log.end))
    found = Range(split.id, one.first, one.last + 1)
    if isinstance(log, Log) and found.end > (split.position or 0):
        check_in_log(split.id, found.end, log.end)
    elif isinstance(log, str):
        outcome.notes.append(
            f"It is not known whether the log goes so far: {log}. If it ends before, the query takes that for a loss"
        )
    return found
