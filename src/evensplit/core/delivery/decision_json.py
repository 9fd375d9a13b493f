"""Decisions as the ledger has them: JSON, versioned and compact, with lists for partitions.

A partition takes 20 to 60 bytes: brackets, commas, and five numbers. A topic's name is there once.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.core.json_text import parse_json
from evensplit.core.text import short

VERSION = 1

REMEMBERED = 1_000
"""Of so many last batches of a query the ledger keeps the decisions, for audits. Some of them may have none."""

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
SHORT_MAX = 2**15 - 1


def last_key(query: str) -> bytes:
    """The key of a query's last decision."""
    return query.encode()


def batch_key(query: str, batch: int) -> bytes:
    """The key of a query's decision about one batch."""
    return f"{query}/{batch}".encode()


def forgotten_keys(query: str, last: int, batch: int) -> list[bytes]:
    """Whose records are deleted when `batch` is decided, after `last`: those that are no longer of the last REMEMBERED.

    They are REMEMBERED at most, since earlier ones were deleted when `last` was decided, and later ones do not exist.
    """
    begin, end = max(0, last - REMEMBERED + 1), min(last, batch - REMEMBERED) + 1
    return [batch_key(query, number) for number in range(begin, end)]


def encode_decision(decision: Decision) -> bytes:
    """The decision as JSON. The same decision always gives the same bytes."""
    topics = sorted({written.topic for one in decision.transactions for written in one.written})
    places = {topic: place for place, topic in enumerate(topics)}
    plain = {
        "version": VERSION,
        "query": decision.query,
        "batch": decision.batch,
        "state": decision.state.value,
        "decidedMs": decision.decided_ms,
        "topics": topics,
        "transactions": [
            {
                "cluster": one.cluster,
                "id": one.transactional_id,
                "producerId": one.producer_id,
                "epoch": one.epoch,
                "bytes": one.bytes,
                "written": [[places[written.topic], *written[1:]] for written in one.written],
            }
            for one in decision.transactions
        ],
        "givenUp": [[one.cluster, one.transactional_id, one.producer_id, one.epoch] for one in decision.given_up],
    }
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()


def decode_decision(data: bytes) -> Decision:
    """The decision in `data`. Raises ValueError, with a sentence, for what `encode_decision` does not give."""
    try:
        plain = parse_json(data, strict=True)
    except ValueError as error:
        raise ValueError(f"a decision is not JSON: {error}") from None
    if not isinstance(plain, dict):
        _refuse("it is not an object", plain)
    version = plain.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"a decision has version {short(repr(version))}, and this evensplit knows version {VERSION}: another "
            "version of evensplit has written it, or another program"
        )
    query, batch, state, decided_ms, topics, transactions, given_up = _fields(plain, _DECISION)
    if state not in (State.DECIDED.value, State.ABORTED.value):
        _refuse("its state is unknown", state)
    for topic in topics:
        _check(type(topic) is str and topic != "", "a topic has no name", topic)
    found = tuple(_transaction(one, topics) for one in transactions)
    _check(not found or state == State.DECIDED.value, "it has transactions, and is aborted", batch)
    decision = Decision(query, batch, State(state), found, decided_ms, tuple(map(_given_up, given_up)))
    _check(encode_decision(decision) == data, "it is not written as evensplit writes it", batch)
    return decision


_DECISION = {
    "query": str,
    "batch": LONG_MAX,
    "state": str,
    "decidedMs": LONG_MAX,
    "topics": list,
    "transactions": list,
    "givenUp": list,
}
_TRANSACTION = {
    "cluster": str,
    "id": str,
    "producerId": LONG_MAX,
    "epoch": SHORT_MAX,
    "bytes": LONG_MAX,
    "written": list,
}


def _transaction(plain: Any, topics: list[str]) -> Transaction:
    if not isinstance(plain, dict):
        _refuse("a transaction is not an object", plain)
    cluster, transactional_id, producer_id, epoch, size, written = _fields(plain, _TRANSACTION)
    _check(bool(written), "a transaction has written nothing", transactional_id)
    found = tuple(_written(one, topics) for one in written)
    return Transaction(cluster, transactional_id, producer_id, epoch, found, size)


def _given_up(plain: Any) -> Transaction:
    names = ("cluster", "id", "producerId", "epoch")
    if type(plain) is not list or len(plain) != len(names):
        _refuse("what was given up is not a list of four", plain)
    kinds = {name: _TRANSACTION[name] for name in names}
    cluster, transactional_id, producer_id, epoch = _fields(dict(zip(names, plain, strict=True)), kinds)
    return Transaction(cluster, transactional_id, producer_id, epoch, ())


def _written(plain: Any, topics: list[str]) -> Written:
    bounds = (len(topics) - 1, INT_MAX, LONG_MAX, LONG_MAX, LONG_MAX)
    if type(plain) is not list or len(plain) != len(bounds):
        _refuse("a partition is not a list of five numbers", plain)
    for value, highest in zip(plain, bounds, strict=True):
        _check(type(value) is int and 0 <= value <= highest, "a number of a partition is out of bounds", plain)
    _, _, records, first, last = plain
    _check(0 < records <= last - first + 1, "a partition has no records, or more of them than offsets", plain)
    return Written(topics[plain[0]], *plain[1:])


def _fields(plain: dict[str, Any], kinds: dict[str, Any]) -> list[Any]:
    """The values, by name; each a text, a list, or a whole number from 0 to its bound."""
    _check(plain.keys() == kinds.keys(), "fields are missing, or there are others", sorted(plain))
    for name, kind in kinds.items():
        value = plain[name]
        if kind is str or kind is list:
            _check(type(value) is kind, f"{name} is not a {kind.__name__}", value)
        else:
            _check(type(value) is int and 0 <= value <= kind, f"{name} is no number from 0 to {kind}", value)
    return [plain[name] for name in kinds]


def _check(right: bool, what: str, found: object) -> None:
    if not right:
        _refuse(what, found)


def _refuse(what: str, found: object) -> NoReturn:
    raise ValueError(f"a decision cannot be used: {what}: {short(repr(found))}")
