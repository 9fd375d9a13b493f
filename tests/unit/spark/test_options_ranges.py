"""Start and end together: which partitions they have to name, and what a batch or a stream refuses."""

from __future__ import annotations

import json

import pytest

from evensplit.core.state.offset_strategies import Bounds, Found, Strategy, resolve
from evensplit.errors import OptionError
from evensplit.spark.options.parse import check_batch, check_streaming, parse_clusters, parse_options
from tests.support.options import BASE, T0, T1, cluster, two


def test_spark_names_for_ends_are_for_batches_only() -> None:
    for name, text in (
        ("endingOffsets", "latest"),
        ("endingTimestamp", "9"),
        ("endingOffsetsByTimestamp", '{"t": {"0": 9}}'),
    ):
        with pytest.raises(OptionError, match=f"{name} is given, but a streaming query has no end .* use stop"):
            check_streaming(parse_options({**BASE, name: text}))
    check_streaming(parse_options({**BASE, "stop": "-5"}))
    check_batch(parse_options({**BASE, "stop": "-5", "startingTimestamp": "9"}))


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t": "latest"}'},
        {"start": "latest"},
        {"start": '{"t": {"0": "latest"}}'},
        {"start": '{"t": {"0": -1}}'},
        {"startingGroup": "g", "startingOffsets": "latest"},
    ],
)
def test_a_batch_does_not_start_at_latest(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"(start|startingOffsets) is latest \(-1\), where nothing is to be read"):
        check_batch(parse_options({**BASE, **given}))


OF_SPARK = [
    ({"startingOffsets": '{"t": {"0": 5}}'}, "start"),
    ({"startingOffsetsByTimestamp": '{"t": {"0": 5}}'}, "start"),
    ({"endingOffsets": '{"t": {"0": 5}}'}, "stop"),
    ({"endingOffsetsByTimestamp": '{"t": {"0": 5}}'}, "stop"),
]


def unnamed(strategy: Strategy | None, *keys: tuple[str, int]) -> list[str]:
    """What is missing if these are all the partitions that there are."""
    assert strategy is not None
    found = Found(times=dict.fromkeys(keys, 0), committed={"g": {}})
    return list(resolve(strategy, dict.fromkeys(keys, Bounds(0, 9)), found).problems)


@pytest.mark.parametrize("given, instead", OF_SPARK)
def test_under_sparks_names_all_partitions_have_to_be_named(given: dict[str, str], instead: str) -> None:
    one = cluster(**given)
    strategy, (name,) = one.starting or one.ending, given
    (problem,) = unnamed(strategy, T0, T1, ("t", 2), ("u", 0))
    assert problem.startswith(
        "topic 't', partitions 1, 2; topic 'u', partition 0 are not named; the partitions specified in "
        f"{name} don't match what are assigned: you must specify all of them"
    )
    assert f"or use {instead}, where those that are not named" in problem
    assert unnamed(strategy, T0) == []
    inside = two({option: json.loads(text) for option, text in given.items()})
    assert len(unnamed(inside.starting or inside.ending, T0, T1)) == 1


def test_topics_that_are_named_as_a_whole_have_all_their_partitions_and_leave_other_topics_alone() -> None:
    mixed = cluster(startingOffsets='{"u": "latest", "t": {"0": 5}}').starting
    assert unnamed(mixed, ("u", 0), ("u", 1), T0, ("v", 0)) == []
    (problem,) = unnamed(mixed, ("u", 0), T0, T1)
    assert problem.startswith("topic 't', partition 1 is not named; the partitions specified in startingOffsets don't")


def test_our_own_names_and_a_group_demand_no_names() -> None:
    for given in ({"start": '{"t": {"0": 5}}'}, {"startingGroup": "g", "startingOffsets": '{"t": {"0": 5}}'}):
        assert unnamed(cluster(**given).starting, T0, T1, ("u", 0)) == []
    group = {"startingGroup": "g", "startingOffsets": '{"u": "latest", "t": {"0": 5}}'}
    assert unnamed(cluster(**group).starting, T0, T1, ("u", 0), ("v", 0)) == []
    assert unnamed(cluster(stop='{"t": {"0": 5}}').ending, T0, T1) == []


