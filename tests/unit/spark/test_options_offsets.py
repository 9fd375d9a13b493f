"""Options that say where reading starts and ends: each by itself, and which of several counts."""

from __future__ import annotations

import json

import pytest

from evensplit.core.state.offset_strategies import (
    Ago,
    AtTime,
    ByTopic,
    Committed,
    Earliest,
    FromEnd,
    Latest,
    Specific,
    Strategy,
)
from evensplit.errors import OptionError
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.start_stop import ParsedOffsets, undemanding
from tests.support.options import T0, T1, cluster, problems, two


def plain(strategy: Strategy | None) -> Strategy | None:
    """`strategy`, but that it need not name all partitions."""
    said = undemanding(ParsedOffsets("", strategy))
    return None if said is None else said.strategy


def starting(**options: str) -> Strategy | None:
    return plain(cluster(**options).starting)


def ending(**options: str) -> Strategy | None:
    return plain(cluster(**options).ending)


@pytest.mark.parametrize(
    "text, strategy",
    [
        ('{"a": "EARLIEST", "b": "latest"}', ByTopic({"a": Earliest(), "b": Latest()}, {}, Earliest())),
        (
            '{"a": "latest", "t": {"0": 23, "1": -2}}',
            ByTopic({"a": Latest()}, {}, Specific({T0: 23, T1: -2})),
        ),
    ],
)
def test_topics_as_a_whole_under_sparks_name(text: str, strategy: Strategy) -> None:
    assert starting(startingOffsets=text) == strategy


ONE = [
    ("earliest", Earliest()),
    (" Latest ", Latest()),
    ("timestamp:1700000000000", AtTime(1_700_000_000_000, "latest")),
    ("timestamp: 2025-01-31T12:00:00Z", AtTime(1_738_324_800_000, "latest")),
    ("Timestamp:2025-01-31t13:00+01:00", AtTime(1_738_324_800_000, "latest")),
    ("timestamp:2025-01-31T12:00:00.000001Z", AtTime(1_738_324_800_001, "latest")),
    ("timestamp:0", AtTime(0, "latest")),
    ("-10m", Ago(600_000)),
    ("- 1.5 h", Ago(5_400_000)),
    ("-1000", FromEnd(1000)),
    ("-1", FromEnd(1)),
    ("-2D", Ago(172_800_000)),
]


@pytest.mark.parametrize("text, strategy", ONE)
def test_our_own_words_for_a_start(text: str, strategy: Strategy) -> None:
    assert starting(start=text) == strategy
    assert starting(start=json.dumps({"t": text})) == ByTopic({"t": strategy}, {}, Earliest())
    assert starting(start=json.dumps({"t": {"0": text}})) == ByTopic({}, {T0: strategy}, Earliest())
    assert starting(start=json.dumps({"t": {"*": text}})) == ByTopic({"t": strategy}, {}, Earliest())
    assert two({"start": text}).starting == strategy


@pytest.mark.parametrize("text, strategy", [pair for pair in ONE if pair[1] != Earliest()])
def test_our_own_words_for_an_end(text: str, strategy: Strategy) -> None:
    found = cluster(stop=text)
    assert (found.ending, found.ends_stream, found.ending_option) == (strategy, True, "stop")
    assert ending(stop=json.dumps({"t": text})) == ByTopic({"t": strategy}, {}, Latest())


def test_offsets_within_our_own_form() -> None:
    assert starting(start='{"t": {"0": 23}}') == Specific({T0: 23})
    assert starting(start='{"t": {"0": 23, "1": "-5m", "*": "latest"}, "u": "-7"}') == ByTopic(
        {"t": Specific({T0: 23}, Latest()), "u": FromEnd(7)}, {T1: Ago(300_000)}, Earliest()
    )
    assert ending(stop='{"t": {"0": 23}}') == Specific({T0: 23}, Latest())


