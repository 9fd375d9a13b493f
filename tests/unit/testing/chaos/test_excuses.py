"""The ends of queries that evensplit's documentation gives, each with the fault that may cause it, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.errors import ClusterError, DataLossError
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.history import events as ev
from tests.support.chaos_histories import faultless

LOSS = str(DataLossError("east", "orders", 0, "offsets 3 to 7 are gone"))
TWICE = str(
    ClusterError(
        "east-again",
        "it is the Kafka cluster (K) that is known as 'east', which is listed as well, so records could be read twice",
    )
)


def findings(directory: Path, error: str, *nemeses: str) -> list[str]:
    """What is found of a run in which a query ends by this error under these faults."""
    run = faultless()
    for number, name in enumerate(nemeses, 90):
        run.events.append(ev.FaultBegan(at_s=110, fault=number, nemesis=name, what=f"{name} is on"))
        run.events.append(ev.FaultEnded(at_s=118, fault=number))
    run.events.append(ev.QueryEnded(at_s=120, query="foreach-batch", error=f"[STREAM_FAILED] {error}"))
    return [one.kind for one in check(run.write(directory)).findings]


@pytest.mark.parametrize(
    "nemesis", ["topic-deleted", "topic-deleted-unread", "topic-recreated", "retention", "delete-records"]
)
def test_records_that_are_gone_end_a_query_that_is_started_with_failing_on_it(tmp_path: Path, nemesis: str) -> None:
    assert findings(tmp_path / "run", f"evensplit.errors.DataLossError: {LOSS}", "restart-changed", nemesis) == []
    assert findings(tmp_path / "another", f"evensplit.errors.DataLossError: {LOSS}", "restart-changed") == [
        "ended by itself"
    ]


@pytest.mark.parametrize(
    "error",
    [
        "java.io.IOException: No space left on device",
        "[STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.OFFSET_LOG] Failed to write offset log entry for batch 521",
    ],
)
def test_a_full_disk_ends_a_query(tmp_path: Path, error: str) -> None:
    assert findings(tmp_path / "run", error, "checkpoint-full") == []
    assert findings(tmp_path / "another", error, "sink-hang") == ["ended by itself"]


def test_a_cluster_under_two_names_ends_a_query(tmp_path: Path) -> None:
    assert findings(tmp_path / "run", TWICE, "cluster-twice") == []
    assert findings(tmp_path / "another", TWICE, "cluster-renamed") == ["ended by itself"]
