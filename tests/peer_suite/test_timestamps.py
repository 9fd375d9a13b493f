"""Where a new query starts that is given times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.peer_suite.timed import FIRST_MS, SECOND_MS, write_timed
from tests.support.fleets import Batches
from tests.support.queries import offset_files
from tests.support.records import spread
from tests.support.steps import Stepped, finish, source

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

FROM_SECOND = [-22, -21, -12, -11, 2, 12]


@pytest.mark.slow
def test_a_time_for_each_partition(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """Scenario 16. The restart goes on; the times are for a new query only."""
    east.create_topic(topic, 5)
    write_timed(east.bootstrap_servers, topic)
    times = {**dict.fromkeys("0123", SECOND_MS), "4": FIRST_MS}
    frame = source(spark, east, subscribe=topic, startingOffsetsByTimestamp=json.dumps({topic: times}))
    with Stepped(frame, checkpoint) as query:
        query.expect([*FROM_SECOND, 20, 21, 22])
        query.restart()
        query.idle()
        spread(east.bootstrap_servers, topic, {3: [31], 4: [32]}, timestamp_ms=FIRST_MS)
        query.expect([*FROM_SECOND, 20, 21, 22, 31, 32])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["one timestamp", "timestamps"])
@pytest.mark.parametrize("kind", ["subscribe", "subscribePattern"])
def test_a_partition_without_a_record_of_that_time_is_an_error_or_starts_at_its_end(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, kind: str, form: str
) -> None:
    """Scenario 17, and the four tests of a "non-matching starting timestamp"."""
    east.create_topic(topic, 5)
    write_timed(east.bootstrap_servers, topic)
    start = (
        {"startingTimestamp": SECOND_MS}
        if form == "one timestamp"
        else {"startingOffsetsByTimestamp": json.dumps({topic: dict.fromkeys("01234", SECOND_MS)})}
    )
    options = {kind: topic if kind == "subscribe" else f"^{topic}$", **start}
    for strategy in ({}, {"startingOffsetsByTimestampStrategy": "error"}):
        with pytest.raises(PySparkException) as caught:
            finish(source(spark, east, **options, **strategy), checkpoint, Batches())
        assert f"topic '{topic}', partition 4 has no record at {SECOND_MS}" in str(caught.value)
        assert "startingOffsetsByTimestampStrategy=latest" in str(caught.value)
    assert offset_files(checkpoint) == []
    frame = source(spark, east, **options, startingOffsetsByTimestampStrategy="latest")
    with Stepped(frame, checkpoint) as query:
        query.expect(FROM_SECOND)
        spread(east.bootstrap_servers, topic, {4: [23, 24, 25]})
        query.expect([*FROM_SECOND, 23, 24, 25])
