"""Pins, capacities and timestamps among the options."""

from __future__ import annotations

import json

import pytest

from evensplit.core.model import Cluster, Topic
from evensplit.errors import OptionError
from evensplit.spark.options.parse import parse_options
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


def test_a_timestamp_that_cannot_be_held_matters_only_where_rows_have_it() -> None:
    assert parse(onTimestampOverflow="null").ignored == ()
    assert parse(onTimestampOverflow="null", columns="value").ignored == ("onTimestampOverflow",)


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
        ('{"0": "east"}', "pin of the readers '0' is 'east'; expected a list"),
        ('{"0": []}', "expected a list of clusters and topics"),
        ('{"0": [5]}', "expected a list of clusters and topics"),
        ('{"0": ["eats"]}', "pin names the cluster 'eats', which does not exist; did you mean 'east'?"),
        ('{"0": ["north/t"]}', "which does not exist; expected one of 'east', 'west'"),
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


def test_capacities_are_of_readers_and_ranges_of_them() -> None:
    found = parse(balance="rate", capacity='{"0-1": 2, "3": 1000, "4": 1}').settings.capacities
    assert found == ((0, 2), (1, 2), (3, 1000))
    assert parse(balance="rate").settings.capacities == ()


def test_all_wrong_capacities_at_once() -> None:
    document = {"0": 0, "1": 1001, "2": 1.5, "3": True, "4": "2", "x": 2, "5-4": 2, "6": 2, "6-7": 3, "9": 2}
    found = problems(balance="rate", readers="9", capacity=json.dumps(document))
    assert len(found) == 9, found
    assert sum("expected a whole number from 1 to 1000" in one for one in found) == 5
    assert sum("capacity names reader 6 twice; expected each reader once" in one for one in found) == 1
    for wrong in ("{}", "[]", "2", "{"):
        (problem,) = problems(balance="rate", capacity=wrong)
        assert problem.startswith("capacity "), problem
