"""A real query goes on from a checkpoint of every format, with a batch that was planned in it and is not done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.offset_file import parse_offset_file
from evensplit.checkpoint.spark_settings import settings_of
from evensplit.core.state.codec import SIGNATURE, VERSION, decode, encode
from tests.support.queries import committed, document, offset_files
from tests.support.world import Topic, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

EACH = 6
"""So many records each of two partitions has."""

ADDED: dict[int, dict[str, Any]] = {
    1: {"plan": "owners"},
    2: {"plan": "owners", "generation": 1},
    3: {"plan": "whole", "generation": 1, "tasksMin": 2},
    4: {"plan": "whole", "generation": 1, "revision": 7},
    5: {"plan": "whole", "generation": 1, "revision": 7, "held": [["maxOffsetsPerTrigger", ""]]},
    6: {"plan": "whole", "generation": 1, "revision": 7, "edits": [{"command": "fork", "said": "copy", "atMs": 5}]},
}
"""Format -> what an offset in it has besides readers, policy and clusters."""


def offset(version: int, topic: Topic, positions: list[int]) -> str:
    """A line of the offset log, in the format."""
    columns = {"id": "", "next": positions, "owner": [0, 1]}
    cluster = {"bootstrap": [topic.cluster.servers], "discovered": True, "topics": {topic.name: columns}}
    body = {SIGNATURE: version, "readers": 2, "policy": "balanced", **ADDED[version], "clusters": {"default": cluster}}
    made = {**body, "check": checksum(body)}
    assert decode(made).splits
    return json.dumps(made)


def checksum(body: dict[str, Any]) -> str:
    from evensplit.core.state import codec

    return codec._check(codec._text(body))


def write(place: Path, version: int, topic: Topic) -> None:
    """Batch 0 is done, at offsets 1 and 2; batch 1 is planned, to 3 and 2."""
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {"spark.sql.shuffle.partitions": "3"}})
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"852393a4-ca2d-406a-9970-c7c76aafb3bc"}')
    for batch, positions in enumerate(([1, 2], [3, 2])):
        (place / "offsets" / str(batch)).write_text(f"v1\n{head}\n{offset(version, topic, positions)}")
    (place / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_query_goes_on_from_every_format(world: World, version: int) -> None:
    topic = world.default.topic(partitions=2, records=2 * EACH)
    write(world.checkpoint, version, topic)
    batches = world.run()
    found = sorted((row.partition, row.offset) for row in batches.rows)
    assert found == [(0, at) for at in range(1, EACH)] + [(1, at) for at in range(2, EACH)], "each once, none missing"
    assert committed(world.checkpoint)[-1] >= 2
    newest = offset_files(world.checkpoint)[-1]
    assert document(newest)[SIGNATURE] == 4, "what is written next"
    state = decode(document(newest))
    assert json.loads(json.dumps(encode(state))) == document(newest)
    assert [split.owner for split in state.splits.values()] == [0, 1], "owners stay"
    assert all(split.topic_id for split in state.splits.values()), "and now the topic's id is known"
    kept = settings_of(parse_offset_file(newest, int(newest.name), newest.read_bytes()).text)
    assert kept["spark.sql.shuffle.partitions"] == "3", "Spark goes on with its own settings of the checkpoint"
