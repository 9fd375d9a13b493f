"""The instances that assignment is measured on; KafkaAssignors.java makes the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evensplit import SplitId, Topic
from evensplit.core.assign.solver.problem import NOBODY, BoolArray, IntArray, Problem

CLUSTER = "main"
TOPIC_SPLITS = 1_000
WEIGHT_MAX = 1_000_000


@dataclass(frozen=True)
class Shape:
    """The size of an instance, which reader may read what, and previous owners.

    `classes`: with one, every reader may read everything; else reader m may read the topics t with t % classes equal to
    m % classes or (m + 1) % classes. `prior`: "fresh" (no previous owners), "random", "stable" (dealt in turn, which is
    even), "joins" (dealt in turn to all but the last reader), "leaves" (dealt in turn to one more reader).
    """

    splits: int
    readers: int
    classes: int = 1
    prior: str = "random"

    @property
    def topics(self) -> int:
        """The number of topics, which are of equal size."""
        return max(self.classes, self.splits // TOPIC_SPLITS)

    def topic_of(self) -> IntArray:
        """(splits,) the number of each split's topic."""
        return np.repeat(np.arange(self.topics), self.splits // self.topics)

    def owner_of(self) -> IntArray:
        """(splits,) the number of each split's previous owner, or NOBODY."""
        topic = self.topic_of()
        owner = np.full(len(topic), NOBODY, dtype=np.int64)
        if self.prior == "fresh":
            return owner
        number = np.arange(len(topic), dtype=np.uint64)
        place = ((mixed(number) >> np.uint64(1)) if self.prior == "random" else number).astype(np.int64)
        owners = np.arange(self.readers + {"joins": -1, "leaves": 1}.get(self.prior, 0))
        for own in range(self.classes):
            among = owners[self._read(owners, own)]
            members = topic % self.classes == own
            owner[members] = among[place[members] % len(among)]
        return owner

    def _read(self, readers: IntArray, own: int) -> BoolArray:
        here: BoolArray = (readers % self.classes == own) | ((readers + 1) % self.classes == own)
        return here

    def problem(self) -> Problem:
        """The instance as arrays."""
        topic, owner = self.topic_of().astype(np.int32), self.owner_of()
        owner[owner >= self.readers] = NOBODY
        cluster = np.zeros(self.topics, dtype=np.int32)
        if self.classes == 1:
            return Problem(self.readers, topic, cluster, owner, None, None, np.ones((1, 1), dtype=bool))
        kind = (np.arange(self.readers) % self.classes).astype(np.int32)
        one = np.arange(self.classes)
        may_read = np.array([self._read(one, own) for own in range(self.classes)])
        return Problem(self.readers, topic, cluster, owner, (topic % self.classes).astype(np.int32), kind, may_read)

    def names(self) -> list[str]:
        """The names of the readers."""
        return [f"m{number}" for number in range(self.readers)]

    def split_ids(self) -> list[SplitId]:
        """The splits, topic by topic; new objects in each call, as if they came from different places."""
        size = self.splits // self.topics
        names = [f"t{topic}" for topic in range(self.topics)]
        return [SplitId(CLUSTER, name, partition) for name in names for partition in range(size)]

    def previous(self) -> dict[SplitId, str]:
        """Split -> its previous owner."""
        names = [f"m{number}" for number in range(self.readers + 1)]
        owned = zip(self.split_ids(), self.owner_of().tolist(), strict=True)
        return {split: names[owner] for split, owner in owned if owner != NOBODY}

    def eligible(self) -> dict[str, list[Topic]]:
        """What each reader may read, topic by topic; None if all may read everything."""
        if self.classes == 1:
            return {}
        topics = [Topic(CLUSTER, f"t{number}") for number in range(self.topics)]
        wanted = [[topic for number, topic in enumerate(topics) if self._reads(m, number)] for m in range(self.readers)]
        return dict(zip(self.names(), wanted, strict=True))

    def _reads(self, reader: int, topic: int) -> bool:
        return topic % self.classes in (reader % self.classes, (reader + 1) % self.classes)

    def weights(self) -> dict[SplitId, int]:
        """Split -> a weight between 1 and a million, evenly spread."""
        splits = self.split_ids()
        drawn = mixed(np.arange(len(splits), dtype=np.uint64) + np.uint64(1 << 40)) % np.uint64(WEIGHT_MAX)
        return dict(zip(splits, (drawn.astype(np.int64) + 1).tolist(), strict=True))


def mixed(number: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers that look random (SplitMix64), the same in every language."""
    with np.errstate(over="ignore"):
        z = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
