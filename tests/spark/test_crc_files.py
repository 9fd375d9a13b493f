"""Checksums beside files: what Hadoop makes of those that this package writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.checkpoint.files import crc_of, crc_path, crc_problem

pytestmark = pytest.mark.spark

LINES = [f"{number:>99}" for number in range(9)]
DATA = "\n".join(LINES).encode()


@pytest.mark.parametrize("crc", [crc_of(DATA), crc_of(DATA, 100), None, b"rubbish"], ids=["512", "100", "none", "?"])
def test_the_right_ones_or_none_are_read(spark: SparkSession, tmp_path: Path, crc: bytes | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    if crc is not None:
        crc_path(path).write_bytes(crc)
        assert crc_problem(DATA, crc) is None
    assert [row.value for row in spark.read.text(str(path)).collect()] == LINES


def test_wrong_ones_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    wrong = crc_of(DATA[:-1] + b"x")
    crc_path(path).write_bytes(wrong)
    with pytest.raises(Exception, match="Checksum error"):
        spark.read.text(str(path)).collect()
    assert str(crc_problem(DATA, wrong)).startswith("bytes 512 to 898 have the checksum")
