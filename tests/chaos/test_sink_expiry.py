"""A transaction that expires because the process that commits is away: what was decided and lost is always said."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from tests.support.sink_job import QUICK, SinkJob, faults_in, sink_job
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _queries_end() -> None:
    """Nothing here uses the session of the tests."""


TIMEOUT_S = 12.0
"""Longer than what a transaction has to have left when it is decided."""
OPTIONS = {"kafka.transaction.timeout.ms": str(int(TIMEOUT_S * 1000))}
WITHIN_S = 120.0


def test_what_was_decided_and_expired_is_an_error_at_each_restart_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalKafka(properties=QUICK) as kafka, sink_job(tmp_path, kafka, monkeypatch, options=OPTIONS) as job:
        _let_expire(job, "commit.Append.after")
        errors = wait_for(lambda: _decided(job, 3), within_s=WITHIN_S, what="three ends of the query")
        assert all("BatchIncomplete" in one for one in errors[:3]), errors
        told = {_told(one) for one in errors[:3]}
        assert len(told) == 1
        batch, counts = told.pop()
        former = job.process.kill()
        job.process.wait_for_another(former, WITHIN_S)
        again = wait_for(lambda: _decided(job, len(errors) + 1), within_s=WITHIN_S, what="another end of the query")
        assert _told(again[-1]) == (batch, counts)
        job.process.task = replace(job.task, written={**job.task.written, "acceptIncomplete": batch})
        former = job.process.kill()
        job.process.wait_for_another(former, WITHIN_S)
        rows = job.finish(missing=sum(dict(counts).values()))
    found = faults_in(rows, job.trickle.written)
    assert all(one.endswith("is missing") for one in found), found
    assert len(found) == sum(dict(counts).values()) > 0


def test_what_expired_before_it_was_decided_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalKafka(properties=QUICK) as kafka, sink_job(tmp_path, kafka, monkeypatch, options=OPTIONS) as job:
        _let_expire(job, "commit.CheckOpen.before")
        wait_for(job.errors, within_s=WITHIN_S, what="the end of the query")
        job.wait_for_progress()
        rows = job.finish()
        # A slow machine may need more than the few seconds that a batch has here, and is told so again.
        assert all("TransactionTooOld" in one for one in job.errors()), job.errors()
    assert faults_in(rows, job.trickle.written) == []


def _let_expire(job: SinkJob, point: str) -> None:
    """Hold the process that commits until no transaction is open any more."""
    job.points.arm(point, "hold")
    job.points.wait(point, job)
    wait_for(job.reader.sees_all, within_s=WITHIN_S, what="transactions that have expired")
    job.points.release(point)


def _decided(job: SinkJob, count: int) -> list[str]:
    """The errors about a batch that was decided, once there are so many.

    On a slow machine, a batch before it may have been too old to be decided.
    """
    found = [error for error in job.errors() if "TransactionTooOld" not in error]
    return found if len(found) >= count else []


def _told(error: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The batch that an error names, and partitions with counts."""
    found = re.search(r"query [\w-]+, batch (\d+): it was decided.*?will not see: (.*?)\. ", error)
    assert found is not None, error
    counts = Counter(
        {place: int(count.replace(",", "")) for place, count in re.findall(r"([\w-]+/\d+) \(([\d,]+) record", found[2])}
    )
    return found[1], tuple(sorted(counts.items()))
