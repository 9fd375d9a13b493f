"""Numbers for records, none of them twice in a run, and the values that carry them."""

from __future__ import annotations

import threading
from random import Random

from evensplit.testing.chaos.workload.topics import Topic

PADDING_MAX = 400


class Numbers:
    """Counts from 0, for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.given = 0
        """How many have been given."""

    def take(self, count: int) -> range:
        """The next `count` numbers."""
        with self._lock:
            first = self.given
            self.given += count
        return range(first, first + count)


def value_of(number: int, topic: Topic, partition: int, random: Random) -> bytes:
    """The value of a record, by which it is known wherever it arrives: ASCII, with a padding of random length."""
    identity = f"{number}|{topic.cluster}|{topic.name}|{topic.incarnation}|{partition}|"
    return identity.encode() + b"x" * random.randrange(PADDING_MAX)
