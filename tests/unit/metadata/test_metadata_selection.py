"""What is chosen of metadata: streams by name or pattern, merged to clusters with their offsets."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.errors import MetadataError
from evensplit.metadata import ClusterMetadata, Metadata, Selection, Stream, select
from tests.support.metadata_answers import cluster

ORDERS = Stream("orders", (cluster("east", topics=("a", "b")), cluster("west", topics=("a",))))
CLICKS = Stream("clicks", (cluster("east", topics=("b", "c")), cluster("idle", topics=())))


def chosen(*streams: Stream) -> dict[str, ClusterMetadata]:
    found = select(Metadata(streams), None, None)
    assert found.missing == ()
    return {one.id: one for one in found.clusters}


def test_streams_are_merged_to_clusters() -> None:
    metadata = Metadata((ORDERS, CLICKS))
    east = cluster("east", topics=("a", "b", "c"))
    assert select(metadata, None, None) == Selection((east, cluster("west", topics=("a",))))
    assert select(metadata, ("nope", "orders", "also"), None) == Selection(ORDERS.clusters, ("also", "nope"))
    assert select(metadata, ("clicks",), None) == Selection((cluster("east", topics=("b", "c")),))
    assert select(metadata, (), None) == Selection(())


def test_a_pattern_is_found_anywhere() -> None:
    metadata = Metadata((ORDERS, CLICKS))
    assert select(metadata, None, "der") == select(metadata, ("orders",), None)
    assert select(metadata, None, "^der") == Selection(())
    with pytest.raises(MetadataError, match=r"expected a regular expression, found '\(':"):
        select(metadata, None, "(")
    with pytest.raises(MetadataError, match="found both"):
        select(metadata, ("a",), "a")


def test_the_clusters_own_offsets_come_first() -> None:
    stream = Stream(
        "s", (cluster("a", ending_offsets="latest"), cluster("b", starting_offsets="-10m")), "earliest", "x"
    )
    found = chosen(stream)
    assert [(one.starting_offsets, one.ending_offsets) for one in found.values()] == [
        ("earliest", "latest"),
        ("-10m", "x"),
    ]


def test_a_streams_mapping_reaches_the_clusters_that_have_the_topics() -> None:
    stream = Stream(
        "s", (cluster("a", topics=("t", "u")), cluster("b", topics=("u",))), {"t": "x", "u": "y", "typo": "z"}
    )
    found = chosen(stream)
    assert found["a"].starting_offsets == {"t": "x", "u": "y", "typo": "z"}
    assert found["b"].starting_offsets == {"u": "y", "typo": "z"}


@pytest.mark.parametrize(
    "first, second, merged",
    [
        ("earliest", "earliest", "earliest"),
        ("earliest", "latest", {"a": "earliest", "b": "earliest", "c": "latest"}),
        (None, "latest", {"a": None, "b": None, "c": "latest"}),
        ({"a": {"0": 5}, "b": "latest"}, "-5", {"a": {"0": 5}, "b": "latest", "c": "-5"}),
        ('{"a": {"0": 5}}', {"c": -2}, {"a": {"0": 5}, "c": -2}),
        ("{torn", "latest", {"a": "{torn", "b": "{torn", "c": "latest"}),
    ],
)
def test_different_offsets_are_merged_by_topic(first: Any, second: Any, merged: Any) -> None:
    one = Stream("one", (cluster(topics=("a", "b")),), first)
    two = Stream("two", (cluster(topics=("c",), starting_offsets=second, ending_offsets="latest"),))
    found = chosen(one, two)["c"]
    assert found.starting_offsets == merged
    assert found.ending_offsets == {"a": None, "b": None, "c": "latest"}


def test_two_streams_that_want_different_offsets_of_one_topic() -> None:
    one = Stream("one", (cluster(topics=("a", "b"), where="fleet, line 3"),), "earliest")
    two = Stream("two", (cluster(topics=("b",)),), "latest")
    with pytest.raises(MetadataError) as caught:
        chosen(one, two)
    assert caught.value.problems == (
        "stream 'two': expected for topic 'b' of cluster 'c' the starting offsets that are at fleet, line 3, since "
        "both streams are chosen; found others",
    )
    assert select(Metadata((one, two)), ("one",), None).clusters[0].starting_offsets == "earliest"
    silent = Stream("two", (cluster(topics=("b", "c")),))
    assert chosen(one, silent)["c"].starting_offsets == {"a": "earliest", "b": "earliest", "c": None}
