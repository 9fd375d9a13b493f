"""`evensplit doctor --checkpoint` over the checkpoint of a real query, and what happens when that starts then."""

from __future__ import annotations

import json
from typing import Any

import pyspark
import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.explain.changes import changes
from tests.support.checkpoints import contents
from tests.support.queries import states
from tests.support.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def doctor(world: World, **options: Any) -> dict[str, dict[str, Any]]:
    """Its findings about the checkpoint and the start, by their steps."""
    said = [part for name, value in world.options(**options).items() for part in ("-o", f"{name}={value}")]
    before = contents(world.checkpoint)
    done = CliRunner().invoke(evensplit, ["doctor", "--checkpoint", str(world.checkpoint), *said, "--format", "json"])
    assert contents(world.checkpoint) == before, "nothing is written"
    found = json.loads(done.stdout)["findings"]
    assert [one for one in found if one["where"].startswith("cluster") and one["status"] == "failed"] == []
    return {one["step"]: one for one in found if one["where"] in ("checkpoint", "start of the query")}


def test_what_it_says_is_what_happens(world: World) -> None:
    topic = world.default.topic(partitions=4, records=12)
    world.run(readers=2)
    same = doctor(world, readers=2)
    version = ".".join(pyspark.__version__.split(".")[:2])
    assert f"with the settings that Spark {version}" in same["Spark"]["found"]
    assert {name for name, one in same.items() if one["status"] != "ok"} == {"starting offsets"}
    assert "none of 4 partitions would change its reader" in same["owners"]["found"]

    topic.grow(5)
    topic.write(5, partition=4)
    told = doctor(world, readers=5)
    assert told["readers"]["found"] == "5, and 2 in the checkpoint"
    assert "1 topic with 1 new partition would be found, and 5 offsets of them be read" in told["partitions"]["found"]
    before = states(world.checkpoint)[-1]
    batches = world.run(readers=5)
    assert sorted(row.partition for row in batches.rows) == [4] * 5
    first = next(one for one in states(world.checkpoint) if one.revision == before.revision + 1)
    happened = changes(before, first)
    assert (len(happened.discoveries), len(happened.moves)) == (1, 2)
    assert told["owners"]["found"].startswith(
        "2 of 5 partitions would change their reader, since the number of readers"
    )
