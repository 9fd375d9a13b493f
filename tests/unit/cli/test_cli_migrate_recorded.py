"""`evensplit migrate` on checkpoints that Spark itself has written: there and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.files import crc_of, crc_path
from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import age, contents
from tests.support.migrations import migrated, ranges

RECORDED = Path(__file__).parents[2] / "data" / "checkpoints" / "spark"


@pytest.mark.parametrize("name", ["done", "replay", "first", "several", "named"])
def test_checksums_are_those_that_hadoop_writes(name: str) -> None:
    found = {path: crc_path(path) for path in (RECORDED / name).rglob("*") if crc_path(path).exists()}
    assert found
    for path, crc in found.items():
        assert crc_of(path.read_bytes()) == crc.read_bytes(), path


def recorded(tmp_path: Path, name: str) -> Path:
    shutil.copytree(RECORDED / name, tmp_path / "from")
    age(tmp_path / "from")
    return tmp_path / "from"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("done", {"orders/0": (5, 10), "orders/1": (5, 10)}),
        ("replay", {"orders/0": (10, 14), "orders/1": (10, 14), "orders/2": (0, 4)}),
        ("first", {"orders/0": (2, 14), "orders/1": (3, 14), "orders/2": (0, 4)}),
        ("several", {"orders/0": (5, 10), "orders/1": (5, 10)}),
        ("named", {"orders/0": (5, 10), "orders/1": (5, 10)}),
    ],
)
def test_what_spark_has_written_there_and_back(tmp_path: Path, name: str, expected: dict[str, tuple[int, int]]) -> None:
    place = recorded(tmp_path, name)
    newest = max(int(path.name) for path in (place / "offsets").glob("[0-9]*"))
    to = migrated(place)
    before, after = contents(place), contents(to)
    changed = {Path(path).parts[0] for path in after if after[path] != before.get(path)}
    assert changed == {"offsets"}
    assert set(after) == set(before)

    def document(batch: int) -> EnumeratorState:
        texts = [text for text in (to / "offsets" / str(batch)).read_text().split("\n")[2:] if "orders" in text]
        return decode(json.loads(texts[0][texts[0].index("{") :]))

    start = document(newest - 1) if newest else EnumeratorState()
    assert ranges(start, document(newest)) == expected
    back = contents(migrated(to, "--to", "kafka", to=tmp_path / "back"))
    assert set(back) == set(before)

    def offsets(files: Mapping[str, bytes], batch: int) -> list[tuple[str, Any]]:
        texts = files[f"offsets/{batch}"].decode().split("\n")[2:]
        keyed = [text.partition(":") if name == "named" else ("", "", text) for text in texts]
        return [(key, json.loads(text)) for key, _, text in keyed]

    assert offsets(back, newest) == offsets(before, newest)
    if newest:
        wanted = offsets(before, newest - 1)
        if name == "replay":
            # Where the batch begins, new partitions included.
            wanted[0][1]["orders"]["2"] = 0
        assert offsets(back, newest - 1) == wanted
    rest = {path for path in before if not path.startswith("offsets/")}
    assert {path for path in rest if back[path] != before[path]} == set()
