"""`evensplit why` and `evensplit inspect` of a query whose cluster got another name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from tests.support.commands import invoke, trimmed
from tests.support.histories import state, write

NEW = SplitId("east", "orders", 0)


def end(batch: int, **clusters: str) -> EnumeratorState:
    """Name of a cluster -> Kafka's id of it; each has orders/0, and reads 100 offsets a batch."""
    found = state({(name, "orders"): [100 * (batch + 1)] for name in clusters}, readers=2)
    named = {name: replace(one, kafka_id=clusters[name]) for name, one in found.clusters.items()}
    first = None if batch else 100
    splits = {key: split._replace(owner=0, first=first, since=0) for key, split in found.splits.items()}
    if clusters.get("east") == "other":
        splits[NEW] = splits[NEW]._replace(first=0, since=batch + 1)
    return replace(found, clusters=named, splits=splits, revision=batch + 1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """In batch 4 the query noticed that east is called north; from batch 6 on another cluster is called east."""
    names = [{"east": "K"}, {"east": "K"}, {"north": "K"}, {"north": "K"}, {"east": "other", "north": "K"}]
    return write(tmp_path / "orders", [end(batch, **one) for batch, one in enumerate(names, start=2)], first=2)


def test_the_new_name_has_the_whole_history(place: Path) -> None:
    assert (
        trimmed(invoke("why", place, "north/orders/0", columns=80)[0])
        == """\
north/orders/0

  batch      planned (UTC)            what happened
 ──────────────────────────────────────────────────────────────────────────────
  before 3                            already there; next offset 300; with
                                      reader 0
  3          2023-11-14 22:13:50      offsets 300 to 399 read by reader 0
  4          2023-11-14 22:14:00      was called east/orders/0 before: the
                                      query found cluster east under the name
                                      north, by Kafka's cluster id
                                      offsets 400 to 499 read by reader 0
  5-6        2023-11-14 22:14:10 to   offsets 500 to 699 read by reader 0
             2023-11-14 22:14:20

Now, after batch 6: next offset 700; with reader 0."""
    )


def test_the_old_name_says_what_goes_on_under_the_new_one(tmp_path: Path) -> None:
    names = ("east", "north", "west")
    place = write(tmp_path / "orders", [end(batch, **{name: "K"}) for batch, name in enumerate(names)])
    story = invoke("why", place, "west/orders/0")[0]
    for name, batch in (("east", 1), ("north", 2)):
        said, _, rest = invoke("why", place, f"{name}/orders/0")[0].partition("\n\n")
        assert " ".join(said.split()) == (
            f"What was called {name}/orders/0 before batch {batch} goes on as west/orders/0: its cluster has another "
            "name."
        )
        assert rest == story
    assert invoke("why", place, "orders/0")[0] == story
    assert "forgotten" not in story


def test_the_old_name_of_one_and_now_of_another_has_both_histories(place: Path) -> None:
    shown = invoke("why", place, "east/orders/0", columns=120)[0]
    first, second = shown.split("\neast/orders/0\n")
    assert first.startswith(
        "What was called east/orders/0 before batch 4 goes on as north/orders/0: its cluster has another name.\n"
    )
    assert first.partition("\n\n")[2].rstrip() == invoke("why", place, "north/orders/0", columns=120)[0].rstrip()
    assert "was discovered" in second
    assert "north" not in second
    stories = json.loads(invoke("why", place, "east/orders/0", "--format", "json")[0])["stories"]
    assert [(one["split"], one["former"]) for one in stories] == [
        ("north/orders/0", [{"split": "east/orders/0", "until": 4}]),
        ("east/orders/0", []),
    ]


def test_a_partition_that_several_have_is_asked_for_by_their_last_names(place: Path) -> None:
    assert (
        "is in several clusters; say which: east/orders/0, north/orders/0"
        in invoke("why", place, "orders/0", code=1)[1]
    )


def test_the_last_changes_have_the_new_name(place: Path) -> None:
    said = "cluster east is now called north: it is the same Kafka cluster, so its positions and owners are kept"
    assert f"renamed: {said}" in " ".join(invoke("inspect", place, columns=200)[0].split())
    happened = json.loads(invoke("inspect", place, "--format", "json")[0])["sources"][0]["happenings"]
    assert [one for one in happened if one["kind"] == "renamed"] == [
        {"batch": 4, "atMs": 1_700_000_040_000, "kind": "renamed", "text": said, "splits": 0}
    ]


def test_a_name_by_a_command_after_one_that_the_query_noticed(tmp_path: Path) -> None:
    names = ("east", "north")
    place = write(tmp_path / "orders", [end(batch, **{name: "K"}) for batch, name in enumerate(names)])
    invoke("rename-cluster", place, "north", "west", "--yes", "--assume-stopped")
    story = invoke("why", place, "west/orders/0")[0]
    found = "was called east/orders/0 before: the query found cluster east under the name north, by Kafka's cluster id"
    given = "was called north/orders/0 before: `evensplit rename-cluster north west`"
    assert 0 < story.index(found) < story.index(given)
    for name in names:
        assert invoke("why", place, f"{name}/orders/0")[0].endswith(f"its cluster has another name.\n\n{story}")
    happened = json.loads(invoke("inspect", place, "--format", "json")[0])["sources"][0]["happenings"]
    assert [one["kind"] for one in happened if "called" in one["text"]] == ["renamed", "edited"]


def test_a_name_that_another_cluster_got_says_so(tmp_path: Path) -> None:
    """The cluster that was called west is forgotten, and is not there again when another one is called so."""
    names = [{"east": "K", "west": "L"}, {"east": "K", "west": "L"}, {"west": "K"}, {"west": "K"}]
    place = write(tmp_path / "orders", [end(batch, **one) for batch, one in enumerate(names)])
    shown = invoke("why", place, "west/orders/0")[0]
    assert [row for row in shown.splitlines() if row.startswith("Now")] == [
        "Now, after batch 3: forgotten; another cluster got its name in batch 2.",
        "Now, after batch 3: next offset 400; with reader 0.",
    ]
