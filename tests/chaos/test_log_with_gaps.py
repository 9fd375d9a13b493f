"""Offsets that Spark logs now and then only: whatever was found in between is read from its beginning after a crash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from evensplit.testing.process.sessions import kill_session
from tests.support.driver import Drivers
from tests.support.queries import offset_files
from tests.support.waiting import wait_for
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

INTERVAL_MS = 8_000
FOUND = 40
"""So many records are in each partition that is found between two offsets."""


class Job:
    """An `async_driver` that logs every 8 s, over the topics of a world; what it reads is in `rows`."""

    def __init__(self, world: World, drivers: Drivers) -> None:
        self.checkpoint, self.die, self._sink = world.checkpoint, world.directory / "die", world.directory / "sink"
        self._options = {**world.options(subscribePattern=f"^{world.name}-"), "discoveryInterval": "300ms"}
        self._drivers = drivers

    def start(self) -> None:
        self.process = self._drivers.start(
            module="tests.support.async_driver",
            options=self._options,
            checkpoint=self.checkpoint,
            sink=self._sink,
            interval_ms=INTERVAL_MS,
            die=self.die,
        )

    def rows(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """(topic, partition) -> the batch and the value of each row, in the order in which they came."""
        found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for line in self._sink.read_text().splitlines() if self._sink.exists() else ():
            number, topic, partition, value = line.split()
            found[topic, int(partition)].append((int(number), int(value)))
        return found

    def logged(self) -> list[int]:
        return [int(path.name) for path in offset_files(self.checkpoint)]

    def wait(self, condition: Callable[[], object], what: str) -> None:
        def checked() -> object:
            assert self.process.poll() is None, self._drivers.log
            return condition()

        wait_for(checked, within_s=180, what=what)


def test_what_was_found_between_two_offsets_is_read_from_its_beginning(world: World, drivers: Drivers) -> None:
    known = world.default.topic("known", records=10)
    expected = {(known.name, 0): set(known.values)}
    job = Job(world, drivers)

    def put(topic: Topic, partition: int, count: int) -> None:
        values = topic.write(count, partition=partition)
        expected.setdefault((topic.name, partition), set()).update(values)

    def has_all() -> bool:
        rows = job.rows()
        return all(values <= {value for _, value in rows[key]} for key, values in expected.items())

    job.start()
    job.wait(has_all, "the first batch")
    # An offset has just been logged, so it takes 8 s until the next one is.
    before = job.logged()

    def goes_on() -> bool:
        put(known, 0, 1)
        return job.logged() != before

    job.wait(goes_on, "another offset in the log")
    last = job.logged()[-1]
    known.grow(2)
    new = world.default.topic("new")
    found = [(known, 1), (new, 0)]
    for topic, partition in found:
        put(topic, partition, FOUND)
    job.wait(has_all, "the records of what was found")
    found_in = {job.rows()[topic.name, partition][0][0] for topic, partition in found}
    assert job.logged()[-1] == last, "the batch in which they were found is not logged"
    assert all(number > last for number in found_in)

    job.die.touch()

    def is_dead() -> bool:
        for topic, partition in found:
            put(topic, partition, 1)
        return job.process.poll() is not None

    wait_for(is_dead, within_s=180, what="a batch that is logged, in which the driver dies")
    assert job.logged()[-1] > max(found_in), "it died in a batch after the one in which they were found"
    kill_session(job.process.pid)
    job.die.unlink()
    for topic, partition in ((known, 0), *found):
        put(topic, partition, 5)
    job.start()
    job.wait(has_all, "the records that came last")
    rows = job.rows()
    for key, values in expected.items():
        assert {value for _, value in rows[key]} == values, f"at least once: {key}"
