"""Names that people look for among the options: an error that shows them as they are written, and what to use."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from evensplit.spark.options.hints import MEANINGLESS, SOUGHT, ignored_text
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.all import BY_NAME
from tests.support.options import BASE, problems_of

NOT_OPTIONS = {"writeStream", "from_json", "from_avro", "from_protobuf"}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("maxFilesPerTrigger", "maxFilesPerTrigger is not an option; use maxOffsetsPerTrigger"),
        ("maxBytesPerBatch", "maxBytesPerBatch is not an option; use maxBytesPerTrigger"),
        ("topic", "topic is not an option; use subscribe"),
        ("topics", "topics is not an option; use subscribe"),
        ("groupId", "groupId is not an option; use startingGroup to start where a group stands, and commitGroup"),
        ("checkpointLocation", "checkpointLocation is not an option; it belongs to the query"),
        ("value.deserializer", "value.deserializer is not an option; value.format and key.format say"),
        ("kafka.schema.registry.url", "kafka.schema.registry.url is not an option; use schema.registry.url"),
        ("kafka.sasl.mechanisms", "kafka.sasl.mechanisms is not an option; use kafka.sasl.mechanism"),
        ("bootstrap.servers", "bootstrap.servers is not an option; write kafka.bootstrap.servers: the settings of"),
        ("sasl.jaas.config", "sasl.jaas.config is not an option; write kafka.sasl.jaas.config: the settings of"),
        ("session.timeout.ms", "session.timeout.ms is not an option; leave it out: this setting of Kafka's consumer"),
        ("startingOffset", "did you mean startingOffsets?"),
        ("failOnDataLos", "did you mean failOnDataLoss?"),
    ],
)
@pytest.mark.parametrize("lower", [False, True], ids=["as written", "as Spark hands it over"])
def test_what_to_use(name: str, expected: str, *, lower: bool) -> None:
    """Once each, also for a `kafka.` name, with which the settings of the client begin, too."""
    (found,) = problems_of({**BASE, name.lower() if lower else name: "hunter2"})
    assert expected in found
    assert "hunter2" not in found


def test_an_unknown_name_is_shown_as_it_is_handed_over() -> None:
    (found,) = problems_of({**BASE, "zzzQqq": "1"})
    assert found.startswith("zzzQqq is not an option; expected one of")


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"zzzQqq": 1}, "zzzQqq is not an option of cluster 'east'; expected one of"),
        ({"maxFilesPerTrigger": 1}, "maxFilesPerTrigger is not an option of cluster 'east'; use maxOffsetsPerTrigger"),
        ({"FAILonDataLoss": False}, "failOnDataLoss is not an option of cluster 'east'; it holds for all clusters: "),
    ],
)
def test_in_clusters(options: dict[str, Any], expected: str) -> None:
    """Spark hands the document over as it was written."""
    east = {"kafka.bootstrap.servers": "e:1", "subscribe": "t", **options}
    (found,) = problems_of({"clusters": json.dumps({"east": east})})
    assert found.startswith(expected)


def test_an_option_of_the_users_own_service_may_be_called_as_a_setting_of_kafka() -> None:
    parsed = parse_options({"metadata": "f", "metadata.max.age.ms": "5"}).metadata
    assert parsed is not None
    assert parsed.options == {"max.age.ms": "5"}


@pytest.mark.parametrize("name", SOUGHT)
def test_each_is_refused_with_its_advice(name: str) -> None:
    """So none of them is an option, and no advice is hidden behind another rule."""
    assert problems_of({**BASE, name: "1"}) == (f"{name} is not an option; {SOUGHT[name]}",)


@pytest.mark.parametrize("name", MEANINGLESS)
def test_each_that_means_nothing_is_an_option(name: str) -> None:
    assert name in parse_options({**BASE, name: "1"}).ignored


@pytest.mark.parametrize("advice", sorted({*SOUGHT.values(), *MEANINGLESS.values()}))
def test_what_is_advised_exists(advice: str) -> None:
    words = re.findall(r"\b(?:kafka\.[a-z.]*[a-z]|[a-z][\w.]*[A-Z]\w+|[a-z]+_[a-z]+)\b", advice)
    used = [word for word in words if word not in NOT_OPTIONS]
    assert all(word.lower() in BY_NAME or word.startswith(("kafka.ssl.", "kafka.sasl.")) for word in used), used


def test_the_log_says_why_an_option_has_no_effect() -> None:
    assert ignored_text(["capacity", "idleTimeout", "priority", "schema.registry.url"]) == (
        "capacity (only with balance=rate), idleTimeout (without alignment), priority (without maxOffsetsPerTrigger "
        "and maxBytesPerTrigger), schema.registry.url (no schema of a registry is used)"
    )
    assert ignored_text(["idleTimeout", "priority"], bare=["priority"]) == "idleTimeout (without alignment), priority"


def test_the_log_says_what_to_use_instead_of_what_is_ignored() -> None:
    assert ignored_text(["kafka.group.id", "kafka.retries"]) == (
        "kafka.group.id (startingGroup starts where a group stands, commitGroup commits the positions of a stream to "
        "one), kafka.retries"
    )
