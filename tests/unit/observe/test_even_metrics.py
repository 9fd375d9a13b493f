"""Metrics of how even owners are: by counts, or by work."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from evensplit.core.state.settings import PER_CLUSTER, RATE, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.observe import files
from evensplit.observe.prometheus import EvenSplitCollector
from evensplit.observe.recorder import Recorder
from tests.support.scrapes import parsed, value
from tests.support.views import feed, keys_of, state


def metrics(rates: dict[str, list[int]], owners: list[int], **settings: object) -> list[float | None]:
    """Whether it is even, the largest load by work and its bound, of partitions with these rates on these clusters."""
    keys = keys_of({(cluster, "orders"): len(found) for cluster, found in rates.items()})
    owned: dict[object, int] = dict(zip(keys, owners, strict=True))
    begin = state(owned, dict.fromkeys(keys, 5), 2, Settings(balance=RATE, **settings))  # type: ignore[arg-type]
    brought = [rate for found in rates.values() for rate in found]
    splits = {key: begin.splits[key]._replace(rate=rate) for key, rate in zip(keys, brought, strict=True)}
    recorder = Recorder()
    feed(recorder, [EnumeratorState(), replace(begin, splits=splits)])
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EvenSplitCollector(lambda: [recorder], partitions=lambda: False))
    found = parsed(generate_latest(registry).decode())
    return [value(found, name) for name in ("even", "work_max", "work_bound")]


def test_owners_that_are_the_best_by_work_are_even_whatever_the_counts() -> None:
    assert metrics({"eu": [900, 300, 300, 300]}, [0, 1, 1, 1]) == [1, 900, 900]


@pytest.mark.parametrize("gain, even", [(8, 0), (9, 1)])
def test_owners_count_as_even_that_are_proven_to_be_within_the_gain(gain: int, even: int) -> None:
    assert metrics({"eu": [2400, 480, 1200, 1220]}, [0, 0, 1, 1], gain_percent=gain) == [even, 2880, 2650]


def test_work_is_for_each_part_of_the_capacity() -> None:
    assert metrics({"eu": [90] * 3}, [0, 0, 1], capacities=((0, 2),)) == [1, 90, 90]


def test_of_clusters_on_their_own_the_one_that_is_furthest_from_its_bound_is_told() -> None:
    rates = {"eu": [900, 300, 300, 300], "us": [10, 10]}
    assert metrics(rates, [0, 1, 1, 1, 0, 0], scope=PER_CLUSTER) == [0, 20, 10]


def test_without_rates_nothing_is_told_of_work() -> None:
    assert metrics({"eu": [0] * 4}, [0, 0, 1, 1]) == [1, None, None]
    assert metrics({"eu": [0] * 3}, [0, 0, 1], capacities=((0, 2),)) == [1, None, None]


def test_the_gap_stands_beside_the_verdict_in_grafana_and_is_never_shown_as_one() -> None:
    """A gap of 0 is neither `no` nor `yes`."""
    (panel,) = [one for one in json.loads(files()["grafana.json"])["panels"] if one["title"] == "Proven even"]
    assert [re.findall(r"evensplit_\w+", target["expr"]) for target in panel["targets"]] == [
        ["evensplit_even"],
        ["evensplit_work_max", "evensplit_work_bound"],
    ]
    assert "mappings" not in panel["fieldConfig"]["defaults"]
    (override,) = panel["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byFrameRefID", "options": panel["targets"][0]["refId"]}
    (mappings,) = [one["value"] for one in override["properties"] if one["id"] == "mappings"]
    assert {value: one["text"] for value, one in mappings[0]["options"].items()} == {"0": "no", "1": "yes"}
