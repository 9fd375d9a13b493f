"""Durations, flags, names and pins among the options."""

from __future__ import annotations

import json

import pytest

from evensplit.core.model import Cluster, Topic
from evensplit.errors import OptionError
from evensplit.spark.options.parse import check_batch, check_streaming, parse_options
from tests.support.options import parse, problems

SEVERAL = {
    "clusters": json.dumps({name: {"kafka.bootstrap.servers": "e:1"} for name in ("east", "west")}),
    "subscribe": "orders",
}


def pins(document: object, **options: str) -> dict[int, tuple[object, ...]]:
    return dict(parse_options({**SEVERAL, "pin": json.dumps(document), **options}).pins)


def pin_problems(text: str, **options: str) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        parse_options({**SEVERAL, "pin": text, **options})
    return caught.value.problems


def test_what_holds_when_nothing_is_said() -> None:
    options = parse()
    assert (options.discovery_interval_ms, options.cluster_wait_ms) == (30_000, 1_000)
    assert (options.unreachable_timeout_ms, options.retention_ms) == (600_000, 604_800_000)
    assert (options.allow_unreachable, options.fail_on_data_loss) == (False, True)
    assert (options.commit_group, options.pins, options.metadata) == ("", {}, None)


@pytest.mark.parametrize(
    "text, expected_ms",
    [
        ("5s", 5_000),
        (" 250 ms ", 250),
        ("2m", 120_000),
        ("2 Min", 120_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        ("7d", 604_800_000),
        ("0.0001s", 1),
        ("0", 0),
        ("0s", 0),
        ("0.0", 0),
    ],
)
def test_durations_have_a_unit(text: str, expected_ms: int) -> None:
    options = parse(discoveryInterval=text, clusterWait=text, unreachableTimeout=text, removedRetention=text)
    assert options.discovery_interval_ms == options.cluster_wait_ms == expected_ms
    assert options.unreachable_timeout_ms == options.retention_ms == expected_ms


@pytest.mark.parametrize("text", ["-1", "-5s", "- 1.5", "-0"])
def test_discovery_is_off_at_zero_or_less_and_nothing_else_is_negative(text: str) -> None:
    assert parse(discoveryInterval=text).discovery_interval_ms == 0
    for name in ("clusterWait", "unreachableTimeout", "removedRetention"):
        assert len(problems(**{name: text})) == 1


@pytest.mark.parametrize(
    "text", ["", "30", "1.5", "s", "1,5s", "5 weeks", "1e3s", "²s", "--5s", "nans", "9" * 15 + "d"]
)
def test_a_duration_that_is_none(text: str) -> None:
    for name in ("discoveryInterval", "clusterWait", "unreachableTimeout", "removedRetention"):
        (found,) = problems(**{name: text})
        assert found.startswith(f"{name} is {text!r}; expected a number with its unit (ms, s, m, h or d), such as 30s")


def test_a_number_without_a_unit_is_shown_with_one() -> None:
    (found,) = problems(discoveryInterval="30")
    assert found.endswith("or 0 or less for no discovery: write 30s or 30ms")


def test_flags() -> None:
    options = parse(failOnDataLoss=" FALSE ", allowUnreachable="True")
    assert (options.fail_on_data_loss, options.allow_unreachable) == (False, True)
    assert problems(failOnDataLoss="no", allowUnreachable="1") == (
        "allowUnreachable is '1'; expected true or false",
        "failOnDataLoss is 'no'; expected true or false",
    )


def test_how_long_a_record_batch_may_be() -> None:
    assert parse().batch_bytes_max == 256 << 20
    assert parse(maxBatchBytes=" 1000000 ").batch_bytes_max == 1_000_000
    for text in ("0", "-1", "64m", "1000000001"):
        (found,) = problems(maxBatchBytes=text)
        assert found == f"maxBatchBytes is {text!r}; expected a whole number of at least 1 and at most 1000000000"


def test_what_becomes_of_timestamps_that_cannot_be_held() -> None:
    assert parse().null_timestamps is False
    assert parse(onTimestampOverflow="fail").null_timestamps is False
    options = parse(onTimestampOverflow=" NULL ")
    assert (options.null_timestamps, options.ignored) == (True, ())
    assert problems(onTimestampOverflow="zero") == ("onTimestampOverflow is 'zero'; expected one of fail, null",)
    assert parse(onTimestampOverflow="null", columns="value").ignored == ("onTimestampOverflow",)


def test_a_group_for_commits_is_for_streams() -> None:
    options = parse(commitGroup="lag watch")
    assert options.commit_group == "lag watch"
    check_streaming(options)
    with pytest.raises(OptionError, match="commitGroup is given, but a batch query"):
        check_batch(options)
    for wrong in ("", "a\x00", "g" * 250):
        assert problems(commitGroup=wrong)[0].endswith("expected 1 to 249 printable characters")


def test_pins_add_up() -> None:
    assert pins(
        {"0-2": ["west/orders", "west"], " 2 - 3 ": ["east"], "2": ["west/clicks", "west"], "05": ["east"]}
    ) == {
        0: (Cluster("west"), Topic("west", "orders")),
        1: (Cluster("west"), Topic("west", "orders")),
        2: (Cluster("east"), Cluster("west"), Topic("west", "clicks"), Topic("west", "orders")),
        3: (Cluster("east"),),
        5: (Cluster("east"),),
    }
    assert parse(pin='{"0": ["default/t"]}').pins == {0: (Topic("default", "t"),)}
    assert list(pins({"3": ["east"], "0": ["west"]}, readers="4")) == [0, 3]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{}", "pin is '{}'; expected {\"0-3\""),
        ("0-3: east", "pin is '0-3: east'; expected {\"0-3\""),
        ('{"x": ["east"]}', "pin names the readers 'x'; expected a number from 0, or a range of them such as 0-3"),
        ('{"3-1": ["east"]}', "pin names the readers '3-1'; expected a number"),
        ('{"-1": ["east"]}', "pin names the readers '-1'; expected a number"),
        ('{"4": ["east"]}', "pin names the readers '4'; expected at most 3, since readers is 4"),
        ('{"0-4": ["east"]}', "pin names the readers '0-4'; expected at most 3, since readers is 4"),
        ('{"0": "east"}', "pin gives the readers '0' 'east'; expected a list"),
        ('{"0": []}', "expected a list of clusters and topics"),
        ('{"0": [5]}', "expected a list of clusters and topics"),
        ('{"0": ["eats"]}', "pin names the cluster 'eats', which there is not; did you mean 'east'?"),
        ('{"0": ["north/t"]}', "which there is not; expected one of 'east', 'west'"),
        ('{"0": ["east/"]}', "pin names 'east/', where '' cannot be a topic"),
        ('{"0": ["east/a/b"]}', "where 'a/b' cannot be a topic"),
        ('{"0": ["/t"]}', "pin names a cluster ''; expected 1 to 249"),
    ],
)
def test_a_pin_that_is_none(text: str, expected: str) -> None:
    (found,) = pin_problems(text, readers="4")
    assert expected in found


def test_pins_are_bounded() -> None:
    (found,) = pin_problems('{"0-999999999": ["east"]}')
    assert found == "pin names the readers '0-999999999'; expected at most 99999"
    assert len(pins({"0-99999": ["east"]})) == 100_000
    many = {"0-99999": [f"east/t{number}" for number in range(11)]}
    (found,) = pin_problems(json.dumps(many))
    assert found.startswith("pin names more than 1000000 pairs")


def test_all_wrong_pins_at_once() -> None:
    assert len(pin_problems('{"9": ["north", "east/ "], "x": [5]}', readers="4")) == 5
