"""The ends of queries that evensplit's documentation gives, each with the fault that may cause it, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.errors import ClusterError, DataLossError
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.excuses import EVENSPLIT
from evensplit.testing.chaos.history import events as ev
from tests.support.chaos_histories import Run, faultless

ROOT = Path(__file__).parents[4]
QUERY = "foreach-batch"
LOSS = str(DataLossError("east", "orders", 0, "offsets 3 to 7 are gone"))
TWICE = str(
    ClusterError(
        "east-again",
        "it is the Kafka cluster (K) that is known as 'east', which is listed as well, so records could be read twice",
    )
)


KILLED = "SparkException: Job aborted: Task 0 failed 4 times, most recent failure: Python worker exited unexpectedly"
CODE = """    except ClusterUnreachable as error:
evensplit.errors.AuthenticationError: cluster 'west': the broker refused the credentials"""

Plant = Callable[[Run], None]


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


@pytest.mark.parametrize("nemesis", ["metadata-down", "metadata-slow", "metadata-lying"])
def test_settings_that_only_a_silent_service_has_end_a_query_that_starts(tmp_path: Path, nemesis: str) -> None:
    error = "evensplit.errors.AuthenticationError: cluster 'west': 127.0.0.1:9093: the listener speaks TLS"
    assert findings(tmp_path / "run", error, nemesis) == []
    assert findings(tmp_path / "another", error, "cluster-out") == ["ended by itself"]


def test_a_cluster_under_two_names_ends_a_query(tmp_path: Path) -> None:
    assert findings(tmp_path / "run", TWICE, "cluster-twice") == []
    assert findings(tmp_path / "another", TWICE, "cluster-renamed") == ["ended by itself"]


def _ended(at_s: float, error: str, nemesis: str = "source-kill") -> Plant:
    """A query ends; a fault of this kind is on from 100 to 101 s."""

    def plant(run: Run) -> None:
        run.events += [
            ev.FaultBegan(at_s=100, fault=5, nemesis=nemesis, what="SIGKILL of a process"),
            ev.FaultEnded(at_s=101, fault=5),
            ev.QueryEnded(at_s=at_s, query=QUERY, error=error),
        ]

    return plant


def _raised(at_s: float, error: str) -> Plant:
    """A query ends by an error of the source. A broker of east is killed at 50 s, and brief created anew at 150 s."""

    def plant(run: Run) -> None:
        text = f"[STREAM_FAILED] x\nTraceback (most recent call last):\n  File y\nevensplit.errors.{error}\nSQLSTATE: 0"
        run.events.append(ev.QueryEnded(at_s=at_s, query=QUERY, error=text))

    return plant


def _fails_on_losses_after_a_start(at_s: float) -> Plant:
    """Records are deleted at 95 s, while the job is started to fail on losses, which lasts from 90 to 140 s."""

    def plant(run: Run) -> None:
        run.events += [
            ev.FaultBegan(at_s=90, fault=5, nemesis="restart-changed", what="the job is started again"),
            ev.FaultBegan(at_s=95, fault=6, nemesis="delete-records", what="records of plain of east are deleted"),
            ev.FaultEnded(at_s=96, fault=6),
            ev.FaultEnded(at_s=140, fault=5),
        ]
        _raised(at_s, "DataLossError: cluster 'Ost', topic 'plain', partition 0: its log begins later")(run)

    return plant


def _own_job_ended(said: str, code: int = 1) -> Plant:
    """A job of the user's own, which does not catch errors, ends while a cluster has two names."""

    def plant(run: Run) -> None:
        run.change(ev.RunBegan, lambda _: True, lambda one: replace(one, job=("python", "my_job.py")))
        run.events += [
            ev.FaultBegan(at_s=100, fault=5, nemesis="cluster-twice", what="east is called Ost-2 as well"),
            ev.FaultEnded(at_s=105, fault=5),
            ev.JobEnded(at_s=101, pid=1, code=code, expected=False, said=said),
        ]

    return plant


