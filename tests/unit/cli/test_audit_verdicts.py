"""What is said of a ledger beside logs and a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evensplit.cli.audit.ledger import Ledger, read_ledger
from evensplit.cli.audit.markers import LogParts
from evensplit.cli.audit.topic_verdict import Kind, TopicVerdict, judge, judge_checkpoint
from evensplit.core.delivery.decision_json import batch_key, decode_decision, encode_decision, last_key
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.core.model import SplitId
from tests.support.census import Header, census, data, marker, plain
from tests.support.decisions import decided

QUERY = "q"


def transaction(
    producer: int, epoch: int, first: int, last: int, *, partition: int = 0, topic: str = "t"
) -> Transaction:
    written = Written(topic, partition, last - first + 1, first, last)
    return Transaction("east", f"id-{producer}", producer, epoch, (written,))


def decision(batch: int, *transactions: Transaction, state: State = State.DECIDED, query: str = QUERY) -> Decision:
    return decided(batch, *transactions, state=state, query=query)


def records(*decisions: Decision) -> list[tuple[bytes | None, bytes | None]]:
    """As a driver appends them."""
    found: list[tuple[bytes | None, bytes | None]] = []
    for one in decisions:
        value = encode_decision(one)
        found.extend([(last_key(one.query), value), (batch_key(one.query, one.batch), value)])
    return found


def ledger(*decisions: Decision) -> Ledger:
    return read_ledger(records(*decisions), decode_decision)


def log(*headers: Header, begin: int = 0) -> LogParts:
    parts = LogParts(begin, begin)
    parts.take(census(*headers))
    parts.seal()
    return parts


def verdict(
    found: Ledger, *headers: Header, begin: int = 0, shared: bool = False, query: str | None = None
) -> TopicVerdict:
    logs = {SplitId("east", "t", 0): log(*headers, begin=begin)}
    return judge(found, logs, ["t"], ["east"], shared=shared, query=query)


def kinds(found: TopicVerdict) -> list[tuple[Kind, int | None]]:
    return [(one.kind, one.batch) for one in found.findings]


FIRST = decision(0, transaction(7, 0, 0, 4))
SECOND = decision(1, transaction(7, 1, 6, 9))
LOG = (data(0, 4, 7), marker(5, 7), data(6, 9, 7, 1), marker(10, 7, 1))


def test_all_there() -> None:
    found = verdict(ledger(FIRST, SECOND), *LOG)
    assert (found.well, found.batches, found.records, found.findings, found.notes) == (True, 2, 9, [], [])


@pytest.mark.parametrize(
    "headers, expected, what",
    [
        ((data(0, 4, 7), marker(5, 7, commit=False)), Kind.MISSING, "aborted"),
        ((data(0, 4, 7),), Kind.MISSING, "not committed yet"),
        ((data(0, 4, 8), marker(5, 8)), Kind.MISSING, "no record"),
        ((data(0, 3, 7), plain(4, 4), marker(5, 7)), Kind.MISSING, "4 records, fewer"),
        ((data(0, 5, 7), marker(6, 7)), Kind.TWICE, "6 records, more"),
        ((data(0, 4, 7, records=3), marker(5, 7)), Kind.GONE, "compaction in part"),
        ((marker(5, 7),), Kind.GONE, "removed by retention"),
        ((data(1, 5, 7), marker(6, 7)), Kind.UNSURE, "offsets 1 to 5"),
    ],
)
def test_one_thing_is_wrong(headers: Sequence[Header], expected: Kind, what: str) -> None:
    found = verdict(ledger(FIRST), *headers, begin=headers[0].base_offsets, shared=True)
    if "offsets 1" in what:
        found = verdict(ledger(FIRST), plain(0, 0), *headers, shared=True)
    assert kinds(found) == [(expected, 0)]
    assert what in found.findings[0].what
    assert found.well == (expected is Kind.GONE)


def test_batches_removed_by_compaction() -> None:
    found = verdict(ledger(FIRST, SECOND), plain(0, 0), *LOG[2:], shared=True)
    assert kinds(found) == [(Kind.GONE, 0)]


def test_a_second_transaction_of_a_known_producer_is_too_much() -> None:
    found = verdict(ledger(FIRST), *LOG, shared=True)
    assert [(one.kind, one.query, one.batch) for one in found.findings] == [(Kind.TWICE, QUERY, None)]
    assert "4 records of 1 committed transaction that no decision has, from offset 6" in found.findings[0].what


def test_others_who_write() -> None:
    headers = (*LOG, data(11, 12, 8), marker(13, 8), plain(14, 15), data(16, 16, 9))
    found = verdict(ledger(FIRST, SECOND), *headers)
    assert [one.kind for one in found.findings] == [Kind.TWICE, Kind.TWICE]
    assert found.notes == ["east/t/0: 1 record of transactions that nobody has ended yet"]
    found = verdict(ledger(FIRST, SECOND), *headers, shared=True)
    assert (found.findings, found.notes[-1]) == ([], "of others who write to the topics: 4 records")


def test_one_query_of_several() -> None:
    other = decision(5, transaction(8, 0, 11, 12), query="r")
    found = verdict(ledger(FIRST, SECOND, other), *LOG, data(11, 12, 8), marker(13, 8), query=QUERY)
    assert (found.well, found.batches, found.records) == (True, 2, 9)
    stray = verdict(
        ledger(FIRST, SECOND, other), *LOG, data(11, 12, 8), marker(13, 8), data(14, 14, 8, 1), marker(15, 8)
    )
    assert [(one.query, one.batch) for one in stray.findings] == [("r", None)]


def test_topics_and_clusters_that_are_not_asked_for() -> None:
    elsewhere = decision(1, transaction(7, 1, 0, 3, topic="u"))
    found = verdict(ledger(FIRST, elsewhere), *LOG[:2])
    assert (found.findings, found.notes) == ([], ["not looked at, since not asked for: east/u"])
    missing = verdict(ledger(decision(0, transaction(7, 0, 0, 4, partition=3))), shared=True)
    assert [one.what.partition(":")[0] for one in missing.findings] == ["the partition does not exist"]


def test_what_the_ledger_has_forgotten() -> None:
    """Of batch 1005, only 6 and later are certain to be there; what is before them in the log may be forgotten."""
    old, new = decision(3, transaction(7, 3, 5, 6)), decision(1005, transaction(7, 9, 20, 21))
    headers = (
        *(data(5, 6, 7, 3), marker(7, 7, 3)),
        *(data(8, 9, 7, 4), marker(10, 7, 4)),
        *(data(20, 21, 7, 9), marker(22, 7, 9), data(23, 23, 7, 10), marker(24, 7, 10)),
    )
    found = verdict(ledger(old, new), *headers)
    assert [one.what for one in found.findings] == [
        "east/t/0: 1 record of 1 committed transaction that no decision has, from offset 23"
    ]
    assert found.notes == ["2 records may be of batches that the ledger does not have any more"]


def test_what_contradicts_itself() -> None:
    again = decision(0, transaction(8, 0, 0, 4))
    assert "decided again" in ledger(FIRST, again).contradictions[0].what
    assert "given up" in ledger(FIRST, decision(0, state=State.ABORTED)).contradictions[0].what
    shared = ledger(FIRST, decision(1, transaction(7, 0, 0, 4))).contradictions
    assert [(one.batch, one.what) for one in shared] == [
        (1, "it has producer 7, epoch 0, of cluster east, as batch 0 has")
    ]
    fine = ledger(decision(0, transaction(9, 0, 0, 4), state=State.ABORTED), FIRST, FIRST)
    assert fine.contradictions == []
    assert verdict(ledger(FIRST, again), *LOG[:2], shared=True).findings[0].kind is Kind.TWICE


def test_the_last_word_counts_and_tombstones_remove() -> None:
    tombstone = (batch_key(QUERY, 0), None)
    found = read_ledger([(None, b"x"), *records(FIRST, SECOND), tombstone, (b"run", None)], decode_decision)
    assert list(found.decisions) == [(QUERY, 1)]
    last_alone = read_ledger([(last_key(QUERY), encode_decision(FIRST))], decode_decision)
    assert list(last_alone.decisions) == [(QUERY, 0)]
    assert found.queries == (QUERY,)


def checked(
    *decisions: Decision,
    committed: Sequence[int],
    planned: int,
    read: dict[int, int],
    filtered: bool = False,
    began: int = 0,
) -> TopicVerdict:
    found = TopicVerdict()
    judge_checkpoint(
        found,
        QUERY,
        ledger(*decisions),
        committed=committed,
        planned=planned,
        read=read,
        filtered=filtered,
        began=began,
    )
    return found


def test_a_checkpoint_beside_the_ledger() -> None:
    three = decision(3, transaction(7, 3, 11, 12))
    found = checked(FIRST, three, committed=[0, 1, 2], planned=3, read={0: 5, 1: 0, 2: 4, 3: 2})
    assert [(one.kind, one.batch, one.what) for one in found.findings] == [
        (Kind.UNSURE, 2, "it is not in the ledger and has read 4 offsets: it had no rows to write, or they are missing")
    ]
    assert found.notes == [
        "batch 3 is decided, and Spark has not committed it yet",
        "had nothing to read, and wrote nothing: 1 batch of the checkpoint",
    ]
    assert checked(FIRST, committed=[0, 2], planned=2, read={2: 4}, filtered=True).well


def test_a_checkpoint_of_something_else() -> None:
    given_up = decision(2, transaction(7, 3, 11, 12), state=State.ABORTED)
    found = checked(FIRST, SECOND, given_up, decision(5), committed=[0, 2], planned=3, read={})
    assert [(one.kind, one.batch) for one in found.findings] == [
        (Kind.MISSING, 2),
        (Kind.UNSURE, 1),
        (Kind.UNSURE, 5),
    ]
    old = checked(decision(1200, transaction(7, 0, 0, 4)), committed=[100, 1200], planned=1200, read={})
    assert (old.findings, old.notes) == ([], ["older than what the ledger keeps: 1 batch of the checkpoint"])


def test_batches_before_a_fork_are_of_another_query() -> None:
    found = checked(SECOND, committed=[0, 1, 2], planned=2, read={0: 40, 1: 4, 2: 3}, began=1)
    assert [(one.kind, one.batch) for one in found.findings] == [(Kind.UNSURE, 2)]
    assert found.notes == ["of the query of which the checkpoint is a fork, and not looked at: 1 batch"]
