"""What one seed decides before the first event: the size of the world, the settings, and which faults are on.

Each seed switches on a random subset of the faults (swarm testing): a run with every fault on hardly ever gets far
enough for the rare sequences, and a run with two of them explores what those two do to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from evensplit.core.batch.alignment import WHEN_AWAY
from evensplit.core.policies import BALANCED, BY_RATE
from evensplit.core.state.settings import ALWAYS, PLANS, Settings
from evensplit.testing.sim.bounds.chosen import Bounds, Rates, bounds

EDITED = 0.3
"""The share of the seeds in which checkpoints are edited."""

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "partial-answer": "a cluster's answer lacks partitions and says so",
        "missing-partitions": "an answer that calls itself complete lacks partitions",
        "empty-answer": "an answer that calls itself complete has no partitions at all",
        "stale-answer": "a cluster answers what it would have answered a while ago",
        "reordered-answer": "a listing comes in another order",
        "unreachable": "a cluster does not answer for a while",
        "cluster-leaves": "a cluster leaves the metadata and comes back",
        "partitions-go": "partitions are really gone for a while",
        "growth": "partitions, topics and clusters are added",
        "recreation": "a topic is deleted and created anew",
        "deletion": "a topic is deleted, and perhaps created again later",
        "truncation": "a log loses its tail by an unclean election, and goes on with other records",
        "election": "a partition has another leader, with the same log",
        "former-leader": "a leader from before the last election answers",
        "retention": "the beginning of a log is deleted, whether it was read or not",
        "other-cluster": "at the same address is another Kafka cluster than before, until somebody corrects it",
        "twin": "a new cluster turns out to be one that is named already, until somebody corrects it",
        "log-gaps": "offsets are written down now and then only, as with asynchronous progress tracking",
        "rename": "a cluster is named otherwise in the metadata",
        "narrowing": "the subscription is narrowed and widened",
        "records-expire": "the beginning of a log is deleted, as far as it has been read",
        "bootstrap-change": "the metadata names other bootstrap servers",
        "partial-offsets": "starts and ends of some partitions are not answered",
        "ends-go-back": "the end of a log is behind what was seen before, in at most two answers in a row",
        "slow-answer": "listings and starts come late, out of order, twice, or never",
        "reader-late": "a reader registers late",
        "reader-crash": "a reader goes and comes back, its splits being given back or not",
        "reader-removed": "a reader goes for good, and perhaps comes back after all",
        "stale-report": "a reader comes back with an old report",
        "duplicate-message": "a reader's message comes twice",
        "lost-message": "a reader's message is lost, and sent again after a while",
        "late-message": "a reader's message comes much later than the next one",
        "zombie": "a message of an earlier life of a reader comes again",
        "rescale": "the number of readers changes, while running and at a restart",
        "driver-crash": "the driver dies at any point of a batch, and starts from the checkpoint",
        "damaged-checkpoint": "the checkpoint is torn or has a flipped bit, until it is restored from a copy",
        "older-checkpoint": "an older checkpoint is restored, together with its output",
        "available-now": "a query reads what there is, and ends",
        "lean-checkpoint": "the checkpoint lacks splits that readers report, and among whom owners were dealt",
        "clock-jump": "the clock jumps forward by hours",
        "impossible-event": "an event that cannot happen is sent; it has to be refused",
        "settings-change": "policy, rebalancing, scope or what readers may read changes",
    }
)
"""Every fault, and what it does."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One seed's choices. `logical`: readers are tasks of Spark, around what ships; otherwise they are processes."""

    faults: frozenset[str]
    logical: bool
    clusters: int
    topics: int
    partitions_max: int
    splits_max: int
    readers: int
    readers_max: int
    policy: str
    rebalance: str
    scope: str
    retention_ms: int
    interval_ms: int
    bounded: bool
    discovery: bool
    loss: str
    latest: bool
    offsets_max: int | None
    restricted: bool
    plan: str
    reader_offsets_min: int
    tasks_min: int | None
    task_offsets_max: int | None
    tells_epochs: bool
    alignment_ms: int | None
    """How far splits may be ahead of the slowest one, with hosts that ship; None: as far as they have records."""
    away: str
    bounds: Bounds
    """What is bounded: how much batches read, how many splits move."""
    edited: bool
    """An operator edits the checkpoint now and then."""

    @property
    def settings(self) -> Settings:
        """What the user has set when the first process begins."""
        rates = self.bounds.rates
        return Settings(
            policy=self.policy,
            rebalance=self.rebalance,
            scope=self.scope,
            retention_ms=self.retention_ms,
            bounded=self.bounded,
            plan=self.plan,
            reader_offsets_min=self.reader_offsets_min,
            tasks_min=self.tasks_min,
            task_offsets_max=self.task_offsets_max,
            **({} if rates is None else rates.settings),
        )


def profile(seed: int, random: Random) -> Profile:
    """The choices of `seed`; every twentieth seed has a larger world."""
    names = tuple(FAULTS)
    share = random.choice((0.1, 0.3, 0.5, 0.8))
    faults = frozenset(name for name in names if random.random() < share)
    large = seed % 20 == 19
    bounded = random.random() < 0.15
    policy = random.choice(("balanced",) * 5 + ("sticky", "fair", "hash", "round-robin", "global"))
    found = Profile(
        faults=faults,
        logical=random.random() < 0.35,
        clusters=random.choice((2, 3, 4)) if large else random.choice((1, 1, 2, 2, 3)),
        topics=random.choice((1, 2, 3)),
        partitions_max=12 if large else random.choice((1, 3, 5)),
        splits_max=64 if large else 24,
        readers=random.randint(1, 16) if large else random.randint(1, 5),
        readers_max=16 if large else 6,
        policy=policy,
        rebalance=random.choice(("always", "always", "on-rescale", "never")),
        scope=random.choice(("global", "global", "per-cluster")),
        retention_ms=random.choice((0, 90_000, 600_000, 7 * 86_400_000)),
        interval_ms=random.choice((0, 5_000, 30_000)),
        bounded=bounded,
        discovery=not bounded and random.random() < 0.9,
        loss=random.choice(("fail", "declare")),
        latest=random.random() < 0.4,
        offsets_max=random.choice((None, 7, 40)),
        restricted=random.random() < 0.2,
        plan=PLANS[seed % len(PLANS)],
        reader_offsets_min=(1, 5, 40, 1)[seed % 4],
        tasks_min=seed % 11 or None,
        task_offsets_max=seed % 13 or None,
        tells_epochs=seed % 3 > 0,
        alignment_ms=(None, 5_000, None, 20_000)[seed // 2 % 4],
        away=WHEN_AWAY[seed // 8 % 2],
        bounds=bounds(seed),
        # Not for secrets, and apart from the rest: seeds without edits give the runs that they gave before.
        edited=Random(f"edits of {seed}").random() < EDITED,  # noqa: S311
    )
    return found if found.bounds.rates is None else _with_work(found, found.bounds.rates)


def _with_work(found: Profile, rates: Rates) -> Profile:
    """A run in which owners go by work: readers have several splits each and, in most runs, stay long enough."""
    faults, rebalance = found.faults, found.rebalance
    if rates.steady:
        faults, rebalance = faults - {"rescale", "reader-removed", "settings-change"}, ALWAYS
    return replace(
        found,
        faults=faults,
        topics=max(found.topics, 2),
        partitions_max=max(found.partitions_max, 5),
        readers=min(found.readers, 3),
        policy=found.policy if found.policy in BY_RATE else BALANCED,
        rebalance=rebalance,
    )
