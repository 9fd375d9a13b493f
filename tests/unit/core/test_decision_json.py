"""Decisions as bytes: whatever is written is read again, and what is damaged is refused with a sentence."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.delivery import decision_json
from evensplit.core.delivery.decision_json import (
    LONG_MAX,
    REMEMBERED,
    SHORT_MAX,
    batch_key,
    decode_decision,
    encode_decision,
    forgotten_keys,
    last_key,
)
from evensplit.core.delivery.terms import Decision, State, Transaction, Written

longs = st.integers(0, LONG_MAX)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def parts(draw: st.DrawFn) -> Written:
    first, records, gaps = draw(st.integers(0, 2**60)), draw(st.integers(1, 2**31 - 1)), draw(st.integers(0, 100))
    return Written(draw(names), draw(st.integers(0, 2**31 - 1)), records, first, first + records - 1 + gaps)


transactions = st.builds(
    Transaction,
    names,
    names,
    longs,
    st.integers(0, SHORT_MAX),
    st.lists(parts(), min_size=1, max_size=3).map(tuple),
    longs,
)
decisions = st.builds(
    Decision,
    names,
    longs,
    st.just(State.DECIDED),
    st.lists(transactions, max_size=3).map(tuple),
    longs,
    st.lists(st.builds(Transaction, names, names, longs, st.integers(0, SHORT_MAX), st.just(())), max_size=3).map(
        tuple
    ),
)

ONE = Decision(
    "q",
    7,
    State.DECIDED,
    (Transaction("east", "p.q.h-0", 9, 3, (Written("t", 0, 5, 10, 14), Written("u", 1, 1, 8, 8)), 120),),
    1_700_000_000_000,
)


@given(decisions)
def test_what_is_written_is_read_again(decision: Decision) -> None:
    data = encode_decision(decision)
    assert decode_decision(data) == decision
    assert encode_decision(decode_decision(data)) == data


def test_a_decision_is_written_as_it_has_always_been() -> None:
    """Another version of evensplit reads it when it goes on with the query, and `evensplit audit` when it is asked."""
    given_up = replace(ONE, given_up=(Transaction("west", "p.q.h-1", 4, 0, ()),))
    golden = Path(__file__).parents[2] / "data" / "ledger" / "v1.json"
    assert encode_decision(given_up).decode() == golden.read_text().strip()
    assert decode_decision(golden.read_bytes().strip()) == given_up


def test_what_was_given_up_is_without_what_it_has_written() -> None:
    given_up = Decision("q", 7, State.ABORTED, (), 5, (Transaction("east", "p.q.h-0", 9, 3, ()),))
    assert decode_decision(encode_decision(given_up)) == given_up


def test_a_partition_takes_few_bytes() -> None:
    written = tuple(Written("a" * 200, number, 10_000, 10**10, 10**10 + 10_000) for number in range(1_000))
    size = len(encode_decision(Decision("q", 0, State.DECIDED, (Transaction("c", "i", 1, 1, written),))))
    assert size < 1_000 * 60


@given(decisions, st.data())
def test_a_byte_more_or_less_or_another_is_refused_or_is_another_decision(
    decision: Decision, data: st.DataObject
) -> None:
    good = encode_decision(decision)
    at = data.draw(st.integers(0, len(good) - 1))
    damaged = good[:at] + data.draw(st.binary(max_size=2)) + good[at + 1 :]
    with suppress(ValueError):
        assert encode_decision(decode_decision(damaged)) == damaged


def changed(**fields: Any) -> bytes:
    plain = json.loads(encode_decision(ONE))
    return json.dumps({**plain, **fields}, separators=(",", ":")).encode()


def changed_transaction(**fields: Any) -> bytes:
    plain = json.loads(encode_decision(ONE))
    plain["transactions"][0] |= fields
    return json.dumps(plain, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "version None, and this evensplit knows version 1"),
        (changed(version=2), "version 2"),
        (changed(version=True), "version True"),
        (changed(other=1), "fields"),
        (changed(query=1), "query is not a str"),
        (changed(topics={}), "topics is not a list"),
        (changed(batch=-1), "batch is no number"),
        (changed(batch=True), "batch is no number"),
        (changed(batch=1.0), "batch is no number"),
        (changed(givenUp=[1]), "list of four"),
        (changed(givenUp=[["east", "id", 9]]), "list of four"),
        (changed(givenUp=[["east", "id", 9, 2**15]]), "epoch is no number"),
        (changed(decidedMs=2**63), "decidedMs"),
        (changed(state="perhaps"), "state is unknown"),
        (changed(state="aborted"), "has transactions"),
        (changed(topics=["t", 1]), "topic has no name"),
        (changed(topics=["t", ""]), "topic has no name"),
        (changed(topics=["u", "t"]), "not written as"),
        (changed(transactions=[1]), "transaction is not an object"),
        (changed_transaction(written=[]), "written nothing"),
        (changed_transaction(written=[1]), "five numbers"),
        (changed_transaction(written=[[0, 0, 5, 10]]), "five numbers"),
        (changed_transaction(written=[[2, 0, 5, 10, 14]]), "out of bounds"),
        (changed_transaction(written=[[0, True, 5, 10, 14]]), "out of bounds"),
        (changed_transaction(written=[[0, 0, 5, 10, 13]]), "more of them"),
        (changed_transaction(written=[[0, 0, 0, 10, 13]]), "no records"),
        (changed_transaction(epoch=2**15), "epoch"),
        (b" " + encode_decision(ONE), "not written as"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match="a decision") as raised:
        decode_decision(data)
    assert says in str(raised.value)


def test_keys() -> None:
    assert last_key("q") == b"q"
    assert batch_key("q", 12) == b"q/12"


@pytest.mark.parametrize("gap", [1, 2, 7, 9, 10, 11, 50, 10**12])
def test_the_last_batches_are_remembered_whatever_was_left_out(gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch in each `gap` has rows. After each decision, what is there is of the last 10 numbers."""
    monkeypatch.setattr(decision_json, "REMEMBERED", 10)
    there: set[bytes] = set()
    last: int | None = None
    for batch in range(0, 40 * gap, gap):
        forgotten = [] if last is None else forgotten_keys("q", last, batch)
        assert len(forgotten) == len(set(forgotten)) <= 10
        there = there - {*forgotten} | {batch_key("q", batch)}
        last = batch
        assert there == {batch_key("q", one) for one in range(0, batch + 1, gap) if one > batch - 10}


def test_nothing_is_forgotten_when_a_batch_is_decided_again() -> None:
    assert forgotten_keys("q", 2 * REMEMBERED, 2 * REMEMBERED) == []
    assert forgotten_keys("q", 2 * REMEMBERED, 2 * REMEMBERED + 1) == [batch_key("q", REMEMBERED + 1)]
