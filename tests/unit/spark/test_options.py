"""The source's options: what they mean, and every wrong one at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evensplit.core.model import Partitions, TopicPattern, Topics
from evensplit.core.state.offset_strategies import Earliest, Specific
from evensplit.errors import OptionError
from evensplit.kafka.columns import COLUMNS, KAFKA_COLUMNS
from evensplit.spark.options.parse import check_batch, check_streaming, parse_options
from tests.support.options import BASE, parse, problems_of


def clusters(**by_name: dict[str, Any]) -> dict[str, str]:
    return {"clusters": json.dumps(by_name)}


def test_the_least_that_works() -> None:
    options = parse()
    (cluster,) = options.clusters
    assert (cluster.id, cluster.settings.bootstrap_servers, cluster.subscription) == (
        "default",
        ("broker:9092",),
        Topics(("t",)),
    )
    assert (cluster.starting, cluster.ending, options.readers, options.limits.offsets_max) == (None, None, None, None)
    assert options.reading.columns == KAFKA_COLUMNS


def test_names_are_understood_in_any_case() -> None:
    options = parse_options({"KAFKA.bootstrap.servers": "b:1", "SUBSCRIBEpattern": "a.*", "maxoffsetsPERtrigger": "7"})
    assert options.clusters[0].subscription == TopicPattern("a.*")
    assert options.limits.offsets_max == 7


def test_topics_are_trimmed_and_named_once() -> None:
    assert parse(subscribe=" b , a ,,b ").clusters[0].subscription == Topics(("a", "b"))


def test_single_partitions() -> None:
    options = parse_options({"kafka.bootstrap.servers": "b:1", "assign": '{"t": [2, 0, 2], "u": [5]}'})
    assert options.clusters[0].subscription == Partitions({"t": (0, 2), "u": (5,)})


def test_clusters_take_from_outside_what_they_do_not_say() -> None:
    options = parse_options(
        {
            **clusters(
                west={"kafka.bootstrap.servers": "w:1"},
                east={
                    "Kafka.Bootstrap.Servers": "e:1",
                    "assign": {"u": [1]},
                    "startingOffsets": {"u": {"1": 5}},
                    "kafka.client.id": "mine",
                },
            ),
            "subscribe": "t",
            "startingOffsets": "earliest",
            "kafka.client.id": "all",
        }
    )
    east, west = options.clusters
    assert (east.id, east.subscription) == ("east", Partitions({"u": (1,)}))
    assert isinstance(east.starting, Specific)
    assert east.starting.offsets == {("u", 1): 5}
    assert (west.id, west.subscription, west.starting) == ("west", Topics(("t",)), Earliest())
    assert (east.settings.client_id, west.settings.client_id) == ("mine", "all")
    assert (east.starts_by_itself, west.starts_by_itself) == (True, False)


def test_the_cluster_column_is_there_when_there_can_be_several() -> None:
    several = {**clusters(east={"kafka.bootstrap.servers": "e:1"}), "subscribe": "t"}
    assert parse_options(several).reading.columns == (*KAFKA_COLUMNS, "cluster")
    assert parse_options({**several, "includeCluster": "false"}).reading.columns == KAFKA_COLUMNS
    assert parse(includeCluster="True").reading.columns == (*KAFKA_COLUMNS, "cluster")
    assert parse(includeHeaders="true").reading.columns == (*KAFKA_COLUMNS, "headers")


def test_all_problems_at_once() -> None:
    found = problems_of(
        {
            "kafka.bootstrap.servers": "broker",
            "subscribe": "a b",
            "readers": "0",
            "maxOffsetsPerTrigger": "many",
            "includeHeaders": "yes",
            "startingOffsets": "newest",
            "subscribes": "t",
            "kafka.auto.offset.reset": "latest",
        }
    )
    assert len(found) == 8


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"kafka.bootstrap.servers": "b:1"},
            "One of the following options must be specified: subscribe, subscribePattern, assign; found none",
        ),
        (
            {**BASE, "assign": '{"t": [0]}'},
            "Only one of the following options can be specified: subscribe, subscribePattern, assign; found subscribe "
            "and assign",
        ),
        ({"subscribe": "t"}, "bootstrap.servers is missing"),
        ({**BASE, "subscribe": " , "}, "subscribe is ' , '; expected topic names"),
        ({**BASE, "subscribe": "ok,not/ok"}, "subscribe names 'not/ok'; expected topic names"),
        ({**BASE, "startingOffsets": "{"}, "startingOffsets is '{'; expected earliest, latest or {\"topic\""),
        ({**BASE, "startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets has"),
        ({**BASE, "startingOffsets": '{"t": {"x": 1}}'}, "startingOffsets has"),
        ({**BASE, "startingOffsets": '{"t": {"0": true}}'}, "startingOffsets has"),
        ({**BASE, "startingOffsets": '{"t": {"0": 1}, "t": {"0": 2}}'}, "'t' stands twice"),
        ({**BASE, "startingOffsets": "[1]"}, "startingOffsets is '[1]'"),
        ({**BASE, "include.headers": "true"}, "include.headers is not an option; did you mean includeHeaders?"),
        ({**BASE, "zzz": "1"}, "zzz is not an option; expected one of"),
        ({**BASE, "clusters": "{}"}, "clusters has no clusters"),
        ({"subscribe": "t", "clusters": '{"a": 5}'}, "clusters has no clusters, or one without options"),
        ({"subscribe": "t", **clusters(east={})}, "bootstrap.servers is missing"),
        ({"subscribe": "t", **clusters(east={"kafka.bootstrap.servers": "e:1", "readers": 3})}, "of cluster 'east'"),
        ({"subscribe": "t", "clusters": '{"a/b": {"kafka.bootstrap.servers": "e:1"}}'}, "without a slash"),
        (
            {**BASE, **clusters(east={"kafka.bootstrap.servers": "e:1"})},
            "clusters is given beside kafka.bootstrap.servers",
        ),
        (
            clusters(east={"kafka.bootstrap.servers": "e:1", "subscribe": 5}),
            "subscribe of cluster 'east' is '5'; expect",
        ),
        (clusters(east={"kafka.bootstrap.servers": "e:1", "subscribe": None}), "is 'null'; expected topic names"),
        (clusters(east={"kafka.bootstrap.servers": "e:1", "subscribe": ["t", 5]}), "expected topic names"),
        (
            {"subscribe": "t", **clusters(east={"kafka.bootstrap.servers": "e:1", "Kafka.Bootstrap.Servers": "f:1"})},
            "Kafka.Bootstrap.Servers of cluster 'east' is given twice; expected it once",
        ),
    ],
)
def test_one_problem(options: dict[str, str], expected: str) -> None:
    assert any(expected in problem for problem in problems_of(options)), problems_of(options)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"plan": "lvl"}, "plan is 'lvl'; expected one of whole, level, owners: did you mean level?"),
        ({"startingOffsets": "erliest"}, ": 'erliest' is none of them; did you mean earliest?"),
        ({"startingOffsets": '{"t": "lastest"}'}, ": 'lastest' is none of them; did you mean latest?"),
        ({"startingOffsets": "5"}, ": '5' is none of them"),
    ],
)
def test_a_wrong_word_with_the_nearest_one(options: dict[str, str], expected: str) -> None:
    (found,) = problems_of({**BASE, **options})
    assert found.endswith(expected)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"kafka.bootstrap.servers": "b:1", "subscibe": "t"}, "subscibe is not an option; did you mean subscribe?"),
        ({"kafka.bootstrap.servers": "b:1", "topics": "t"}, "topics is not an option; use subscribe"),
        (
            {"kafka.bootstrap.server": "b:1", "subscribe": "t"},
            "kafka.bootstrap.server is not an option; did you mean kafka.bootstrap.servers?",
        ),
        ({"kafka.brokers": "b:1", "subscribe": "t"}, "kafka.brokers is not an option; use kafka.bootstrap.servers"),
        (
            clusters(east={"kafka.bootstrap.servers": "e:1", "subscibe": "t"}),
            "subscibe is not an option of cluster 'east'; did you mean subscribe?",
        ),
        (
            {"subscribe": "t", **clusters(east={"brokers": "e:1"})},
            "brokers is not an option of cluster 'east'; use kafka.bootstrap.servers",
        ),
    ],
)
def test_one_slip_is_one_problem(options: dict[str, str], expected: str) -> None:
    """That what was meant is missing is no other one."""
    assert problems_of(options) == (expected,)


def test_a_slip_in_one_cluster_is_none_in_another() -> None:
    found = problems_of(clusters(east={"kafka.bootstrap.servers": "e:1", "subscibe": "t"}, west={}))
    assert [one.partition(":")[0] for one in found[1:]] == [
        "kafka.bootstrap.servers is missing, and must be specified; expected host",
        "One of the following options must be specified of cluster 'west'",
    ]


@pytest.mark.parametrize("assign", ["[]", "{}", '{"t": []}', '{"t": [-1]}', '{"t": ["0"]}', '{"a b": [0]}', "nonsense"])
def test_a_bad_assign(assign: str) -> None:
    (found,) = problems_of({"kafka.bootstrap.servers": "b:1", "assign": assign})
    assert "assign" in found


def test_a_cluster_document_is_not_shown_in_errors_since_it_may_hold_secrets() -> None:
    for text in ('{"east": {"kafka.sasl.jaas.config": "hunter2"', '["hunter2"]', '{"east": "hunter2"}'):
        assert not any("hunter2" in problem for problem in problems_of({"subscribe": "t", "clusters": text}))


def test_streaming_and_batch_have_options_of_their_own() -> None:
    with pytest.raises(OptionError, match="endingOffsets is given, but a streaming query has no end"):
        check_streaming(parse(endingOffsets="latest"))
    with pytest.raises(OptionError) as caught:
        check_batch(parse(commitGroup="g", startingOffsets='{"t": {"0": -1}}', endingOffsets="earliest"))
    assert len(caught.value.problems) == 3
    check_streaming(parse(startingOffsets="latest"))
    check_batch(parse(startingOffsets="earliest", endingOffsets="latest"))


@pytest.mark.parametrize(
    "written, columns",
    [
        ("value", ("value",)),
        (" offset , KEY,value ", ("key", "value", "offset")),
        ("timestamptype", ("timestampType",)),
        (",".join(reversed(COLUMNS)), COLUMNS),
    ],
)
def test_columns_are_in_the_order_of_the_schema(written: str, columns: tuple[str, ...]) -> None:
    assert parse(columns=written).reading.columns == columns
    several = {"clusters": '{"east": {"kafka.bootstrap.servers": "b:1"}}', "subscribe": "t"}
    assert parse_options({**several, "columns": written}).reading.columns == columns


@pytest.mark.parametrize(
    "written, reason",
    [
        ("", "there is no ''"),
        ("value,", "there is no ''"),
        ("value, payload, x, x", "there is no 'payload' and no 'x'"),
        ("key, Value, value, KEY", "key and value are there more than once"),
        ("key, y, key", "there is no 'y'; key is there more than once"),
    ],
)
def test_columns_that_there_are_not(written: str, reason: str) -> None:
    (problem,) = problems_of({**BASE, "columns": written, "includeHeaders": "true"})
    assert problem == (
        f"columns is {written!r}; expected one or more of {', '.join(COLUMNS)}, separated by commas: {reason}"
    )


def test_columns_and_the_options_for_two_of_them() -> None:
    agreeing = parse(columns="value, headers", includeHeaders="true", includeCluster="false")
    assert agreeing.reading.columns == ("value", "headers")
    found = problems_of({**BASE, "columns": "key, cluster", "includeHeaders": "true", "includeCluster": "FALSE"})
    assert found == (
        "includeHeaders is true and columns is 'key, cluster', without headers; expected columns alone",
        "includeCluster is false and columns is 'key, cluster', with cluster; expected columns alone",
    )
