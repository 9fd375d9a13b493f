"""Options for clusters that come from metadata, and those clusters."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from evensplit.core.model import Cluster, TopicPattern, Topics
from evensplit.core.state.offset_strategies import Ago, AtTime, ByTopic, Committed, Earliest, FromEnd, Latest, Specific
from evensplit.errors import OptionError
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.options.local_access import NOTHING
from evensplit.spark.options.parse import MetadataOptions, check_batch, check_streaming, parse_clusters, parse_options
from tests.support.options import problems_of

EAST: dict[str, Any] = {"kafka.bootstrap.servers": "e:1", "subscribe": ["orders", "clicks"]}


def metadata(**options: str) -> MetadataOptions:
    found = parse_options({"metadata": "fleet.yaml", **options}).metadata
    assert found is not None
    return found


def test_a_place_is_enough() -> None:
    options = parse_options({"metadata": " fleet.yaml "})
    assert options.metadata is not None
    assert (options.metadata.location, options.metadata.allowed) == ("fleet.yaml", NOTHING)
    assert (options.clusters, dict(options.common)) == ((), {})
    assert options.reading.columns == (*KAFKA_COLUMNS, "cluster")
    assert parse_options({"metadata": "fleet.yaml", "includeCluster": "false"}).reading.columns == KAFKA_COLUMNS


def test_all_that_can_be_said_of_it() -> None:
    found = metadata(streams="b, a,,b", metadataTokenEnv="TOKEN", metadataTimeout="2s", metadataFailureThreshold="0")
    assert (found.streams, found.streams_pattern, found.token_env) == (("a", "b"), None, "TOKEN")
    assert (found.timeout_ms, found.failures_max) == (2_000, 0)
    found = metadata(streamsPattern="^eu-", metadataTokenFile="/run/token")
    assert (found.streams, found.streams_pattern, found.token_file) == (None, "^eu-", "/run/token")


def test_other_options_are_for_the_class_of_the_user_and_may_be_secrets() -> None:
    options = parse_options({"metadata": "my.Fleet", "Metadata.Password": "hunter2", "kafka.client.id": "hunter3"})
    assert options.metadata is not None
    assert options.metadata.options == {"password": "hunter2"}
    assert "hunter" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"metadata": "f", "startingOffsets": "newest"}, "startingOffsets is 'newest'; expected earliest, latest or"),
        ({"metadata": "f", "stop": "earliest"}, "stop is 'earliest'; expected latest"),
        ({"metadata": "f", "kafka.fetch.max.bytes": "x"}, "kafka.fetch.max.bytes is 'x'"),
        ({"metadata": "f", "metadataTimeuot": "5s"}, "metadataTimeuot is not an option; did you mean metadataTimeout?"),
    ],
)
def test_one_problem(options: dict[str, str], expected: str) -> None:
    (found,) = problems_of(options)
    assert expected in found


def test_what_cannot_be_known_of_pins_is_not_checked() -> None:
    assert parse_options({"metadata": "f", "pin": '{"0": ["north"]}'}).pins == {0: (Cluster("north"),)}


def test_clusters_take_from_outside_what_they_do_not_say() -> None:
    common = parse_options({"metadata": "f", "kafka.client.id": "all", "startingTimestamp": "9"}).common
    listed = {
        "west": {"kafka.bootstrap.servers": "w:1,w:2", "subscribePattern": "^o", "startingOffsets": None},
        "east": {**EAST, "Kafka.Client.Id": "mine", "startingOffsets": "latest", "where": "fleet.yaml, line 7"},
    }
    (east, west), found = parse_clusters(common, listed)
    assert found == ()
    assert (east.id, east.subscription, east.starting) == ("east", Topics(("clicks", "orders")), Latest())
    assert (west.id, west.subscription, west.starting) == ("west", TopicPattern("^o"), AtTime(9, "error"))
    assert (east.settings.client_id, west.settings.client_id) == ("mine", "all")
    assert west.settings.bootstrap_servers == ("w:1", "w:2")
    assert (east.starts_by_itself, west.starts_by_itself) == (True, False)
    assert (east.where, west.where) == ("fleet.yaml, line 7", "")


@pytest.mark.parametrize(
    "value, start, end",
    [
        ("-10m", Ago(600_000), Ago(600_000)),
        ({"t": "-7"}, ByTopic({"t": FromEnd(7)}, {}, Earliest()), ByTopic({"t": FromEnd(7)}, {}, Latest())),
        ({"t": {"0": 5}}, Specific({("t", 0): 5}), Specific({("t", 0): 5}, Latest())),
        ('{"t": {"0": 5}}', Specific({("t", 0): 5}), Specific({("t", 0): 5}, Latest())),
        ("timestamp:7", AtTime(7, "latest"), AtTime(7, "latest")),
    ],
)
def test_metadata_may_use_our_form_under_sparks_names_and_end_a_stream(value: Any, start: Any, end: Any) -> None:
    listed = {"east": {**EAST, "startingOffsets": value, "endingOffsets": value}}
    ((east,), found) = parse_clusters({"startinggroup": "g"}, listed)
    assert found == ()
    assert (east.ending, east.ends_stream) == (end, True)
    ((east,), _) = parse_clusters({}, listed)
    assert east.starting == start


def test_an_end_from_outside_ends_a_stream_only_by_our_name() -> None:
    for common, ends_stream in (({"stop": "-5"}, True), ({"endingoffsets": "latest"}, False)):
        ((east,), _) = parse_clusters(common, {"east": EAST})
        assert (east.ending is not None, east.ends_stream) == (True, ends_stream)
    ((east,), _) = parse_clusters({"startinggroup": "g"}, {"east": EAST})
    assert east.starting == Committed("g", Earliest())


def test_problems_name_the_cluster_and_its_place() -> None:
    place = "fleet.yaml, line 7"
    listed: dict[str, dict[str, Any]] = {
        "east": {
            "kafka.bootstrap.servers": "nowhere",
            "kafka.client.id": None,
            "kafka.client.rack": ["hunter2"],
            "subscribe": ["a b"],
            "startingOffsets": "newest",
            "endingOffsets": "earliest",
            "readers": "5",
            "where": place,
        },
        "a/b": {**EAST, "where": place},
        "west": EAST,
    }
    clusters, found = parse_clusters({}, listed)
    assert [cluster.id for cluster in clusters] == ["a/b", "west"]
    assert len(found) == 7
    assert all(place in problem for problem in found), found
    assert not any("hunter2" in problem for problem in found)


def test_what_is_wrong_outside_is_said_once() -> None:
    clusters, found = parse_clusters({"startingoffsets": "newest"}, {"east": EAST, "west": EAST})
    assert (len(clusters), len(found)) == (2, 1)


def test_a_place_is_not_an_option_of_a_cluster_among_the_options() -> None:
    clusters = {"east": {"kafka.bootstrap.servers": "e:1", "where": "here"}}
    (found,) = problems_of({"clusters": json.dumps(clusters), "subscribe": "t"})
    assert found.startswith("where is not an option of cluster 'east'")


def test_streaming_and_batch_are_told_apart_by_what_is_said_outside() -> None:
    with pytest.raises(OptionError, match="endingTimestamp is given, but a streaming query has no end"):
        check_streaming(parse_options({"metadata": "f", "endingTimestamp": "9"}))
    with pytest.raises(OptionError, match=r"start is latest \(-1\)"):
        check_batch(parse_options({"metadata": "f", "start": "latest"}))
    check_streaming(parse_options({"metadata": "f", "stop": "latest", "start": "latest"}))
    check_batch(parse_options({"metadata": "f", "endingTimestamp": "9"}))