@pytest.mark.parametrize("given, _", OF_SPARK)
def test_clusters_of_the_metadata_demand_no_names(given: dict[str, str], _: str) -> None:
    common = {name.lower(): value for name, value in given.items()}
    (one,), problems = parse_clusters(common, {"east": {"kafka.bootstrap.servers": "e:1", "subscribe": "t"}})
    assert problems == ()
    assert unnamed(one.starting or one.ending, T0, T1) == []


def refused(**options: str) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        check_batch(parse_options({**BASE, **options}))
    return caught.value.problems


@pytest.mark.parametrize("names", [("startingOffsets", "endingOffsets"), ("startingOffsetsByTimestamp",) * 2])
def test_start_and_end_of_a_batch_name_the_same_partitions(names: tuple[str, str]) -> None:
    start, end = names[0], names[1].replace("starting", "ending")
    found = refused(**{start: '{"t": {"0": 1, "1": 1, "2": 1}, "u": {"0": 1}}', end: '{"t": {"0": 2, "1": 2}}'})
    assert found == (
        "The specified start offset and end offset should have the same topic-partitions, but only the start names "
        f"topic 't', partition 2; topic 'u', partition 0 ({start} and {end})",
    )
    (found_too,) = refused(**{start: '{"t": {"0": 1}}', end: '{"t": {"1": 2}}'})
    assert "only the start names topic 't', partition 0 and only the end names topic 't', partition 1" in found_too


def test_a_batch_that_ends_before_it_starts() -> None:
    found = refused(startingOffsets='{"t": {"0": 1, "1": 9, "2": 5}}', endingOffsets='{"t": {"0": 0, "1": 8, "2": 5}}')
    assert found == tuple(
        f"The specified start offset {start} is greater than the end offset {start - 1} for topic 't', partition "
        f"{partition}; expected a start at or before the end (startingOffsets and endingOffsets)"
        for partition, start in ((0, 1), (1, 9))
    )
    times = {"startingOffsetsByTimestamp": '{"t": {"0": 8}}', "endingOffsetsByTimestamp": '{"t": {"0": 7}}'}
    assert "The specified start timestamp 8 is greater than the end timestamp 7" in refused(**times)[0]
    assert "start offset 6 is greater" in refused(start='{"t": {"0": 6}}', stop='{"t": {"0": 5, "1": 0}}')[0]


def test_what_is_known_only_from_the_brokers_is_not_compared_before() -> None:
    for start, end in (
        ({"startingOffsets": '{"t": {"0": -2, "1": 5}}'}, {"endingOffsets": '{"t": {"0": 0, "1": -1}}'}),
        ({"startingOffsets": '{"t": {"0": 9}}'}, {"endingOffsetsByTimestamp": '{"t": {"0": 8}}'}),
        ({"startingOffsets": '{"t": {"0": 9}}'}, {"endingOffsets": "latest"}),
        ({"startingOffsets": '{"t": "earliest"}'}, {"endingOffsets": '{"t": {"0": 0}}'}),
        ({"startingTimestamp": "9"}, {"endingTimestamp": "8"}),
    ):
        check_batch(parse_options({**BASE, **start, **end}))


def test_words_that_users_of_sparks_own_source_look_for() -> None:
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        check_streaming(parse_options({**BASE, "endingOffsets": "latest"}))
    for name in ("endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(OptionError, match="ending timestamp not valid in streaming queries"):
            check_streaming(parse_options({**BASE, name: '{"t": {"0": 9}}' if "By" in name else "9"}))
    assert "starting offset can't be latest for batch queries" in refused(startingOffsets="latest")[0]
    assert "ending offset can't be earliest for batch queries" in refused(endingOffsets='{"t": {"0": -2}}')[0]
