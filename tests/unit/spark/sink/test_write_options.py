"""Options and columns of what writes: each as declared, and all that is wrong in one error."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from evensplit.errors import OptionError
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS
from evensplit.kafka.options.option import FLAG, Form, Name, Option, WholeNumber
from evensplit.kafka.options.producer import (
    LEVELS,
    PRODUCER_IGNORED,
    PRODUCER_OPTIONS,
    PRODUCER_REFUSED,
    ProducerSettings,
)
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.all import BY_NAME
from evensplit.spark.options.spec.sink import (
    LEDGER_CLUSTER,
    SINK_BY_NAME,
    SINK_DECLARED,
    WRITE_CLUSTER,
    WRITE_CLUSTERS,
)
from evensplit.spark.sink.options import WriteOptions, parse_writing
from tests.support.written import struct_type

ONE = {"kafka.bootstrap.servers": "broker:9092", "topic": "t"}
TWO = {
    "clusters": '{"east": {"kafka.bootstrap.servers": "e:1"}, "west": {"kafka.bootstrap.servers": "w:1"}}',
    "topic": "t",
    "ledgerCluster": "east",
}
ALL = "value string, key binary, topic string, partition int, headers array<struct<key:string,value:binary>>, "
ALL += "cluster string, timestamp timestamp"


def schema(ddl: str = ALL) -> StructType:
    return struct_type(ddl)


def parse(options: Mapping[str, Any], ddl: str = ALL, *, stream: bool = True) -> WriteOptions:
    return parse_writing(options, schema(ddl), stream=stream)


def problems(options: Mapping[str, Any], ddl: str = ALL, *, stream: bool = True) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        parse(options, ddl, stream=stream)
    return caught.value.problems


def beside(option: Option) -> dict[str, str]:
    if option in (WRITE_CLUSTERS, WRITE_CLUSTER, LEDGER_CLUSTER):
        return dict(TWO)
    compression = next((codec for codec, level in LEVELS.items() if level is option), None)
    return {**ONE, **({"kafka.compression.type": compression} if compression else {})}


@pytest.mark.parametrize("option", [pytest.param(one, id=one.name) for one in SINK_DECLARED])
def test_the_example_is_accepted_and_has_an_effect(option: Option) -> None:
    without = {name: value for name, value in beside(option).items() if name != option.name}
    parsed = parse({**without, option.name: option.example})
    if option in (BOOTSTRAP_SERVERS, WRITE_CLUSTERS, LEDGER_CLUSTER):
        return
    assert parsed != parse({**without, "topic": "t"})
    assert not parsed.ignored


@pytest.mark.parametrize("option", [pytest.param(one, id=one.name) for one in SINK_DECLARED])
def test_a_wrong_value_is_one_problem(option: Option) -> None:
    free = type(option.type) in (Name, Form) or option.type.secret or option.name == "transactionalIdPrefix"
    wrong = "" if free else "zzz"
    if option.name in ("kafka.client.id", "kafka.bootstrap.servers", "clusters"):
        return
    (found,) = problems({**beside(option), option.name: wrong})
    assert found.startswith(option.name)


def test_defaults() -> None:
    parsed = parse(ONE)
    assert parsed.exactly_once
    assert not parse(ONE, stream=False).exactly_once
    assert (parsed.ledger, parsed.ledger_cluster, parsed.id_prefix) == ("evensplit-ledger", "default", "evensplit")
    assert (parsed.topic, parsed.cluster, parsed.accept_incomplete) == ("t", "default", None)
    assert parsed.clusters[0].client == ClientSettings(("broker:9092",))
    assert parsed.clusters[0].producing == ProducerSettings()
    assert (parsed.columns.headers, parsed.columns.timestamp, parsed.columns.topic) == (4, None, None)
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_every_setting_of_a_producer_has_an_option() -> None:
    declared = {one.field for one in PRODUCER_OPTIONS if one.field} | {"compression_level"}
    assert declared == {one.name for one in fields(ProducerSettings)}
    for one in PRODUCER_OPTIONS:
        if one.field:
            parsed = parse({**ONE, one.name: one.example})
            assert getattr(parsed.clusters[0].producing, one.field) == one.type.parse(one.example) != one.default


def test_a_level_is_that_of_its_codec_alone() -> None:
    options = {**ONE, "kafka.compression.zstd.level": "10", "kafka.compression.lz4.level": "5"}
    for codec, level in (("zstd", 10), ("lz4", 5), ("gzip", None), ("none", None)):
        assert parse({**options, "kafka.compression.type": codec}).clusters[0].producing.compression_level == level


def test_all_that_is_wrong_is_in_one_error() -> None:
    wrong = {"kafka.bootstrap.servers": "no port", "delivery": "twice", "subscribe": "t", "ledgr": "x", "topic": "a b"}
    found = problems({**wrong, "kafka.acks": "1"}, "value int, headers string")
    assert len(found) == 8, found
    assert len(set(found)) == 8


def test_columns_that_are_wrong_are_not_counted_as_options() -> None:
    with pytest.raises(OptionError, match=r"^1 option and 2 columns are wrong:"):
        parse({**ONE, "topic": "a b"}, "value int, headers string")
    with pytest.raises(OptionError, match=r"^1 column is wrong: column value is int"):
        parse(ONE, "value int")


@pytest.mark.parametrize("name", sorted(PRODUCER_REFUSED))
def test_settings_that_are_refused(name: str) -> None:
    (found,) = problems({**ONE, f"kafka.{name}": "x"})
    assert found == f"kafka.{name} {PRODUCER_REFUSED[name]}"


@pytest.mark.parametrize("name", sorted(PRODUCER_IGNORED))
def test_settings_that_are_ignored_are_named(name: str) -> None:
    (found,) = parse({**ONE, f"kafka.{name}": "7"}).ignored
    assert found.startswith(f"kafka.{name}")
    assert PRODUCER_IGNORED[name] in found


@pytest.mark.parametrize(
    "name, right, wrong", [("acks", ("all", "-1", "ALL"), "1"), ("enable.idempotence", ("true", "True"), "false")]
)
def test_settings_that_can_have_one_value(name: str, right: tuple[str, ...], wrong: str) -> None:
    for value in right:
        assert parse({**ONE, f"kafka.{name}": value}) == parse(ONE)
    (found,) = problems({**ONE, f"kafka.{name}": wrong})
    assert found.startswith(f"kafka.{name} is '{wrong}'; expected ")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("kafka.isolation.level", "kafka.isolation.level is for reading"),
        ("kafka.fetch.max.bytes", "kafka.fetch.max.bytes is for reading"),
        ("kafka.linger", "did you mean kafka.linger.ms?"),
        ("kafka.batch.sise", "did you mean kafka.batch.size?"),
        ("kafka.zzz", "expected a setting of Kafka's producer"),
        ("batch.size", "write kafka.batch.size: the settings of Kafka's client begin with kafka."),
        ("startingOffsets", "it is for reading"),
        ("subscribe", "it is for reading"),
        ("metadata", "a metadata service lists clusters to read; give kafka.bootstrap.servers or clusters"),
        ("deliveri", "did you mean delivery?"),
        ("zzz", "expected one of clusters, cluster, topic, "),
        ("includeCluster", "it is for reading"),
    ],
)
def test_names_that_are_no_options_of_what_writes(name: str, expected: str) -> None:
    for given in (name, name.lower()):
        (found,) = problems({**ONE, given: "x"})
        assert expected in found


def test_every_option_for_reading_alone_is_refused_with_the_reason() -> None:
    for name, one in BY_NAME.items():
        if name not in SINK_BY_NAME and "<" not in name:
            (found,) = problems({**ONE, name: one.example})
            assert "reading" in found or "to read" in found, found


def test_every_option_for_writing_alone_is_refused_by_what_reads() -> None:
    for name, one in SINK_BY_NAME.items():
        if name not in BY_NAME:
            with pytest.raises(OptionError) as caught:
                parse_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "t", one.name: one.example})
            (found,) = caught.value.problems
            assert found.startswith(f"{one.name} is not an option"), found
            assert one.name == "topic" or "give it to write or writeStream" in found, found


def test_what_spark_hands_over_beside_the_options_is_known() -> None:
    options = {**ONE, "checkpointlocation": "/tmp/x", "queryname": "q", "path": "/y"}
    assert parse(options) == parse(ONE)
    assert parse(options).ignored == ("path",)


def test_clusters_take_what_they_leave_out_from_outside() -> None:
    document = {
        "east": {"kafka.bootstrap.servers": "e:1", "kafka.batch.size": 5},
        "west": {"kafka.bootstrap.servers": "w:1"},
    }
    options = {**TWO, "clusters": json.dumps(document), "kafka.batch.size": "7", "kafka.client.id": "me"}
    parsed = parse(options)
    assert [(one.id, one.producing.batch_bytes_max, one.client.client_id) for one in parsed.clusters] == [
        ("east", 5, "me"),
        ("west", 7, "me"),
    ]
    assert (parsed.cluster, parsed.columns.cluster, parsed.ledger_cluster) == (None, 5, "east")
    assert parse({**options, "cluster": "west"}).columns.cluster is None


TOO_SHORT = "kafka.transaction.timeout.ms is '5000'; expected 8000 milliseconds or more, as no batch is decided in "
TOO_SHORT += "the last 6.5 s of its transactions"


def test_transactions_have_to_be_open_for_longer_than_a_commit_needs() -> None:
    options = {**ONE, "kafka.transaction.timeout.ms": "5000"}
    assert problems(options) == (TOO_SHORT,)
    assert problems({**options, "delivery": "exactly-once"}, stream=False) == (TOO_SHORT,)
    assert set(problems({**options, "kafka.acks": "1", "topic": "a b"})) > {TOO_SHORT}
    assert (
        parse({**options, "kafka.transaction.timeout.ms": "8000"}).clusters[0].producing.transaction_timeout_ms == 8000
    )
    parse({**options, "delivery": "at-least-once"})
    parse(options, stream=False)


def test_each_cluster_whose_transactions_are_too_short_is_named() -> None:
    document = {
        "east": {"kafka.bootstrap.servers": "e:1", "kafka.transaction.timeout.ms": 5_000},
        "west": {"kafka.bootstrap.servers": "w:1"},
    }
    assert problems({**TWO, "clusters": json.dumps(document)}) == (f"{TOO_SHORT} (of cluster 'east')",)


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"clusters": "x"}, "clusters has a wrong value, not shown as it may be a secret"),
        ({"clusters": "{}"}, "clusters has no clusters, or one without options"),
        ({"clusters": '{"a/b": {"kafka.bootstrap.servers": "e:1"}}', "ledgerCluster": "a/b"}, "names a cluster"),
        ({"cluster": "north"}, "cluster is 'north'; expected one of east, west"),
        ({"ledgerCluster": "north"}, "ledgerCluster is 'north'; expected one of east, west"),
        ({"kafka.bootstrap.servers": "b:1"}, "clusters is given beside kafka.bootstrap.servers"),
        (
            {"clusters": '{"east": {"kafka.bootstrap.servers": "e:1", "topic": "t"}}'},
            "topic is not an option for writing of cluster 'east'; it holds for all clusters",
        ),
        ({"clusters": '{"east": {"kafka.acks": "all"}}'}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_wrong_clusters(change: dict[str, str], expected: str) -> None:
    (found,) = problems({**TWO, **change})
    assert expected in found


def test_clusters_that_cannot_be_read_are_one_problem() -> None:
    """Not another one for the column that several of them would need."""
    assert len(problems({"clusters": "x", "topic": "t"}, "value string")) == 1


def test_several_clusters_need_a_ledger_for_exactly_once_streams_alone() -> None:
    without = {name: value for name, value in TWO.items() if name != "ledgerCluster"}
    (found,) = problems(without)
    assert found.startswith("ledgerCluster is missing, and clusters has several")
    parse({**without, "delivery": "at-least-once"})
    parse({**without, "delivery": "exactly-once"}, stream=False)


@pytest.mark.parametrize(
    "ddl, options, expected",
    [
        ("key string", ONE, "required attribute 'value' not found"),
        ("value int", ONE, "value must be a(n) string or binary"),
        ("value string, key int", ONE, "key must be a(n) string or binary"),
        ("value string, partition bigint", ONE, "partition must be a(n) int"),
        (
            "value string, headers map<string,binary>",
            ONE,
            "headers must be a(n) array<struct<key:string,value:binary>>",
        ),
        (
            "value string",
            {"kafka.bootstrap.servers": "b:1"},
            "topic option required when no 'topic' attribute is present",
        ),
        ("value string, topic binary", {"kafka.bootstrap.servers": "b:1"}, "topic must be a(n) string"),
        ("value string", {**ONE, "includeTimestamp": "true"}, "column timestamp is missing, and includeTimestamp is"),
        ("value string, timestamp long", {**ONE, "includeTimestamp": "true"}, "timestamp must be a(n) timestamp"),
        ("value string", TWO, "column cluster is missing, and clusters has several"),
        ("value string, cluster int", TWO, "cluster must be a(n) string"),
        ("Value string", ONE, "required attribute 'value' not found"),
    ],
)
def test_wrong_columns(ddl: str, options: dict[str, str], expected: str) -> None:
    (found,) = problems(options, ddl)
    assert expected in found


def test_a_column_that_is_there_twice() -> None:
    twice = StructType([StructField("value", StringType())] * 2)
    with pytest.raises(OptionError, match="column value is there 2 times"):
        parse_writing(ONE, twice, stream=True)


def test_columns_that_are_not_written_may_be_anything() -> None:
    """As in Spark: what was read from Kafka can be written as it is, with the topic of the option."""
    read = "key binary, value binary, topic int, partition int, offset bigint, timestamp string, timestampType int"
    parsed = parse({**ONE, "includeHeaders": "false"}, f"{read}, headers string, cluster int, other date")
    assert (parsed.columns.key, parsed.columns.value, parsed.columns.partition) == (0, 1, 3)
    assert {parsed.columns.topic, parsed.columns.timestamp, parsed.columns.headers, parsed.columns.cluster} == {None}


def test_what_only_streams_have_is_ignored_in_a_batch_query() -> None:
    options = {**ONE, "ledger": "x", "acceptIncomplete": "3"}
    assert parse(options, stream=False).ignored == ("acceptIncomplete", "ledger")
    assert parse(options).ignored == ()


def test_meanings_are_sentences() -> None:
    for one in SINK_DECLARED:
        assert one.meaning[0].isupper(), one.name
        assert one.meaning.endswith("."), one.name
        assert one.type is not FLAG or one.example in ("true", "false")
        assert not isinstance(one.type, WholeNumber) or one.type.parse(one.example) is not None
