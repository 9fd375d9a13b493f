"""Options of Spark's own source about triggers and consumers: what they mean, and those that mean nothing here."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from evensplit.spark.options.hints import ignored_text
from evensplit.spark.options.parse import check_batch, check_streaming
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import Source
from tests.support.options import parse, problems


def test_a_minimum_of_nothing_is_none() -> None:
    assert parse(minOffsetsPerTrigger="0").limits.offsets_min is None
    assert parse(minOffsetsPerTrigger="0", maxOffsetsPerTrigger="1").limits.offsets_max == 1


def test_a_minimum_above_the_maximum() -> None:
    assert parse(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="9").limits.offsets_min == 9
    (found,) = problems(minOffsetsPerTrigger="15", maxOffsetsPerTrigger="5")
    assert found == (
        "minOffsetsPerTrigger is 15, which is higher than the maxOffsetsPerTrigger (5); expected minOffsetsPerTrigger "
        "of at most 5, or a higher maxOffsetsPerTrigger"
    )


@pytest.mark.parametrize(
    "options, limit",
    [
        ({}, ReadAllAvailable()),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"maxOffsetsPerTrigger": "9"}, ReadMaxRows(9)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "9"}, ReadMaxRows(9)),
        ({"maxTriggerDelay": "5s"}, ReadAllAvailable()),
    ],
)
def test_spark_is_told_that_there_is_a_limit(options: dict[str, str], limit: ReadLimit) -> None:
    assert EvenSplitStreamReader(parse(**options), 1).getDefaultReadLimit() == limit


def test_a_wait_that_no_socket_could_have_is_cut() -> None:
    assert parse(**{"kafkaConsumer.pollTimeoutMs": str(2**63 - 1)}).reading.poll_timeout_ms == 2**31 - 1


WITHOUT_MEANING: dict[str, Any] = {
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "groupIdPrefix": "jobs",
    "kafka.group.id": "job",
    "maxTriggerDelay": "5s",
}


def test_what_means_nothing_here_is_named(caplog: pytest.LogCaptureFixture) -> None:
    options = parse(**WITHOUT_MEANING)
    assert options.ignored == tuple(sorted(WITHOUT_MEANING))
    check_streaming(options)
    check_batch(options)
    caplog.set_level(logging.WARNING, "evensplit")
    Source(FakeKafka("east"), **WITHOUT_MEANING)
    (record,) = caplog.records
    named = ignored_text(sorted(WITHOUT_MEANING))
    assert record.getMessage() == f"these options have no meaning here and are ignored: {named}"


@pytest.mark.parametrize(
    "batch, ignored", [(False, ""), (True, "maxOffsetsPerTrigger, maxTriggerDelay, minOffsetsPerTrigger")]
)
def test_limits_mean_nothing_in_a_batch_query_and_are_named(
    caplog: pytest.LogCaptureFixture, batch: bool, ignored: str
) -> None:
    limits: dict[str, Any] = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "5s"}
    check_batch(parse(**limits))
    caplog.set_level(logging.WARNING, "evensplit")
    Source(FakeKafka("east"), batch=batch, **limits)
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert said == ([ignored] if ignored else [])