@pytest.mark.parametrize(
    "text, reason",
    [
        ("newest", "'newest' is none of them"),
        ("", "none of them"),
        ("10m", "'10m' is none of them"),
        ("-0", "none of them"),
        ("-0s", "none of them"),
        ("-5y", "none of them"),
        ("timestamp:", "'' is not a time"),
        ("timestamp:-5", "not a time"),
        ("timestamp:soon", "'soon' is not a time"),
        ("timestamp:2025-01-31T12:00:00", "has no zone; with one it is as 2025-01-31T12:00:00Z"),
        ("timestamp:2025-01-31", "has no zone"),
        ("timestamp:1969-12-31T23:59Z", "is before 1970"),
        ("timestamp:9999999999999999999", "not a time"),
        ("{}", "it names no topic"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "is none of them"),
        ('{"a":' * 100_000, "deep in each other"),
        ('{"t": 5}', "'t' names no partitions"),
        ('{"t": {}}', "'t' names no partitions"),
        ('{"t": {"0": -3}}', "'-3' is not an offset"),
        ('{"t": {"0": -1000}}', "'-1000' is not an offset"),
        ('{"t": {"0": 9223372036854775808}}', "is not an offset"),
        ('{"t": {"0": NaN}}', "NaN is no number of JSON"),
        ('{"t": {"0": null}}', "is not an offset"),
        ('{"t": {"0": true}}', "is not an offset"),
        ('{"t": {"-1": 5}}', "'-1' is not a partition"),
        ('{"t": {"2147483648": 5}}', "is not a partition"),
        ('{"t": {"0": 1, "00": 2}}', "'0' and '00' are the same partition"),
        ('{"t": {"*": 5}}', "'5' is none of them"),
        ('{"a b": "latest"}', "'a b' cannot be a topic"),
        ('{"a b": {"0": 5}}', "'a b' cannot be a topic"),
        ('{"t": "10"}', "'10' is none of them"),
    ],
)
def test_a_start_that_is_none(text: str, reason: str) -> None:
    (found,) = problems(start=text)
    assert found.startswith(("start is ", "start has "))
    assert "expected earliest, latest, timestamp:<ms" in found
    assert reason in found


def test_sparks_names_have_sparks_form_only() -> None:
    for text in ("-10m", "timestamp:5", '{"t": {"*": 5}}', '{"t": {"0": "latest"}}', '{"t": "-10m"}'):
        for name in ("startingOffsets", "endingOffsets"):
            (found,) = problems(**{name: text})
            assert "expected earliest, latest or {" in found


@pytest.mark.parametrize("text", ["earliest", '{"t": "earliest"}', '{"t": {"0": -2}}', '{"t": {"*": "earliest"}}'])
def test_nothing_can_be_read_up_to_earliest(text: str) -> None:
    (found,) = problems(stop=text)
    assert "at earliest (-2) there is nothing to be read" in found


def test_the_order_of_sparks_names() -> None:
    given = {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}', "startingTimestamp": "9"}
    assert starting(**given) == AtTime(9, "error")
    assert cluster(**given).starting_option == "startingTimestamp"
    del given["startingTimestamp"]
    assert starting(**given) == ByTopic({}, {T0: AtTime(7, "error")}, Earliest())
    ends = {"endingOffsets": "latest", "endingOffsetsByTimestamp": '{"t": {"0": 7}}', "endingTimestamp": "9"}
    assert ending(**ends) == AtTime(9, "latest")
    del ends["endingTimestamp"]
    assert ending(**ends) == ByTopic({}, {T0: AtTime(7, "latest")}, Latest())
    assert ending(endingOffsets='{"t": {"0": 7}}') == Specific({T0: 7}, Latest())
    assert not cluster(**ends).ends_stream


def test_an_option_that_another_one_hides_must_be_right_too() -> None:
    found = problems(startingTimestamp="9", startingOffsetsByTimestamp="[]", startingOffsets="newest")
    assert [problem.partition(" is ")[0] for problem in found] == ["startingOffsetsByTimestamp", "startingOffsets"]


def test_what_holds_where_there_is_no_record_at_a_time() -> None:
    assert starting(startingTimestamp="9", startingOffsetsByTimestampStrategy="LATEST") == AtTime(9, "latest")
    assert starting(startingTimestamp="9", startingOffsetsByTimestampStrategy="error") == AtTime(9, "error")
    assert starting(startingOffsets="latest", startingOffsetsByTimestampStrategy="latest") == Latest()
    (found,) = problems(startingTimestamp="9", startingOffsetsByTimestampStrategy="earliest")
    assert found == "startingOffsetsByTimestampStrategy is 'earliest'; expected error or latest"


