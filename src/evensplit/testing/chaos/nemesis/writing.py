"""Faults of a job that writes to a topic: its driver dies at the moments at which it matters most."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from evensplit.errors import ChaosError
from evensplit.testing.chaos.cut_off import last_batch
from evensplit.testing.chaos.job.sinks import KAFKA, WRITTEN_LEDGER, WRITTEN_TOPIC
from evensplit.testing.chaos.nemesis.base import Harm, nemesis
from evensplit.testing.chaos.nemesis.spark import wait_for_a_driver

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena

MOMENTS = (
    ("as its tasks wrote", WRITTEN_TOPIC, "read_uncommitted"),
    ("as soon as a batch was decided", WRITTEN_LEDGER, "read_committed"),
    ("as soon as readers saw records of a batch", WRITTEN_TOPIC, "read_committed"),
)
"""When, and the topic and the isolation level in which a new record shows that it has come."""

COMES_WITHIN_S = 20.0
BATCHES_BETWEEN = 3
CATCHES_UP_WITHIN_S, LOOK_EVERY_S = 60.0, 0.1
AFTER_S = (0.0, 0.005, 0.02)
"""So long after that the driver is killed: it has gone on for a little."""


@nemesis(
    "writing-kill",
    "spark",
    "SIGKILL of the driver as its tasks write, as soon as a batch is decided, and as soon as readers see one",
    lasts_s=(0.0, 1.0),
    ends_process=True,
    needs="written",
)
def writing_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    assert arena.reader is not None
    done: list[str] = []
    since_s = arena.recorder.now_s
    for when, topic, isolation in MOMENTS:
        after_s = dice.choice(AFTER_S)
        # Where other faults hold the job up, a moment may not come.
        if not arena.reader.comes(topic, isolation, COMES_WITHIN_S):
            continue
        time.sleep(after_s)
        since_s = since_s if done else arena.recorder.now_s
        former = arena.job.kill()
        done.append(f"{when} (process {former})")
        wait_for_a_driver(arena, former)
        _wait_for_batches(arena)
    if not done:
        raise ChaosError(f"the job has not written a record within {len(MOMENTS) * COMES_WITHIN_S:g} s")
    yield Harm(f"SIGKILL of the driver {', '.join(done)}", since_s=since_s)


def _wait_for_batches(arena: Arena) -> None:
    """Wait until the job has done what it had to catch up with. Where other faults hold it up, the wait ends, too.

    Else the next kill would hit records so old that Kafka may have removed some when their batch is repeated.
    """
    checkpoint = arena.job.task.checkpoint(KAFKA)
    wanted = (last_batch(checkpoint / "offsets") or 0) + BATCHES_BETWEEN
    until_s = time.monotonic() + CATCHES_UP_WITHIN_S
    while (last_batch(checkpoint / "commits") or 0) < wanted and time.monotonic() < until_s:
        time.sleep(LOOK_EVERY_S)


NEMESES = (writing_kill,)
