"""`evensplit audit topic` at a real broker: what was committed, aborted, left out, written beside it, and deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.checkpoint.history import query_id_of
from evensplit.cli.group import evensplit
from evensplit.core.delivery.terms import Decision, State
from evensplit.testing import LocalKafka
from tests.support.checkpoints import checkpoint, put
from tests.support.commands import invoke
from tests.support.decisions import QUERY, Task, append, decided, settled
from tests.support.edited import ours
from tests.support.lanes import delete_records
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka


def audit(kafka: LocalKafka, topic: str, *arguments: str, code: int) -> Any:
    call = ["audit", "topic", topic, "--bootstrap-servers", kafka.bootstrap_servers, "--ledger", f"{topic}-ledger"]
    result = CliRunner().invoke(evensplit, [*call, *arguments, "--format", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def begin(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic, 2)
    kafka.create_topic(f"{topic}-ledger")


def end(kafka: LocalKafka, topic: str, decisions: Sequence[Decision]) -> None:
    append(kafka, f"{topic}-ledger", decisions)
    wait_for(lambda: settled(kafka, topic, 2) and settled(kafka, f"{topic}-ledger", 1), what="all markers")


def found(report: Any) -> list[tuple[str, int | None, str]]:
    return [(one["kind"], one["batch"], one["what"].partition(":")[0]) for one in report["findings"]]


def test_all_there_each_once(kafka: LocalKafka, topic: str) -> None:
    """Two tasks over four batches, one of them given up and written again."""
    begin(kafka, topic)
    tasks = [Task(kafka, topic), Task(kafka, topic)]
    decisions = []
    for batch in range(3):
        transactions = [task.write(0, 1) for task in tasks]
        if batch == 1:
            for task in tasks:
                task.end(commit=False)
            decisions.append(decided(batch, *transactions, state=State.ABORTED))
            transactions = [task.write(0, 1) for task in tasks]
        for task in tasks:
            task.end()
        decisions.append(decided(batch, *transactions))
    end(kafka, topic, decisions)
    report = audit(kafka, topic, code=0)
    assert (report["batches"], report["records"], report["findings"]) == (3, 300, [])
    assert report["queries"] == [QUERY]
    assert found(audit(kafka, topic, "--query", "none", code=1)) == [
        ("not known", None, "the ledger has no decided batch")
    ]


def test_what_is_wrong_is_said_of_its_batch(kafka: LocalKafka, topic: str) -> None:
    begin(kafka, topic)
    task = Task(kafka, topic)
    decisions = []
    aborted = decided(0, task.write(0, 1))
    task.end(commit=False)
    lacking = task.write(0, 1)
    task.end()
    # The decision has a record more in one partition than there is, and one fewer in the other.
    more = lacking.written[0]._replace(records=26, offset_last=lacking.written[0].offset_last + 1)
    fewer = lacking.written[1]._replace(records=24)
    decisions += [aborted, decided(1, replace(lacking, written=(more, fewer)))]
    fine = decided(2, task.write(0))
    task.end()
    stray = Task(kafka, topic)
    stray.write(1, records=7)
    stray.end()
    numbers(kafka.bootstrap_servers, topic, [1, 2, 3])
    end(kafka, topic, [*decisions, fine])
    report = audit(kafka, topic, code=1)
    assert found(report)[:3] == [
        ("missing", 0, "its transaction was aborted"),
        ("missing", 1, "its transaction has 25 records, fewer than decided"),
        ("too many", 1, "its transaction has 25 records, more than decided"),
    ]
    whats = [one["what"] for one in report["findings"][3:]]
    assert any("7 records of 1 committed transaction that no decision has, from offset" in what for what in whats)
    assert any("3 records outside of any transaction" in what for what in whats)
    shared = audit(kafka, topic, "--shared", code=1)
    assert found(shared) == found(report)[:3]
    assert "of others who write to the topics: 10 records" in shared["notes"]


def test_open_transactions_and_what_another_batch_has(kafka: LocalKafka, topic: str) -> None:
    begin(kafka, topic)
    task = Task(kafka, topic)
    first = task.write(0)
    append(kafka, f"{topic}-ledger", [decided(0, first)])
    wait_for(lambda: settled(kafka, f"{topic}-ledger", 1), what="the ledger's markers")
    report = audit(kafka, topic, code=1)
    assert found(report) == [("missing", 0, "its transaction is not committed yet")]
    call = ["audit", "topic", "--bootstrap-servers", kafka.bootstrap_servers, "--ledger", f"{topic}-ledger"]
    result = CliRunner().invoke(evensplit, call, env={"COLUMNS": "160"})
    assert result.exit_code == 1
    rows = [" ".join(row.split()) for row in result.stdout.splitlines() if row.strip()]
    assert rows[0] == "batch verdict what"
    assert rows[2:] == [
        f"0 missing its transaction is not committed yet: east/{topic}/0 (25 records)",
        "1 batch, 25 records: 1 missing.",
    ]
    task.end()
    end(kafka, topic, [decided(1, first)])
    assert [one["kind"] for one in audit(kafka, topic, code=1)["findings"]] == ["too many"]


def test_what_retention_has_deleted_is_gone(kafka: LocalKafka, topic: str) -> None:
    begin(kafka, topic)
    task = Task(kafka, topic)
    decisions = []
    for batch in range(3):
        decisions.append(decided(batch, task.write(0)))
        task.end()
    end(kafka, topic, decisions)
    middle = decisions[1].transactions[0].written[0].offset_first + 10
    delete_records(kafka, topic, middle)
    report = audit(kafka, topic, code=0)
    assert report["well"]
    assert found(report) == [
        ("gone", 0, "removed by retention"),
        ("gone", 1, "removed by retention in part"),
    ]


def test_a_checkpoint_beside_the_ledger(kafka: LocalKafka, topic: str, tmp_path: Path) -> None:
    begin(kafka, topic)
    task = Task(kafka, topic)
    decisions = []
    for batch in (0, 3, 4):
        decisions.append(decided(batch, task.write(0), query="5f0e"))
        task.end()
    end(kafka, topic, decisions)
    lines = [[f'{{"in":{{"0":{at}}}}}'] for at in (5, 5, 9, 12, 20)]
    place = checkpoint(tmp_path / "c", *lines, committed=3, initial={"0": '{"in":{"0":0}}'})
    report = audit(kafka, topic, "--checkpoint", str(place), code=1)
    assert found(report) == [("not known", 2, "it is not in the ledger and has read 4 offsets")]
    assert "had nothing to read, and wrote nothing: 1 batch of the checkpoint" in report["notes"]
    assert "batch 4 is decided, and Spark has not committed it yet" in report["notes"]
    audit(kafka, topic, "--checkpoint", str(place), "--filtered", code=0)


def test_a_fork_beside_the_ledger(kafka: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Of its batches, those before the fork are in the ledger under the other query, if at all."""
    begin(kafka, topic)
    place, new = ours(tmp_path / "c"), tmp_path / "new"
    invoke("fork", place, new, "--yes")
    put(new / "commits" / "3", b"v1\n{}")
    task = Task(kafka, topic)
    decisions = [decided(0, task.write(0), query="5f0e")]
    task.end()
    end(kafka, topic, [*decisions, decided(3, query=query_id_of(new))])
    report = audit(kafka, topic, "--checkpoint", str(new), code=0)
    assert "of the query of which the checkpoint is a fork, and not looked at: 3 batches" in report["notes"]
    report = audit(kafka, topic, "--checkpoint", str(new), "--query", "5f0e", code=1)
    assert found(report)[0] == ("not known", 1, "it is not in the ledger and has read 10 offsets")


def test_a_ledger_that_is_none(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic)
    call = ["audit", "topic", topic, "--bootstrap-servers", kafka.bootstrap_servers, "--ledger", topic]
    numbers(kafka.bootstrap_servers, topic, [1])
    result = CliRunner().invoke(evensplit, call)
    assert (result.exit_code, "Traceback" in result.output) == (1, False), result.output
    call[-1] = "there-is-none"
    result = CliRunner().invoke(evensplit, call)
    assert result.exit_code == 1
    assert "topic 'there-is-none' does not exist; expected the ledger of the query" in result.output
