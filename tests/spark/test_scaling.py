"""Executors come in a standalone cluster: readers follow them, and Spark follows the readers, by its own settings."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest

from bench.howfar.load_step import Load, Plan, run
from evensplit.observe import files
from evensplit.testing import LocalKafka
from evensplit.testing.chaos.job.standalone import StandaloneCluster
from tests.support.driver import Drivers
from tests.support.scrapes import parsed
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


def conf() -> dict[str, str]:
    """The settings of the recipe for dynamic allocation."""
    lines = files()["spark-dynamic-allocation.conf"].splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def test_readers_follow_the_slots_and_move_the_fewest(tmp_path: Path) -> None:
    """A process of its own, since a session of this one has its master. The exporter asks for the workers."""
    drivers = Drivers(tmp_path)
    try:
        process = drivers.start(module="tests.spark.test_scaling", directory=str(tmp_path / "run"))
        assert process.wait(600) == 0, drivers.log
    finally:
        drivers.close()
    found = json.loads((tmp_path / "run" / "outcome.json").read_text())
    readers = [row["readers"] for row in found["rows"]]
    assert readers[0] == 2
    assert readers[-1] > 2
    assert readers == sorted(readers)
    assert all(row["moved"] == row["moved_least"] for row in found["rows"])
    assert sum(row["moved"] for row in found["rows"]) > 0


def test_spark_starts_executors_for_the_readers(tmp_path: Path, topic: str, east: LocalKafka, checkpoint: Path) -> None:
    """By the settings of the recipe, with one worker that has room for eight cores."""
    east.create_topic(topic, partitions=8)
    load = Load(east.bootstrap_servers, topic, 8, rate=200)
    load.start()
    drivers = Drivers(tmp_path)
    try:
        with StandaloneCluster(tmp_path, workers=1, cores=8) as cluster:
            process = drivers.start(
                module="tests.support.scaled_driver",
                master=cluster.url,
                conf=conf(),
                options={"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic, "readers": 8},
                checkpoint=checkpoint,
                port=tmp_path / "port",
            )

            def has(executors: int) -> bool:
                assert process.poll() is None, drivers.log
                return len(cluster.executors(0)) >= executors

            wait_for(lambda: has(1), within_s=240, what="the first executor")
            wait_for(lambda: has(4), within_s=240, what="executors for all readers")
            port = int((tmp_path / "port").read_text())

            def needed() -> float | None:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                    found = parsed(answer.read().decode())
                names = {name: value for (name, _), value in found.items()}
                assert names.get("evensplit_readers", 8) == 8
                return names.get("evensplit_readers_needed")

            wait_for(lambda: needed() is not None, within_s=240, what="how many readers are needed")
            assert (needed() or 0) >= 1
    finally:
        drivers.close()
        load.end()


def main(directory: Path) -> None:
    """Run a small load step, and leave what came of it in `directory`."""
    directory.mkdir()
    os.chdir(directory)
    outcome = run(Plan(partitions=12, before=2, after=6, cores=2, workers_max=2, trigger_s=4), directory)
    rows = [{"readers": row.readers, "moved": row.moved, "moved_least": row.moved_least} for row in outcome.rows]
    (directory / "outcome.json").write_text(json.dumps({"rows": rows}))


if __name__ == "__main__":
    import sys

    main(Path(json.loads(sys.argv[1])["directory"]))
