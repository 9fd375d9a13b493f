"""What the logs of partitions have to say where offsets of them are to be skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from evensplit.cli.live.connection_options import servers_known
from evensplit.cli.live.known_logs import ask_known, created_anew
from evensplit.cli.live.log_ends import connected, settings_of
from evensplit.core.model import SplitId
from evensplit.core.repair.edit import OpenBatch
from evensplit.core.repair.places import firsts_unread
from evensplit.core.repair.proof import edits_made
from evensplit.core.state.edits import jumps_of
from evensplit.core.state.offset_strategies import LATEST
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import offsets_text, skip_text
from evensplit.errors import ClusterError, EditRefused


@dataclass(frozen=True, slots=True)
class Log:
    """What a log has, as offsets: from `begin` to `end`, and decided up to `stable` (both exclusive)."""

    begin: int
    stable: int
    end: int


def ask(
    batch: OpenBatch, keys: Iterable[SplitId], said: str | None, options: Mapping[str, str]
) -> dict[SplitId, Log | str]:
    """The logs of `keys`, by the servers that are `said` or those in the checkpoint; why, where nobody says.

    Raises EditRefused for another cluster or topic, click.UsageError for options that cannot be.
    """
    found: dict[SplitId, Log | str] = {}
    of: dict[str, list[SplitId]] = {}
    for key in keys:
        of.setdefault(key.cluster, []).append(key)
    for cluster, ones in of.items():
        try:
            servers = servers_known(cluster, batch.end.clusters[cluster].bootstrap_servers, said)
        except click.UsageError as error:
            found.update(dict.fromkeys(ones, error.message))
            continue
        try:
            found.update(_of_cluster(batch, ones, servers, options))
        except ClusterError as error:
            found.update(dict.fromkeys(ones, f"its cluster did not answer: {error}"))
    return found


def _of_cluster(
    batch: OpenBatch, keys: Sequence[SplitId], servers: str, options: Mapping[str, str]
) -> Iterator[tuple[SplitId, Log | str]]:
    settings = replace(settings_of(servers, options), read_committed=True)
    client = connected(keys[0].cluster, settings)
    try:
        logs = ask_known(client, batch.end, keys, settings)
        at = dict.fromkeys(((key.topic, key.partition) for key in keys), LATEST)
        # What is appended meanwhile is not taken for undecided.
        ends = client.list_offsets(at, complete=False, undecided=True)
        stable = client.list_offsets(at, complete=False, undecided=False)
    finally:
        client.close()
    if anew := created_anew(batch.end, logs, keys):
        raise EditRefused(
            f"topic {anew[0].cluster}/{anew[0].topic} was created anew: the query begins at its first offset, whatever "
            "is left out of the former one, whose positions the checkpoint has. Let it run one batch first, and skip "
            "then"
        )
    for key in keys:
        of = key.topic, key.partition
        if of in ends and of in stable and of in logs.begins:
            yield key, Log(logs.begins[of], stable[of], ends[of])
        else:
            yield key, f"the log of {key} is not known: its leader did not answer, or there is none"


def notes_on(batch: OpenBatch, after: EnumeratorState, logs: Mapping[SplitId, Log | str]) -> list[str]:
    """What `logs` have to say of a batch that ends at `after`, which leaves out what it says."""
    notes: list[str] = []
    begins = firsts_unread(batch)
    for key, jumps in jumps_of(edits_made(batch, after)).items():
        begin, log = begins[key], logs.get(key)
        if not isinstance(log, Log):
            continue
        for _, first, to in jumps:
            notes.extend(_beside(log, key, begin, first, to))
            begin = max(begin, to)
    return notes


def _beside(log: Log, key: SplitId, begin: int, first: int, to: int) -> Iterator[str]:
    """What a log has to say of a batch that reads from `begin` to `first` and leaves out what comes up to `to`."""
    kept = min(first, log.begin)
    if begin < kept:
        them, are = ("it", "is") if kept == begin + 1 else ("them", "are")
        yield (
            f"The log of {key} begins at offset {log.begin}: {offsets_text((begin, kept))} before the range {are} gone "
            f"unread, and the query says so in this batch, as failOnDataLoss has it. To leave {them} out as well, add "
            f"{skip_text(key, begin, kept)} to the command"
        )
    if log.stable < min(to, log.end):
        yield _undecided(log, key, begin, first)


def _undecided(log: Log, key: SplitId, begin: int, first: int) -> str:
    committed = "A query with kafka.isolation.level=read_committed"
    said = f"From offset {log.stable} on there is a transaction in {key} that is neither committed nor aborted yet. "
    if max(begin, log.stable) < first:
        return (
            f"{said}{committed} cannot read {offsets_text((max(begin, log.stable), first))} before the range "
            "until it has ended: the batch fails again and again till then. Wait for it, or end it "
            "(kafka-transactions.sh), and skip then"
        )
    return (
        f"{said}The range is left out, also if that is committed later; {committed[0].lower()}{committed[1:]} goes on "
        "after it once it has ended"
    )
