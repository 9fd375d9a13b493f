"""Options of the source in tests: what they mean, and what is said of wrong ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from evensplit.errors import OptionError
from evensplit.spark.options.parse import ClusterOptions, SourceOptions, parse_options

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
T0, T1 = ("t", 0), ("t", 1)


def parse(**options: str) -> SourceOptions:
    return parse_options({**BASE, **options})


def cluster(**options: str) -> ClusterOptions:
    return parse(**options).clusters[0]


def problems(**options: str) -> tuple[str, ...]:
    return problems_of({**BASE, **options})


def problems_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The problems that the error about these options lists."""
    with pytest.raises(OptionError) as caught:
        parse_options(options)
    return caught.value.problems


def two(inner: dict[str, Any], **outside: str) -> ClusterOptions:
    """One of two clusters, with options of its own."""
    clusters = {"east": {"kafka.bootstrap.servers": "e:1", **inner}, "west": {"kafka.bootstrap.servers": "w:1"}}
    options = parse_options({"clusters": json.dumps(clusters), "subscribe": "t", **outside})
    found = options.cluster("east")
    assert found is not None
    return found
