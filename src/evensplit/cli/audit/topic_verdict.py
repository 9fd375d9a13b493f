"""Whether all that was decided is in the logs, once and whole. Pure: ledger and logs in, a verdict out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evensplit.cli.audit.batches import FORMER
from evensplit.cli.audit.ledger import Ledger
from evensplit.cli.audit.markers import LogParts, Outcome, Part
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.core.model import SplitId
from evensplit.core.text import counted, some

PLACES_MAX = 3
"""So many partitions are named in a line."""

_FOREVER = 2**63 - 1


class Kind(StrEnum):
    """What is wrong with a batch, or not known of it."""

    MISSING = "missing"
    TWICE = "too many"
    UNSURE = "not known"
    GONE = "gone"
    """Retention, or compaction, has removed it since. That is no fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to be said of one batch. `batch`, `query`: None if it cannot be told whose it is. `what`: a clause."""

    kind: Kind
    query: str | None
    batch: int | None
    what: str

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {"kind": str(self.kind), "query": self.query, "batch": self.batch, "what": self.what}


@dataclass(slots=True)
class TopicVerdict:
    """What is to be said of all batches. `records`: how many the decisions have in the topics that were read."""

    batches: int = 0
    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Everything is there, once, as far as it has not been removed since."""
        return all(one.kind is Kind.GONE for one in self.findings)


class _Log:
    """The transactions of one log, by producer, and which of them a decision has."""

    def __init__(self, parts: LogParts) -> None:
        self.parts = parts
        self.claimed: dict[Part, None] = {}
        self._by_producer: defaultdict[int, list[Part]] = defaultdict(list)
        for part in (*parts.parts, *parts.open):
            self._by_producer[part.producer_id].append(part)

    def claim(self, transaction: Transaction, written: Written) -> Part | None:
        """The part that `written` is about."""
        for part in self._by_producer[transaction.producer_id]:
            overlaps = part.first <= written.offset_last and part.last >= written.offset_first
            if part.epoch == transaction.epoch and overlaps:
                self.claimed[part] = None
                return part
        return None


def judge(
    ledger: Ledger,
    logs: Mapping[SplitId, LogParts],
    topics: Iterable[str],
    clusters: Iterable[str],
    *,
    query: str | None = None,
    shared: bool = False,
) -> TopicVerdict:
    """Compare the decisions with the logs of `topics` in `clusters`, all of them, sealed.

    `query`: judge only this one; what the others have decided is theirs. `shared`: others write to the topics, too, so
    what no decision has is theirs, unless one of the producers that the ledger names has written it.
    """
    verdict = TopicVerdict()
    known = {split: _Log(parts) for split, parts in logs.items()}
    wanted, asked = frozenset(topics), frozenset(clusters)
    elsewhere: dict[str, int] = {}
    for one in ledger.contradictions:
        if query in (None, one.query):
            verdict.findings.append(Finding(Kind.TWICE, one.query, one.batch, one.what))
    for decision in ledger.decisions.values():
        if query not in (None, decision.query):
            _claim(decision, known)
            continue
        verdict.batches += decision.state is State.DECIDED
        said: dict[tuple[Kind, str], list[str]] = {}
        for transaction in decision.transactions if decision.state is State.DECIDED else ():
            for written in transaction.written:
                split = SplitId(transaction.cluster, written.topic, written.partition)
                if written.topic not in wanted or transaction.cluster not in asked:
                    elsewhere[f"{split.cluster}/{split.topic}"] = elsewhere.get(f"{split.cluster}/{split.topic}", 0) + 1
                    continue
                verdict.records += written.records
                problem = _problem(transaction, written, known.get(split))
                if problem is not None:
                    said.setdefault(problem, []).append(f"{split} ({counted(written.records, 'record')})")
        for (kind, what), places in said.items():
            said_of = f"{what}: {some(places, PLACES_MAX)}"
            verdict.findings.append(Finding(kind, decision.query, decision.batch, said_of))
    if not verdict.batches:
        verdict.findings.append(Finding(Kind.UNSURE, query, None, "the ledger has no decided batch"))
    _judge_others(verdict, ledger, known, query=query, shared=shared)
    if elsewhere:
        verdict.notes.append(f"not looked at, since not asked for: {', '.join(sorted(elsewhere))}")
    return verdict


