"""Limits of batches: of all, of clusters and of topics, in offsets and in bytes; and priorities."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from evensplit.core.batch.limits import Caps, Priority
from evensplit.core.model import Cluster, Held, Topic
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.parse import parse_options
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import Source, ranges
from tests.support.options import parse, problems, problems_of
from tests.support.waiting import wait_for

TWO = {
    "clusters": json.dumps(
        {
            "eu": {"kafka.bootstrap.servers": "e:1", "subscribe": "orders,clicks"},
            "us": {"kafka.bootstrap.servers": "u:1", "subscribePattern": "t-.*"},
        }
    )
}
EU, US, ORDERS = Cluster("eu"), Cluster("us"), Topic("eu", "orders")


def test_one_number_is_of_the_batch() -> None:
    assert parse(maxOffsetsPerTrigger=" 9 ").limits.offsets == Caps(9)
    assert parse(maxOffsetsPerTrigger=str(2**63 - 1)).limits.offsets_max == 2**63 - 1
    assert parse().limits.offsets == Caps()


@pytest.mark.parametrize("wrong", ["0", "-1", str(2**63), "", "many", "1.5", "1e3", "1_0", "²", "9" * 5000, "[1]"])
def test_another_number_is_wrong(wrong: str) -> None:
    (found,) = problems(maxOffsetsPerTrigger=wrong)
    assert found.startswith("maxOffsetsPerTrigger is ")
    assert "; expected a whole number, 1 or more, or JSON of them by cluster and topic" in found


@pytest.mark.parametrize(
    "text, amount",
    [
        *(("1", 1), ("512", 512), ("1k", 1024), ("2KB", 2048), ("64MB", 64 << 20)),
        *(("3 g", 3 << 30), ("1TiB", 1 << 40), ("1p", 1 << 50), ("5b", 5)),
    ],
)
def test_bytes_have_a_unit_or_none(text: str, amount: int) -> None:
    assert parse(maxBytesPerTrigger=text).limits.bytes == Caps(amount)
    document = json.dumps({"default": {"t": text}})
    assert parse(maxBytesPerTrigger=document).limits.bytes == Caps(None, {Topic("default", "t"): amount})


@pytest.mark.parametrize("wrong", ["0", "0k", "", "m", "1x", "1.5g", "-1m", "9000p", "1 m b"])
def test_other_bytes_are_wrong(wrong: str) -> None:
    (found,) = problems(maxBytesPerTrigger=wrong)
    assert found.startswith(f"maxBytesPerTrigger is {wrong!r}; expected a number of bytes, 1 or more, with or without")


def test_by_cluster_and_topic() -> None:
    document = {"eu": {"orders": 5, "*": "20"}, "us": 50, "*": 60}
    limits = parse_options({**TWO, "maxOffsetsPerTrigger": json.dumps(document)}).limits
    assert limits.offsets == Caps(60, {ORDERS: 5, EU: 20, US: 50})
    assert limits.batch


@pytest.mark.parametrize(
    "document, reason",
    [
        ({}, "it has no limit"),
        ({"eu": {}}, "cluster 'eu' has no limit"),
        ({"eu": 0}, "that of 'eu' is '0'"),
        ({"*": True}, "that of '*' is 'true'"),
        ({"eu": {"orders": {"0": 1}}}, "that of 'eu/orders' is '{\"0\": 1}'"),
        ({"eu": {"a b": 1}}, "'a b' of cluster 'eu' cannot be a topic"),
        ({"e/u": 1}, "'e/u' cannot be a cluster"),
        ({"eu": 9, "*": 5}, "that of 'eu' is 9, which is higher than the 5 of the batch ('*')"),
        (
            {"eu": {"orders": 9, "*": 5}},
            "that of 'eu/orders' is 9, which is higher than the 5 of its cluster as a whole",
        ),
        ({"eu": 0, "us": -1}, "that of 'eu' is '0', that of 'us' is '-1'"),
    ],
)
def test_what_is_wrong_by_cluster_and_topic(document: dict[str, Any], reason: str) -> None:
    (found,) = problems_of({**TWO, "maxOffsetsPerTrigger": json.dumps(document)})
    assert found.startswith("maxOffsetsPerTrigger is ")
    assert f": {reason}" in found


@pytest.mark.parametrize("name, amount", [("maxOffsetsPerTrigger", str(2**63)), ("maxBytesPerTrigger", "9000p")])
def test_an_amount_that_is_too_large_is_told(name: str, amount: str) -> None:
    (found,) = problems(**{name: amount})
    assert found.endswith(": the highest is 9223372036854775807")


def test_amounts_are_told_as_they_were_given() -> None:
    document = json.dumps({"eu": {"orders": "5g", "*": "2g"}, "us": "1t", "*": "6g"})
    (found,) = problems_of({**TWO, "maxBytesPerTrigger": document})
    assert "that of 'eu/orders' is 5g, which is higher than the 2g of its cluster as a whole ('*')" in found
    assert "that of 'us' is 1t, which is higher than the 6g of the batch ('*')" in found


def test_no_more_names_than_anyone_needs() -> None:
    document = json.dumps({"eu": {f"t{number}": 1 for number in range(1_001)}})
    (found,) = problems_of({"metadata": "/fleet.yaml", "maxOffsetsPerTrigger": document})
    assert found.endswith("it names 1001 clusters and topics; expected 1000 at most")


def test_priorities() -> None:
    def of(value: Any) -> Priority:
        given = {**TWO, "maxOffsetsPerTrigger": "9", "priority": json.dumps(value)}
        return parse_options(given).limits.priority

    assert of(["eu/orders", "us"]) == Priority(order=(ORDERS, US))
    assert of({"eu/orders": 3, "us": 2}) == Priority(weights={ORDERS: 3, US: 2}, others_weight=1)
    assert of({"us": 2, "*": 7}) == Priority(weights={US: 2}, others_weight=7)


@pytest.mark.parametrize(
    "value, reason",
    [
        ([], ""),
        ({}, ""),
        ("eu", ""),
        ([1], ": '1' is neither a cluster nor cluster/topic"),
        (["eu/"], ": 'eu/' is neither a cluster nor cluster/topic"),
        (["*"], ": '*' is neither a cluster nor cluster/topic"),
        (["eu", "us", "eu"], ": 'eu' is in it twice"),
        ({"eu": 0}, ": that of 'eu' is '0'"),
        ({"eu": "2"}, ": that of 'eu' is '2'"),
        ({"*": 2}, ": it names neither a cluster nor a topic"),
        ([f"c{number}" for number in range(1001)], ": it names 1001 clusters and topics; expected 1000 at most"),
    ],
)
def test_wrong_priorities(value: Any, reason: str) -> None:
    found = problems_of({**TWO, "maxOffsetsPerTrigger": "9", "priority": json.dumps(value)})
    assert len(found) == 1
    assert found[0].startswith("priority is ")
    assert found[0].endswith(f'"*": 1}}{reason}')


def test_a_priority_without_a_limit_has_no_effect() -> None:
    assert parse(priority='["default"]').ignored == ("priority",)
    assert parse(priority='["default"]', maxBytesPerTrigger="1m").ignored == ()


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"maxOffsetsPerTrigger": '{"eus": 5}'},
            "maxOffsetsPerTrigger names the cluster 'eus', which does not exist; did ",
        ),
        (
            {"maxBytesPerTrigger": '{"eu": {"order": 5}}'},
            "maxBytesPerTrigger names the topic 'order' of cluster 'eu', ",
        ),
        ({"maxBytesPerTrigger": '{"us": {"x": 5}}'}, "maxBytesPerTrigger names the topic 'x' of cluster 'us', which "),
        (
            {"maxOffsetsPerTrigger": "5", "priority": '["zz/t"]'},
            "priority names the cluster 'zz', which does not exist",
        ),
    ],
)
def test_names_that_there_are_not(options: dict[str, str], expected: str) -> None:
    (found,) = problems_of({**TWO, **options})
    assert found.startswith(expected)
    assert parse_options({"metadata": "/fleet.yaml", **options}).limits.batch, "they may come to be"


@pytest.mark.parametrize(
    "options, limit",
    [
        ({"maxBytesPerTrigger": "2k"}, ReadMaxBytes(2048)),
        ({"maxBytesPerTrigger": "2k", "maxOffsetsPerTrigger": "9"}, ReadMaxRows(9)),
        ({"maxOffsetsPerTrigger": '{"default": 9}'}, ReadMaxRows(2**63 - 1)),
        ({"maxOffsetsPerTrigger": '{"default": 9, "*": 10}'}, ReadMaxRows(10)),
    ],
)
def test_the_limit_that_spark_is_told(options: dict[str, str], limit: object) -> None:
    assert EvenSplitStreamReader(parse(**options), 1).getDefaultReadLimit() == limit


def test_a_minimum_is_compared_with_the_limit_of_the_batch() -> None:
    assert parse(minOffsetsPerTrigger="15", maxOffsetsPerTrigger='{"default": 5}').limits.offsets_min == 15
    (found,) = problems(minOffsetsPerTrigger="15", maxOffsetsPerTrigger='{"default": 5, "*": 6}')
    assert found.startswith("minOffsetsPerTrigger is 15, which is higher than the maxOffsetsPerTrigger (6)")


@pytest.mark.parametrize(
    "options, hint",
    [
        ({"maxOffsetsPerTrigger": '{"t": 5}'}, 'did you mean {"default": {"t": 5}}?'),
        ({"maxBytesPerTrigger": '{"t": "64m"}'}, 'did you mean {"default": {"t": "64m"}}?'),
        ({"maxOffsetsPerTrigger": "5", "priority": '["t"]'}, "did you mean 'default/t'?"),
        ({"maxOffsetsPerTrigger": "5", "priority": '{"t": 2}'}, "did you mean 'default/t'?"),
        ({"maxOffsetsPerTrigger": '{"zz": 5}'}, "expected 'default'"),
        ({"pin": '{"0": ["zz"]}'}, "expected 'default'"),
        ({"maxOffsetsPerTrigger": '{"t": {"x": 5}}'}, "expected 'default'"),
    ],
)
def test_a_topic_in_the_place_of_a_cluster(options: dict[str, str], hint: str) -> None:
    (found,) = problems(**options)
    assert found.endswith(f", which does not exist; {hint}")
    assert parse(maxOffsetsPerTrigger='{"default": {"t": 5}}').limits.offsets == Caps(None, {Topic("default", "t"): 5})


def test_a_topic_in_the_place_of_one_of_several_clusters() -> None:
    (found,) = problems_of({**TWO, "maxOffsetsPerTrigger": '{"clicks": 5}'})
    assert found.endswith('; did you mean {"eu": {"clicks": 5}}?')
    (found,) = problems_of({**TWO, "maxOffsetsPerTrigger": '{"t-1": 5}'})
    assert found.endswith('; did you mean {"us": {"t-1": 5}}?'), "by the pattern"
    everything = json.dumps({"east": {"kafka.bootstrap.servers": "e:1", "subscribePattern": ".*"}})
    (found,) = problems_of({"clusters": everything, "maxOffsetsPerTrigger": '{"eas": 5}'})
    assert found.endswith("; did you mean 'east'?"), "a pattern may match anything"
    (found,) = problems_of({**TWO, "maxOffsetsPerTrigger": '{"zz": 5}'})
    assert found.endswith("; expected one of 'eu', 'us'")


def cluster(name: str, **counts: int) -> FakeKafka:
    """A cluster with so many records in a partition of each topic."""
    fake = FakeKafka(name)
    for topic, count in counts.items():
        fake.create_topic(topic, 1)
        fake.append(topic, 0, count)
    return fake


def read(source: Source) -> tuple[dict[str, int], tuple[Held, ...]]:
    """How many offsets the first batch reads of each partition, and what held it back."""
    end = source.plan(EnumeratorState(), limited=True)
    return {name: last - first for name, (first, last) in ranges(EnumeratorState(), end).items()}, end.held


def test_each_limit_holds_beside_the_others() -> None:
    limit = json.dumps({"eu": {"ta": 10, "*": 40}, "*": 60})
    clusters = cluster("eu", ta=100, tb=100), cluster("us", t=100)
    found, held = read(Source(*clusters, maxOffsetsPerTrigger=limit))
    assert found == {"eu/ta/0": 10, "eu/tb/0": 25, "us/t/0": 25}
    assert held == (Held("maxOffsetsPerTrigger"), Held("maxOffsetsPerTrigger", "eu/ta"))
    found, held = read(Source(*clusters, maxOffsetsPerTrigger=limit, priority='["eu/tb"]'))
    assert found == {"eu/tb/0": 40, "eu/ta/0": 1, "us/t/0": 19}
    assert held == (Held("maxOffsetsPerTrigger"), Held("maxOffsetsPerTrigger", "eu"))
    found, held = read(Source(*clusters, maxOffsetsPerTrigger="60", priority='{"us": 3, "*": 1}'))
    assert found == {"eu/ta/0": 7, "eu/tb/0": 7, "us/t/0": 45}


def test_nothing_is_held_by_limits_that_are_not_reached() -> None:
    found, held = read(Source(cluster("eu", t=9), maxOffsetsPerTrigger="9", maxBytesPerTrigger="1m"))
    assert (found, held) == ({"eu/t/0": 9}, ())


def test_names_of_which_nothing_is_read_are_a_notice() -> None:
    source = Source(cluster("eu", t=9), maxOffsetsPerTrigger='{"eu": {"ta": 5}}', priority='["eu/tb", "eu"]')
    state = source.plan(EnumeratorState(), limited=True)
    assert [one for one in source.coordinator.report().notices if "names" in one] == [
        "maxOffsetsPerTrigger names eu/ta, of which nothing is read",
        "priority names eu/tb, of which nothing is read",
    ]
    source.fakes["eu"].create_topic("ta", 1)
    source.fakes["eu"].create_topic("tb", 1)
    wait_for(lambda: (source.plan(state, limited=True), source.coordinator.report().notices == ())[1])