SAID_LAST = """Traceback (most recent call last):
evensplit.errors.ClusterError: it is 'Ost', which is listed as well, so records could be read twice"""


HELD: dict[str, Plant] = {
    "a query ends by the error that a fault explains": _ended(
        102, "File x\nevensplit.errors.ClusterUnreachable: cluster 'east'", "cluster-down"
    ),
    "a query ends 30 s after a fault that explains it": _ended(130.9, KILLED),
    "the error names the cluster of the fault": _raised(70, "ClusterUnreachable: cluster 'Ost': no broker answers"),
    "the error names the topic of the fault": _raised(155, "DataLossError: cluster 'Ost', topic 'brief', partition 0"),
    "a dead broker loses records of a topic with unclean elections": _raised(
        70, "DataLossError: cluster 'Ost', topic 'risky', partition 0: offsets 3 to 7 are gone"
    ),
    "a loss is noticed when the query is back": _fails_on_losses_after_a_start(169.9),
    "a job of the user's own ends by an error that a fault explains": _own_job_ended(SAID_LAST),
}

OUTSIDE: dict[str, Plant] = {
    "an error is named by code alone": _ended(102, CODE, "cluster-down"),
    "a query ends later than 30 s after a fault": _ended(131.1, KILLED),
    "a query ends by another error": _ended(102, "IndexError: 7"),
    "a query ends in a fault of another kind": _ended(102, KILLED, "clock-skew"),
    "a loss is noticed later": _fails_on_losses_after_a_start(200.1),
    "a dead broker loses records of another topic": _raised(
        70, "DataLossError: cluster 'Ost', topic 'plain', partition 0: offsets 3 to 7 are gone"
    ),
    "a job of the user's own ends by another error": _own_job_ended(
        f"{SAID_LAST}\nTraceback (most recent call last):\nIndexError: 7"
    ),
    "a job of the user's own crashes after an error that it logged": _own_job_ended(SAID_LAST, -11),
    "a job of the user's own logs an error and ends without one": _own_job_ended(
        "it is 'Ost', which is listed as well, so records could be read twice"
    ),
}


@pytest.mark.parametrize("plant", HELD.values(), ids=HELD)
def test_an_end_that_a_fault_explains_is_held(tmp_path: Path, plant: Plant) -> None:
    run = faultless()
    plant(run)
    assert check(run.write(tmp_path)).findings == ()


@pytest.mark.parametrize("plant", OUTSIDE.values(), ids=OUTSIDE)
def test_an_end_that_no_fault_explains_is_found(tmp_path: Path, plant: Plant) -> None:
    run = faultless()
    plant(run)
    assert {finding.kind for finding in check(run.write(tmp_path)).findings} == {"ended by itself"}


def test_a_fault_that_could_not_be_ended_goes_on_and_is_said(tmp_path: Path) -> None:
    run = faultless()
    run.events += [
        ev.FaultBegan(at_s=105, fault=3, nemesis="cut", what="east is cut off", clusters=("east",)),
        ev.FaultFailed(at_s=109, fault=3, nemesis="cut", problem="no answer", made=True),
    ]
    run.batches["parquet"][11] = [(token, 155.0, rows) for token, _, rows in run.batches["parquet"][11]]
    _raised(145, "ClusterUnreachable: cluster 'Ost': no broker answers")(run)
    # It is about east alone.
    _raised(145, "ClusterUnreachable: cluster 'West': no broker answers")(run)
    verdict = check(run.write(tmp_path))
    assert [one.kind for one in verdict.findings] == ["ended by itself"]
    assert "West" in verdict.findings[0].what
    assert verdict.figures["faults by nemesis"]["cut"] == 1
    assert any("from 105 s on" in one and "east is cut off" in one for one in verdict.not_judged)


def test_every_excuse_names_a_page_of_the_documentation_that_says_it() -> None:
    for excuse in EVENSPLIT:
        phrase, _, page = excuse.where.rpartition(", ")
        text = " ".join((ROOT / page).read_text().split())
        assert phrase in text, f"{page} does not say: {phrase}"