def _claim(decision: Decision, logs: Mapping[SplitId, _Log]) -> None:
    """Let what was decided for another query be in the logs."""
    for one in decision.transactions if decision.state is State.DECIDED else ():
        for written in one.written:
            log = logs.get(SplitId(one.cluster, written.topic, written.partition))
            if log is not None:
                log.claim(one, written)


def _problem(transaction: Transaction, written: Written, log: _Log | None) -> tuple[Kind, str] | None:
    """What is wrong with what a transaction has in one partition; None: nothing."""
    if log is None:
        return Kind.MISSING, "the partition does not exist"
    part, parts = log.claim(transaction, written), log.parts
    if part is None:
        if written.offset_last < parts.begin:
            return Kind.GONE, "removed by retention"
        if parts.compacted(written.offset_first, written.offset_last):
            return Kind.GONE, "removed by compaction"
        return Kind.MISSING, "no record of its transaction is there"
    if part.outcome is Outcome.ABORTED:
        return Kind.MISSING, "its transaction was aborted"
    if part.outcome is Outcome.OPEN:
        return Kind.MISSING, "its transaction is not committed yet"
    if part.records > written.records:
        return Kind.TWICE, f"its transaction has {counted(part.records, 'record')}, more than decided"
    if part.records < written.records:
        if written.offset_first < parts.begin:
            return Kind.GONE, "removed by retention in part"
        if parts.compacted(written.offset_first, written.offset_last):
            return Kind.GONE, "removed by compaction in part"
        return Kind.MISSING, f"its transaction has {counted(part.records, 'record')}, fewer than decided"
    if (part.first, part.last) != (written.offset_first, written.offset_last):
        between = f"offsets {part.first:,} to {part.last:,}"
        return Kind.UNSURE, f"its transaction has {between}, not those that were decided"
    return None


def _judge_others(
    verdict: TopicVerdict, ledger: Ledger, logs: Mapping[SplitId, _Log], *, query: str | None, shared: bool
) -> None:
    """Find committed records that no decision has."""
    owners = {
        (transaction.cluster, transaction.producer_id): decision.query
        for decision in ledger.decisions.values()
        for transaction in decision.transactions
    }
    horizons = _horizons(ledger)
    older = others = 0
    for split, log in sorted(logs.items()):
        horizon = horizons.get(split, _FOREVER) if horizons is not None else 0
        strays: dict[str | None, list[Part]] = {}
        for part in log.parts.parts:
            if part.outcome is not Outcome.COMMITTED or part in log.claimed:
                continue
            owner = owners.get((split.cluster, part.producer_id))
            if part.last < horizon:
                older += part.records
            elif (shared and owner is None) or (query is not None and owner not in (None, query)):
                others += part.records
            else:
                strays.setdefault(owner, []).append(part)
        for owner, parts in strays.items():
            what = (
                f"{split}: {counted(sum(part.records for part in parts), 'record')} of "
                f"{counted(len(parts), 'committed transaction')} that no decision has, from offset {parts[0].first:,}"
            )
            verdict.findings.append(Finding(Kind.TWICE, owner, None, what))
        plain = log.parts.plain
        if shared:
            others += plain
        elif log.parts.plain_last < horizon:
            older += plain
        elif plain:
            what = f"{split}: {counted(plain, 'record')} outside of any transaction"
            verdict.findings.append(Finding(Kind.TWICE, None, None, what))
        _note_open(verdict, split, log, owners)
    if older:
        verdict.notes.append(f"{counted(older, 'record')} may be of batches that the ledger does not have any more")
    if others:
        verdict.notes.append(f"of others who write to the topics: {counted(others, 'record')}")


