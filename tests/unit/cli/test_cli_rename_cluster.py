"""`evensplit rename-cluster`: whether it is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import lines, states


@pytest.mark.parametrize(
    "name, called",
    [
        ("eu", "The query has to call this cluster eu, in clusters or metadata"),
        ("default", "The cluster of a query without the options clusters and metadata is called so"),
    ],
)
def test_rename_cluster_says_whether_it_is_needed(tmp_path: Path, name: str, called: str) -> None:
    """By Kafka's id of a cluster, a query goes on with it by itself, under whatever name."""
    known = states("north")
    kafka_id = known[-1].clusters["north"].kafka_id
    place = checkpoint(tmp_path / "known", *map(lines, known), committed=2)
    assert (
        f"Note: This is not needed: the checkpoint has Kafka's id of the cluster, {kafka_id}, by which the query finds "
        "it under any new name. So it goes on where it stopped, whether its options call the cluster north, "
        f"{name} or otherwise. Checked"
    ) in " ".join(invoke("rename-cluster", place, "north", name, "--assume-stopped")[0].split())
    place = checkpoint(tmp_path / "unfinished", *map(lines, known), committed=1)
    assert (
        f"{name} or otherwise. Batch 2 is not finished, so with another name than {name}, they have to keep one of the "
        "cluster's bootstrap servers, too. "
    ) in " ".join(invoke("rename-cluster", place, "north", name, "--assume-stopped")[0].split())
    clusters = {"north": replace(known[-1].clusters["north"], kafka_id="")}
    place = checkpoint(tmp_path / "unknown", *(lines(replace(one, clusters=clusters)) for one in known), committed=2)
    assert (
        f"Note: {called}. The checkpoint does not have Kafka's id of the cluster, so under any other new name it would "
        "be taken for another one, and read from its beginning. Checked"
    ) in " ".join(invoke("rename-cluster", place, "north", name, "--assume-stopped")[0].split())
