"""`evensplit inspect` with a ledger: what was decided about the batches that a checkpoint has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.testing import LocalKafka
from tests.support.decisions import append, settled
from tests.support.histories import history, write
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

QUERY = "0b9c"
EAST = Transaction("east", "evensplit.0b9c.h-0", 7, 0, (Written("out", 0, 5, 0, 4), Written("out", 1, 2, 0, 1)), 300)
WEST = Transaction("west", "evensplit.0b9c.h-0", 8, 0, (Written("else", 0, 1_000, 0, 999),), 9_000)


def decided(batch: int, *transactions: Transaction, query: str = QUERY) -> Decision:
    return Decision(query, batch, State.DECIDED, transactions, 1_700_000_000_000 + batch)


def inspect(kafka: LocalKafka, place: Path, ledger: str, *options: str, code: int = 0) -> str:
    call = ["inspect", str(place), "--bootstrap-servers", kafka.bootstrap_servers, "--ledger", ledger, *options]
    result = CliRunner().invoke(evensplit, call, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_what_was_decided_about_the_batches_of_a_checkpoint(kafka: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Batches 3 to 8 are kept. Of 2 nothing is said, of 6 nobody has decided, and 5 was given up first."""
    place = write(tmp_path / "kept", history(), first=3)
    kafka.create_topic(topic)
    given_up = (replace(EAST, written=(), bytes=0),)
    decisions = [
        decided(2, EAST),
        decided(3, EAST, WEST),
        decided(4, WEST),
        Decision(QUERY, 5, State.ABORTED, (), 1, given_up),
        decided(5, EAST),
        decided(5, WEST, query="another"),
        Decision(QUERY, 7, State.ABORTED, (), 2, given_up),
    ]
    append(kafka, topic, decisions)
    wait_for(lambda: settled(kafka, topic, 1), what="all markers")
    found: list[dict[str, Any]] = json.loads(inspect(kafka, place, topic, "--format", "json"))["written"]
    assert [(one["batchId"], one["outcome"]) for one in found] == [
        (3, "decided"),
        (4, "decided"),
        (5, "decided"),
        (7, "given up"),
    ]
    assert found[0]["topics"] == [
        {"cluster": "east", "topic": "out", "records": 7},
        {"cluster": "west", "topic": "else", "records": 1_000},
    ]
    assert [(one["id"], one["records"], one["bytes"], one["committed"]) for one in found[0]["clusters"]] == [
        ("east", 7, 300, 1),
        ("west", 1_000, 9_000, 1),
    ]
    rows = [" ".join(line.split()) for line in inspect(kafka, place, topic).splitlines()]
    begin = rows.index("Written, as the ledger says")
    assert rows[begin + 2] == "batch decided (UTC) what was written records by topic"
    assert "4 2023-11-14 22:13:20 wrote 1,000 records in 1 transaction to west; decided west/else: 1,000" in rows
    assert any("wrote nothing that is visible, given up: 1 transaction aborted" in row for row in rows[begin:])


def test_a_ledger_without_these_batches_and_one_that_is_not_there(
    kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    place = write(tmp_path / "kept", history())
    assert f"the ledger's topic '{topic}' does not exist" in inspect(kafka, place, topic, code=1)
    kafka.create_topic(topic)
    assert "The ledger has nothing of these batches." in inspect(kafka, place, topic)
    (place / "metadata").unlink()
    assert "has no id of the query" in inspect(kafka, place, topic, code=1)