def _note_open(verdict: TopicVerdict, split: SplitId, log: _Log, owners: Mapping[tuple[str, int], str]) -> None:
    open_records = sum(part.records for part in log.parts.open if part not in log.claimed)
    if open_records:
        verdict.notes.append(f"{split}: {counted(open_records, 'record')} of transactions that nobody has ended yet")


def _horizons(ledger: Ledger) -> dict[SplitId, int] | None:
    """Where the decisions that are known begin in each partition; None if nothing older was ever removed."""
    first = {query: ledger.forgotten(query) for query in ledger.queries}
    if not any(first.values()):
        return None
    found: dict[SplitId, int] = {}
    for decision in ledger.decisions.values():
        if decision.state is State.ABORTED or decision.batch < first[decision.query]:
            continue
        for one in decision.transactions:
            for written in one.written:
                split = SplitId(one.cluster, written.topic, written.partition)
                found[split] = min(written.offset_first, found.get(split, _FOREVER))
    return found


def judge_checkpoint(
    verdict: TopicVerdict,
    query: str,
    ledger: Ledger,
    *,
    committed: Iterable[int],
    planned: int,
    read: Mapping[int, int],
    filtered: bool,
    began: int = 0,
) -> None:
    """Compare the decisions about `query` with its checkpoint; what is found is added to `verdict`.

    `committed`: the batches in Spark's commit log. `planned`: the newest one in its offset log. `read`: batch -> how
    many offsets it has read, where that is known. `filtered`: a batch that has read something may write nothing.
    `began`: the first batch of this query, where the checkpoint is a fork of another one's; the others are not judged.
    """
    done, decisions, first = sorted(committed), ledger.of(query), ledger.forgotten(query)
    idle = unsaid = unknown = 0
    own = [batch for batch in done if batch >= began]
    for batch in own:
        decision = decisions.get(batch)
        if decision is not None:
            if decision.state is State.ABORTED:
                what = "Spark has committed it, and the ledger says that it was given up"
                verdict.findings.append(Finding(Kind.MISSING, query, batch, what))
        elif batch < first:
            unknown += 1
        elif read.get(batch) == 0:
            idle += 1
        elif filtered:
            unsaid += 1
        else:
            count = read.get(batch)
            has = "has read what is not known" if count is None else f"has read {counted(count, 'offset')}"
            what = f"it is not in the ledger and {has}: it had no rows to write, or they are missing"
            verdict.findings.append(Finding(Kind.UNSURE, query, batch, what))
    _judge_uncommitted(verdict, query, decisions, done, planned)
    if len(own) < len(done):
        verdict.notes.append(FORMER.format(counted(len(done) - len(own), "batch", "batches")))
    for count, what in (
        (idle, "had nothing to read, and wrote nothing"),
        (unsaid, "not in the ledger, so without rows to write"),
        (unknown, "older than what the ledger keeps"),
    ):
        if count:
            verdict.notes.append(f"{what}: {counted(count, 'batch', 'batches')} of the checkpoint")


def _judge_uncommitted(
    verdict: TopicVerdict, query: str, decisions: Mapping[int, Decision], done: list[int], planned: int
) -> None:
    there = frozenset(done)
    oldest, newest = (done[0], done[-1]) if done else (0, -1)
    for batch, decision in decisions.items():
        if decision.state is not State.DECIDED or batch in there or batch < oldest:
            continue
        if batch == newest + 1 == planned:
            verdict.notes.append(f"batch {batch} is decided, and Spark has not committed it yet")
            continue
        where = "beyond" if batch > newest else "not in"
        what = (
            f"it is decided, and {where} Spark's commit log, which goes up to {newest}: is this the query's checkpoint?"
        )
        verdict.findings.append(Finding(Kind.UNSURE, query, batch, what))
