"""docs/options.md: what it says of each option of Spark's own source is so, and no option is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evensplit.errors import OptionError
from evensplit.kafka.options import client
from evensplit.kafka.options.security import SECURITY_IGNORED, SECURITY_REFUSED
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.all import BY_NAME, IGNORED_NAMES
from tests.support.named import is_there

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "options.md").read_text()
README = (ROOT / "README.md").read_text()

VERDICTS = ("the same", "differs", "ignored", "rejected")

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
    rejected = [f"kafka.{name}" for name in client.REFUSED if name not in SECURITY_REFUSED]
    expected = {*HELD_BY, *IGNORED_NAMES, "kafka.group.id", *rejected, "_mockSystemTime"}
    assert sorted(name for name, _ in rows()) == sorted(expected)


@pytest.mark.parametrize("name, verdict", rows())
def test_each_option_is_what_the_page_says(name: str, verdict: str) -> None:
    without = {} if name in ("subscribePattern", "assign") else {"subscribe": "t"}
    given = {"kafka.bootstrap.servers": "broker:9092", **without, **BESIDE.get(name, {})}
    before = parse_options(given) if without else None
    given[name] = BY_NAME[name.lower()].example if name.lower() in BY_NAME else "x"
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
    assert names == client.IGNORED - SECURITY_IGNORED


def test_the_readme_leads_to_the_pages() -> None:
    assert "](docs/options.md)" in README
    assert "](docs/reference/options.md)" in README
