"""The tables of options: what docs/options.md and the reference say of each is so, and no option is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.core.state.offset_strategies import Latest
from evensplit.errors import OptionError
from evensplit.kafka.options import client
from evensplit.kafka.options.security import SECURITY_IGNORED
from evensplit.spark.options.parse import SOURCE_OPTIONS, SourceOptions, parse_options
from evensplit.spark.options.per_cluster import CLUSTER_OPTIONS
from evensplit.spark.options.spec import OPTIONS, Option
from tests.support.named import is_there

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "options.md").read_text()
README = (ROOT / "README.md").read_text()

VERDICTS = ("the same", "differs", "ignored", "rejected")

VALUES = {
    "kafka.bootstrap.servers": "b:1",
    "subscribe": "u",
    "subscribePattern": "t.*",
    "assign": '{"t": [0]}',
    "startingTimestamp": "5",
    "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "startingOffsets": '{"t": {"0": 5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "endingTimestamp": "5",
    "endingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "endingOffsets": '{"t": {"0": 5}}',
    "maxOffsetsPerTrigger": "5",
    "minOffsetsPerTrigger": "5",
    "maxTriggerDelay": "5s",
    "minPartitions": "5",
    "maxRecordsPerPartition": "5",
    "kafkaConsumer.pollTimeoutMs": "5",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "5",
    "includeHeaders": "true",
    "failOnDataLoss": "false",
    "groupIdPrefix": "jobs",
    "kafka.group.id": "job",
    "kafka.isolation.level": "read_committed",
    "kafka.auto.offset.reset": "earliest",
    "kafka.key.deserializer": "x",
    "kafka.value.deserializer": "x",
    "kafka.enable.auto.commit": "false",
    "kafka.interceptor.classes": "x",
    "kafka.config.providers": "x",
    "_mockSystemTime": "5",
}
"""A value that Spark's own source takes, for each of its options."""

BESIDE = {
    "maxTriggerDelay": {"minOffsetsPerTrigger": "5"},
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "5"},
}
"""Without which an option means nothing."""


READ = "spark/test_options_hold.py::test_what_a_batch_query_reads"
PLANS = "spark/test_plans.py::test_every_plan_reads_everything_once_and_in_order"
SILENCE = "unit/spark/test_stream_partitions.py::test_a_task_that_gets_nothing_says_what_it_waited_for"
HELD_BY = {
    "kafka.bootstrap.servers": "spark/test_batch.py::test_every_field_is_what_an_independent_client_reads",
    "subscribe": READ,
    "subscribePattern": READ,
    "assign": READ,
    "startingTimestamp": READ,
    "startingOffsetsByTimestamp": READ,
    "startingOffsets": READ,
    "startingOffsetsByTimestampStrategy": READ,
    "endingTimestamp": READ,
    "endingOffsetsByTimestamp": READ,
    "endingOffsets": READ,
    "maxOffsetsPerTrigger": "spark/test_options_hold.py::test_a_run_to_the_end_leaves_nothing_behind",
    "minOffsetsPerTrigger": "spark/test_options_hold.py::test_a_batch_waits_for_its_minimum",
    "maxTriggerDelay": "spark/test_options_hold.py::test_a_batch_waits_no_longer_than_it_may",
    "minPartitions": PLANS,
    "maxRecordsPerPartition": PLANS,
    "kafkaConsumer.pollTimeoutMs": SILENCE,
    "includeHeaders": "spark/test_options_hold.py::test_headers_are_null_where_there_are_none_and_keep_their_order",
    "failOnDataLoss": "chaos/test_topics_come_and_go.py::test_a_topic_is_deleted_with_unread_records",
    "kafka.isolation.level": "spark/test_isolation.py::test_only_what_is_committed_and_only_when_it_is_decided",
}
"""For each option that means something here a test of what it does, which fails when it is left out."""


def rows() -> list[tuple[str, str]]:
    """Option and what the page says of it, for each row about options."""
    found: list[tuple[str, str]] = []
    for table in re.findall(r"\| option \| Spark \| here \|.*?\n\n", f"{PAGE}\n\n", re.S):
        for row in table.strip().splitlines()[2:]:
            names, _, verdict, why = (cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("|")))
            assert verdict in VERDICTS, row
            assert why or verdict == "the same" or verdict == "rejected", row
            found.extend((name, verdict) for name in re.findall(r"`([^`]+)`", names))
    return found


def test_the_page_has_every_option_of_sparks_own_source_once() -> None:
    names = [name for name, _ in rows()]
    assert sorted(names) == sorted(VALUES)


@pytest.mark.parametrize("name, verdict", rows())
def test_each_option_is_what_the_page_says(name: str, verdict: str) -> None:
    without = {} if name in ("subscribePattern", "assign") else {"subscribe": "t"}
    given = {"kafka.bootstrap.servers": "broker:9092", **without, **BESIDE.get(name, {})}
    before = parse_options(given) if without else None
    given |= {name: VALUES[name]}
    if verdict == "rejected":
        with pytest.raises(OptionError) as caught:
            parse_options(given)
        assert name.lower() in str(caught.value).lower()
        return
    parsed = parse_options(given)
    if verdict == "ignored":
        assert name in parsed.ignored
        return
    assert parsed.ignored == ()
    assert parsed != before, "it changes nothing"


def test_each_option_has_a_test_of_what_it_does() -> None:
    assert sorted(HELD_BY) == sorted(name for name, verdict in rows() if verdict in ("the same", "differs"))
    assert [test for test in HELD_BY.values() if not is_there(test)] == []


def test_what_has_no_meaning_is_all_listed() -> None:
    listed = PAGE.partition("No meaning here, and named in the log:")[2].partition("\n\n")[0]
    names = set(re.findall(r"`kafka\.([^`]+)`", listed))
    assert names == client._IGNORED - SECURITY_IGNORED


OURS = sorted({*CLUSTER_OPTIONS, *SOURCE_OPTIONS})
USED = (*client._NUMBERS, *client._TEXTS, "bootstrap.servers", "isolation.level")
KAFKAS = sorted(f"kafka.{name}" for name in USED)


LISTED = [option for options in OPTIONS.values() for option in options]
WITH_METADATA = {"metadataTimeout", "metadataFailureThreshold"}


def test_the_reference_has_every_option_once() -> None:
    """`metadata.<name>` stands for what a class of the user's own is given."""
    beside = {"metadata.<name>", "kafka.security.protocol"}
    meaningless = {"fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix"}
    assert sorted(option.name for option in LISTED) == sorted({*OURS, *KAFKAS, *beside} - meaningless)


@pytest.mark.parametrize("option", [one for one in LISTED if one.default.startswith("`")], ids=lambda one: one.name)
def test_a_default_is_what_the_parser_takes_where_nothing_is_given(option: Option) -> None:
    base = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
    if option.name in WITH_METADATA:
        base = {"metadata": "/etc/fleet.yaml"}
    base |= BESIDE.get(option.name, {})
    default = option.default.strip("`")
    given, left_out = parse_options(base | {option.name: default}), parse_options(base)
    assert effective(given) == effective(left_out)
    if option.kind == "duration":
        assert effective(parse_options(base | {option.name: "47s"})) != effective(left_out)


def effective(options: SourceOptions) -> SourceOptions:
    """Without what only says which options were given."""
    clusters = tuple(replace(one, ending=one.ending or Latest(), ending_option="") for one in options.clusters)
    return replace(options, clusters=clusters, common={}, ignored_in_batch=())


def test_the_readme_leads_to_the_pages() -> None:
    assert "](docs/options.md)" in README
    assert "](docs/reference/options.md)" in README
