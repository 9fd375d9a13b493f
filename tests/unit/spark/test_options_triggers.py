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


def test_limits() -> None:
    options = parse(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9", maxTriggerDelay="2m")
    assert (options.offsets_min, options.offsets_max, options.trigger_delay_ms) == (5, 9, 120_000)
    assert (parse().offsets_min, parse().offsets_max, parse().trigger_delay_ms) == (None, None, 900_000)
    assert parse(minOffsetsPerTrigger="0").offsets_min is None
    assert parse(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="9").offsets_min == 9
    assert parse(minOffsetsPerTrigger="1", maxOffsetsPerTrigger=str(2**63 - 1)).offsets_max == 2**63 - 1


def test_a_minimum_above_the_maximum() -> None:
    (found,) = problems(minOffsetsPerTrigger="15", maxOffsetsPerTrigger="5")
    assert found == (
        "minOffsetsPerTrigger is 15, which is higher than the maxOffsetsPerTrigger (5); expected minOffsetsPerTrigger "
        "of at most 5, or a higher maxOffsetsPerTrigger"
    )


@pytest.mark.parametrize(
    "text, expected_ms",
    [
        ("15m", 900_000),
        ("5s", 5_000),
        ("5S", 5_000),
        ("3min", 180_000),
        ("100ms", 100),
        ("250us", 0),
        ("2500us", 2),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("750", 750),
        (" 20s ", 20_000),
        ("0", 0),
        ("0s", 0),
        ("1.5 s", 1_500),
    ],
)
def test_a_delay_has_sparks_form_or_ours(text: str, expected_ms: int) -> None:
    assert parse(minOffsetsPerTrigger="1", maxTriggerDelay=text).trigger_delay_ms == expected_ms


@pytest.mark.parametrize("text", ["", "soon", "5 seconds", "-1s", "-1", "1.5", "5sec", "9" * 16])
def test_a_delay_that_is_none(text: str) -> None:
    (found,) = problems(maxTriggerDelay=text, minOffsetsPerTrigger="1")
    assert found.startswith(f"maxTriggerDelay is {text!r}; expected a number with its unit")


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


def test_a_wait_for_records() -> None:
    assert parse().poll_timeout_ms is None
    assert parse(**{"kafkaConsumer.pollTimeoutMs": "512"}).poll_timeout_ms == 512
    assert parse(**{"KAFKACONSUMER.polltimeoutms": str(2**63 - 1)}).poll_timeout_ms == 2**31 - 1


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("kafkaConsumer.pollTimeoutMs", ("0", "-5", "2s", "")),
        ("fetchOffset.numRetries", ("-1", "three", "2147483648")),
        ("fetchOffset.retryIntervalMs", ("-1", "10ms", "")),
        ("maxOffsetsPerTrigger", ("0", "all")),
        ("minOffsetsPerTrigger", ("-1", "all")),
    ],
)
def test_numbers_are_checked_whether_they_have_a_meaning_or_not(name: str, wrong: tuple[str, ...]) -> None:
    for text in wrong:
        (found,) = problems(**{name: text})
        assert found.startswith(f"{name} is {text!r}; expected a whole number of at least ")


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
