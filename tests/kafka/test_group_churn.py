"""Members that join, leave and crash under ordinary loops: nobody sticks, nothing is read twice without a reason."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from tests.support.records import Draft, produce
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
Read = tuple[int, int, int]


class Reader:
    """A process of `tests.support.group_reader`. `unsure`: what it read last and has not said to be committed."""

    def __init__(self, *arguments: str) -> None:
        self.generation: int | None = None
        self.owned: list[int] = []
        self.read: list[Read] = []
        self.unsure: list[Read] = []
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `end`
        command = [sys.executable, "-m", "tests.support.group_reader", *arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def leave(self) -> None:
        """Let it end by itself; all that it wrote has been heard then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(timeout=120)
        self.end()
        assert code == 0, self.errors

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
        self.end()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
        self._thread.join(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if not self._errors.closed:
            self._errors.seek(0)
            self.errors = self._errors.read()
            self._errors.close()

    def alive(self) -> bool:
        return self._process.poll() is None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match json.loads(line):
                case {"read": found}:
                    self.unsure = [(partition, first, last) for partition, first, last in found]
                    self.read += self.unsure
                case {"committed": True}:
                    self.unsure = []
                case {"generation": generation, "owned": owned, "told": told}:
                    self.owned = owned
                    self.generation = generation if told == owned else None


class Writer:
    """Writes to all partitions of the topic all the time. `written`: how many records each has."""

    def __init__(self, kafka: LocalKafka, topic: str, partitions: int) -> None:
        self.partitions = partitions
        self.written: Counter[int] = Counter()
        self._over = threading.Event()
        self._kafka, self._topic = kafka, topic
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._over.wait(0.1):
            numbers = [number for number in range(self.partitions) for _ in range(3)]
            drafts = [Draft(b"x", partition=number) for number in numbers]
            produce(self._kafka.bootstrap_servers, self._topic, drafts)
            self.written.update(numbers)


class Group:
    """The members of one group, and those that were."""

    def __init__(self, kafka: LocalKafka, topic: str, assignor: str) -> None:
        self.arguments = (kafka.bootstrap_servers, topic, topic, assignor)
        self.members: list[Reader] = []
        self.gone: list[Reader] = []
        self.crashed: list[Reader] = []

    def join(self) -> None:
        self.members.append(Reader(*self.arguments))

    def leave(self) -> None:
        member = self.members.pop(0)
        self.gone.append(member)
        member.leave()

    def kill(self) -> None:
        member = self.members.pop(0)
        self.gone.append(member)
        self.crashed.append(member)
        member.kill()

    def shared_out(self, partitions: int) -> bool:
        assert all(member.alive() for member in self.members)
        generations = {member.generation for member in self.members}
        owned = sorted(number for member in self.members for number in member.owned)
        return len(generations) == 1 and generations != {None} and owned == list(range(partitions))

    def times_read(self) -> Counter[tuple[int, int]]:
        """(partition, offset) -> how often it was read."""
        return counted([one for member in (*self.members, *self.gone) for one in member.read])


def counted(found: list[Read]) -> Counter[tuple[int, int]]:
    return Counter((partition, offset) for partition, first, last in found for offset in range(first, last + 1))


@pytest.fixture(params=["BalancedAssignor", "CooperativeBalancedAssignor"])
def group(request: pytest.FixtureRequest, kafka: LocalKafka, topic: str) -> Iterator[Group]:
    kafka.create_topic(topic, 9)
    made = Group(kafka, topic, request.param)
    yield made
    for one in (*made.members, *made.gone):
        one.end()


def test_members_come_and_go_and_each_partition_has_one_owner(
    kafka: LocalKafka, topic: str, group: Group, record_property: Callable[[str, object], None]
) -> None:
    writer = Writer(kafka, topic, 9)

    def grow(partitions: int) -> None:
        kafka.add_partitions(topic, partitions)
        writer.partitions = partitions

    steps: list[tuple[Callable[[], None], ...]] = [
        (group.join,),
        (group.join,),
        (lambda: grow(12),),
        (group.join,),
        (group.join, group.join),
        (group.leave,),  # the leader
        (group.kill,),
        (lambda: grow(15),),
        (group.kill, group.join),
        (group.leave, group.join),
        (lambda: grow(16),),
        (group.kill,),
        (group.join,),
        (lambda: grow(18), group.leave),
    ]
    try:
        for number, step in enumerate(steps):
            for change in step:
                change()
            wait_for(lambda: group.shared_out(writer.partitions), what=f"one owner for each, after step {number}")
    finally:
        writer.stop()
    everything = {(partition, offset) for partition, count in writer.written.items() for offset in range(count)}
    wait_for(lambda: everything <= set(group.times_read()), what="all that was written being read")
    for _ in range(len(group.members)):
        group.leave()
    twice = {one for one, times in group.times_read().items() if times > 1}
    # A member that crashes between reading and committing leaves that to be read again, once for each crash.
    excused = {one for member in group.crashed for one in counted(member.unsure)}
    record_property("read twice", len(twice))
    print(f"{len(everything)} records, {len(twice)} of them read twice; crashes would excuse {len(excused)}")
    assert twice <= excused
    assert set(group.times_read()) == everything
