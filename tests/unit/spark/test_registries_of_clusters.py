"""Which schema registry each task is handed: that of its clusters, by whatever name they go, and no other."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.types import StructType

from evensplit.errors import MetadataError, OptionError, RegistryError, SchemaUnknown
from evensplit.registry.client import Registry
from evensplit.spark.failed_reader import RefusedStreamReader
from evensplit.spark.options.parse import parse_options
from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.task.partition import ReaderPartition
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import NONE, Source, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

ID = json.dumps({"type": "record", "name": "Id", "fields": [{"name": "id", "type": "long"}]})
AVRO: dict[str, Any] = {"value.format": "avro", "value.schema": ID}
OUTER: dict[str, Any] = {
    "schema.registry.url": "http://outer:8081",
    "schema.registry.basic.auth.user.info": "me:secret",
}


def own(name: str) -> dict[str, str]:
    return {"schema.registry.url": f"http://{name}:8081"}


def fake(name: str, cluster_id: str = "") -> FakeKafka:
    made = FakeKafka(name, cluster_id=cluster_id or name)
    made.create_topic("t")
    made.append("t", 0, 10)
    return made


def source(*clusters: FakeKafka, each: Mapping[str, Mapping[str, str]] | None = None, **options: Any) -> Source:
    return Source(*clusters, each=each, **{**AVRO, **options})


def handed(partitions: list[ReaderPartition]) -> dict[str, str]:
    """Cluster -> its registry, in all of them."""
    return {name: one.shown for part in partitions for name, one in part.registries.items()}


def test_a_cluster_has_its_registry_before_it_has_answered() -> None:
    """A batch is repeated after a restart before any cluster is polled."""
    first = restored(source(fake("east"), each={"east": own("east")}, **OUTER).plan(NONE))
    again = source(fake("east"), each={"east": own("east")}, **OUTER)
    assert handed(again.coordinator.partitions(NONE, first)) == {"east": "http://east:8081"}


def test_a_renamed_cluster_keeps_its_registry() -> None:
    first = restored(source(fake("old", "K"), each={"old": own("mine")}, **OUTER).plan(NONE))
    again = source(fake("new", "K"), fake("other"), each={"new": own("mine")}, **OUTER)
    again.plan(first)
    assert handed(again.coordinator.partitions(NONE, first)) == {"old": "http://mine:8081"}


def test_a_cluster_that_is_not_found_is_not_read_by_the_registry_of_others() -> None:
    first = restored(source(fake("old"), each={"old": own("mine")}, **OUTER).plan(NONE))
    again = source(fake("east"), each={"east": own("east")}, **OUTER)
    with pytest.raises(
        MetadataError, match=r"cluster 'old' of the checkpoint.*so the registry of this one is not known"
    ):
        again.coordinator.partitions(NONE, first)
    # Where there is one for all, it is that one.
    alone = source(fake("east"), **OUTER)
    assert handed(alone.coordinator.partitions(NONE, first)) == {"old": "http://outer:8081"}


def test_a_task_has_the_registries_of_its_clusters_alone() -> None:
    one = source(fake("east"), fake("west"), each={"east": own("east")}, minPartitions="2", **OUTER)
    end = one.plan(NONE)
    parts = one.coordinator.partitions(NONE, end)
    found = {tuple(part.settings): part for part in parts}
    assert {names: handed([part]) for names, part in found.items()} == {
        ("east",): {"east": "http://east:8081"},
        ("west",): {"west": "http://outer:8081"},
    }
    # The schema of the columns is from the outer one.
    homes = {names: part.reading.registry and part.reading.registry.shown for names, part in found.items()}
    assert homes == {("east",): None, ("west",): "http://outer:8081"}
    assert {names: b"secret" in pickle.dumps(part) for names, part in found.items()} == {
        ("east",): False,
        ("west",): True,
    }


@pytest.mark.parametrize("more", [{"value.framing": "none"}, {"value.format": "json", "value.schema": "id BIGINT"}])
def test_no_login_goes_to_tasks_that_ask_nobody(more: dict[str, Any]) -> None:
    one = source(fake("east"), **OUTER, **more)
    (part,) = one.coordinator.partitions(NONE, one.plan(NONE))
    assert (part.registries, part.reading.registry) == ({}, None)
    assert b"secret" not in pickle.dumps(part)


def options(clusters: Mapping[str, Mapping[str, str]], **more: Any) -> dict[str, str]:
    each = {name: {"kafka.bootstrap.servers": f"{name}:9092", **own} for name, own in clusters.items()}
    return {"clusters": json.dumps(each), "subscribe": "t", **AVRO, **more}


def test_a_cluster_without_a_registry_is_a_wrong_option() -> None:
    clusters = {"east": own("east"), "west": {}, "south": {}}
    with pytest.raises(OptionError) as caught:
        parse_options(options(clusters))
    assert caught.value.problems == tuple(
        f"schema.registry.url of cluster '{name}' is missing, and its values are read by schemas of a registry; "
        "expected it there, or outside for all clusters"
        for name in ("south", "west")
    )
    with pytest.raises(OptionError, match="its keys and values are read"):
        parse_options(options({"east": own("east"), "west": {}}, **{"key.format": "avro", "key.schema": ID}))


@pytest.mark.parametrize(
    "clusters, more",
    [
        ({"east": own("east"), "west": {}}, {"schema.registry.url": "http://outer:8081"}),
        ({"east": own("east"), "west": {}}, {"value.framing": "none"}),
        ({"east": own("east"), "west": {}}, {"value.format": "json", "value.schema": "id BIGINT"}),
        ({"east": {}, "west": {}}, {}),
    ],
)
def test_no_registry_is_missing(clusters: dict[str, dict[str, str]], more: dict[str, str]) -> None:
    assert len(parse_options(options(clusters, **more)).clusters) == 2


def test_of_wrong_options_of_a_registry_only_these_are_told() -> None:
    wrong = {"schema.registry.url": "west:8081"}
    with pytest.raises(OptionError) as caught:
        parse_options(options({"east": own("east"), "west": wrong}))
    (problem,) = caught.value.problems
    assert problem.startswith("schema.registry.url has")


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that lacks the subject."""

    def latest(self: Registry, subject: str) -> None:
        raise SchemaUnknown("http://r:8081", f"subject {subject!r}: it has no such subject")

    monkeypatch.setattr(Registry, "latest", latest)


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("ask", [lambda one: one.schema(), lambda one: one.reader(StructType())])
def test_what_the_registry_says_is_the_error_of_a_batch_query(ask: Callable[[EvenSplitDataSource], object]) -> None:
    """Spark asks for no schema where the user gives one."""
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "value.format": "avro", **OUTER}
    with pytest.raises(RegistryError, match="it has no such subject"):
        ask(EvenSplitDataSource(given))


@pytest.mark.usefixtures("unknown")
def test_what_the_registry_says_is_the_error_of_a_streaming_query() -> None:
    """PySpark hides what is raised where the reader is made behind an error of its own."""
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "value.format": "avro", **OUTER}
    reader = EvenSplitDataSource(given).streamReader(StructType())
    assert isinstance(reader, RefusedStreamReader)
    with pytest.raises(RegistryError, match="it has no such subject"):
        reader.initialOffset()