@pytest.mark.parametrize("text", ["9", "earliest", "{}", '{"t": 9}', '{"t": {"0": -1}}', '{"t": {"0": "9"}}'])
def test_times_that_are_none(text: str) -> None:
    for name in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        (found,) = problems(**{name: text})
        assert 'expected {"topic": {"0": 1700000000000}}' in found


def test_a_group_is_where_partitions_start_that_no_offset_names() -> None:
    assert starting(startingGroup="g") == Committed("g", Earliest())
    assert starting(startingGroup="g", startingOffsets="latest") == Committed("g", Latest())
    assert starting(startingGroup="g", start="-10m") == Committed("g", Ago(600_000))
    assert starting(startingGroup="g", startingTimestamp="9") == Committed("g", AtTime(9, "error"))
    assert starting(startingGroup="g", startingOffsets='{"t": {"0": 5}}') == Specific(
        {T0: 5}, Committed("g", Earliest())
    )
    assert starting(startingGroup="g", startingOffsets='{"u": "latest", "t": {"0": 5}}') == ByTopic(
        {"u": Latest()}, {}, Specific({T0: 5}, Committed("g", Earliest()))
    )
    assert starting(startingGroup="g", start='{"u": "-5"}') == ByTopic(
        {"u": FromEnd(5)}, {}, Committed("g", Earliest())
    )
    assert cluster(startingGroup="g").starting_option == "startingGroup"


def test_our_names_and_sparks_are_not_mixed_at_one_level() -> None:
    """One sentence for all that is too much, and others for what is wrong in it."""
    found = problems(start="latest", startingOffsets="newest", startingTimestamp="9")
    assert found[0] == (
        "start is given beside startingTimestamp and startingOffsets; expected start alone, or leave start out"
    )
    assert [one.partition(" is ")[0] for one in found[1:]] == ["startingOffsets"]


def test_a_cluster_starts_and_ends_by_its_own_options_first() -> None:
    own = two({"start": "-5"}, startingTimestamp="9", startingGroup="g")
    assert (own.starting, own.starts_by_itself, own.starting_option) == (Committed("g", FromEnd(5)), True, "start")
    taken = two({}, startingTimestamp="9", endingOffsets="latest")
    assert (taken.starting, taken.starts_by_itself, taken.ending) == (AtTime(9, "error"), False, Latest())
    assert two({"startingGroup": "own"}, startingGroup="g").starting == Committed("own", Earliest())
    assert two({"startingGroup": "own"}).starts_by_itself
    inherited = two({"startingOffsetsByTimestampStrategy": "latest"}, startingTimestamp="9")
    assert (inherited.starting, inherited.starts_by_itself) == (AtTime(9, "latest"), False)
    assert two({"startingTimestamp": 7}).starting == AtTime(7, "error")
    ends = two({"stop": "-5"}, endingOffsets="latest")
    assert (ends.ending, ends.ends_stream) == (FromEnd(5), True)
    hidden = two({"endingOffsets": {"t": {"0": 5}}}, stop="latest")
    assert (plain(hidden.ending), hidden.ends_stream) == (Specific({T0: 5}, Latest()), False)


def test_what_is_wrong_outside_is_said_once_also_if_every_cluster_hides_it() -> None:
    inner = {"startingOffsets": "latest"}
    clusters = {name: {"kafka.bootstrap.servers": "e:1", **inner} for name in ("east", "west")}
    with pytest.raises(OptionError) as caught:
        parse_options({"clusters": json.dumps(clusters), "subscribe": "t", "startingOffsets": "newest"})
    (found,) = caught.value.problems
    assert found.startswith("startingOffsets is 'newest'")


def test_a_wrong_value_in_a_cluster_names_it() -> None:
    clusters = {"east": {"kafka.bootstrap.servers": "e:1", "start": 5, "stop": None, "startingTimestamp": True}}
    with pytest.raises(OptionError) as caught:
        parse_options({"clusters": json.dumps(clusters), "subscribe": "t"})
    found = caught.value.problems
    assert len(found) == 4
    assert all(" of cluster 'east'" in problem or "beside" in problem for problem in found)
