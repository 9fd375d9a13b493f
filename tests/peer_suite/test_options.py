"""Options that Spark's source refuses are refused, in whatever case they are written."""

from __future__ import annotations

import pytest

from evensplit.core.model import Topics
from evensplit.core.state.offset_strategies import Bounds, Earliest, Latest, resolve
from evensplit.errors import OptionError
from evensplit.spark.options.parse import check_batch, check_streaming, parse_options

SERVERS = {"kafka.bootstrap.servers": "host:9092"}
GOOD = {**SERVERS, "subscribe": "t"}


@pytest.mark.parametrize(
    "options, named",
    [
        ({"subscribe": "t"}, ["kafka.bootstrap.servers"]),
        (SERVERS, ["subscribe", "subscribePattern", "assign"]),
        ({**GOOD, "subscribePattern": "t.*"}, ["subscribe", "subscribePattern"]),
        ({**GOOD, "assign": '{"t": [0]}'}, ["subscribe", "assign"]),
        ({**SERVERS, "assign": ""}, ["assign"]),
        ({**SERVERS, "assign": "[1]"}, ["assign"]),
        ({**SERVERS, "subscribe": ""}, ["subscribe"]),
        ({**SERVERS, "subscribe": ","}, ["subscribe"]),
        ({**SERVERS, "subscribePattern": ""}, ["subscribePattern"]),
        ({**GOOD, "startingOffsetsByTimestampStrategy": "other"}, ["startingOffsetsByTimestampStrategy"]),
        ({**GOOD, "minPartitions": "a"}, ["minPartitions"]),
        ({**GOOD, "minPartitions": "0"}, ["minPartitions"]),
        ({**GOOD, "minPartitions": "-1"}, ["minPartitions"]),
        ({**GOOD, "maxRecordsPerPartition": "0"}, ["maxRecordsPerPartition"]),
        ({**GOOD, "maxOffsetsPerTrigger": "many"}, ["maxOffsetsPerTrigger"]),
    ],
)
def test_bad_options(options: dict[str, str], named: list[str]) -> None:
    """One by one; together they are one error that has them all."""
    with pytest.raises(OptionError) as caught:
        parse_options(options)
    assert all(name in str(caught.value) for name in named)


@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"],
)
def test_settings_of_the_client_that_are_not_the_users(name: str) -> None:
    """What they would do is what the source decides."""
    with pytest.raises(OptionError, match=name):
        parse_options({**GOOD, f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "1"}.get(name, '{"t": {"0": 1}}')
    with pytest.raises(OptionError, match=f"{name} is given, but a streaming query has no end"):
        check_streaming(parse_options({**GOOD, name: value}))


@pytest.mark.parametrize(
    "name, value",
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"t": {"0": -1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t": {"0": -2}}'),
    ],
)
def test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start(name: str, value: str) -> None:
    """There is nothing to be read there."""
    with pytest.raises(OptionError, match=name):
        check_batch(parse_options({**GOOD, name: value}))


@pytest.mark.parametrize(
    "written, meant",
    [
        ("earLiEst", Earliest()),
        (" LATEST ", Latest()),
        ('{"Topic-A": "laTest"}', Latest()),
    ],
)
@pytest.mark.parametrize("name", ["startingOffsets", "STARTINGOFFSETS", "startingoffsets"])
def test_words_are_understood_in_any_case_and_topics_keep_theirs(written: str, meant: object, name: str) -> None:
    """Option names and words, but not what is in JSON."""
    (cluster,) = parse_options({**SERVERS, "Subscribe": "Topic-A", name: written}).clusters
    assert cluster.starting is not None
    # Earliest and latest of a log from 3 to 7.
    found = resolve(cluster.starting, {("Topic-A", 0): Bounds(3, 7)})
    assert (found.offsets, found.problems) == ({("Topic-A", 0): 3 if meant == Earliest() else 7}, ())
    assert cluster.subscription == Topics(("Topic-A",))


def test_offsets_are_understood_in_any_case_of_their_name() -> None:
    (cluster,) = parse_options({**GOOD, "subscribe": "T", "STARTINGoffsets": '{"T": {"0": 5}}'}).clusters
    assert cluster.starting is not None
    assert resolve(cluster.starting, {("T", 0): Bounds(3, 7)}).offsets == {("T", 0): 5}
