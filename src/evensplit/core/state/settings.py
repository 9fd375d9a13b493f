"""The user's settings of assignment and of losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from evensplit.core.policies import BALANCED, BY_RATE, POLICIES
from evensplit.core.state.reader_schema import NO_SCHEMA, ReaderSchema

ALWAYS, ON_RESCALE, NEVER = "always", "on-rescale", "never"
REBALANCES = (ALWAYS, ON_RESCALE, NEVER)
"""When owners may change: with every change of splits or readers; with changes of readers only (one that is removed and
returns is two changes); or only where an owner is gone."""

ALL_CLUSTERS, PER_CLUSTER = "global", "per-cluster"
SCOPES = (ALL_CLUSTERS, PER_CLUSTER)
"""Whether all splits are balanced together, or those of each cluster on their own."""

WHOLE, LEVEL, OWNERS = "whole", "level", "owners"
PLANS = (WHOLE, LEVEL, OWNERS)
"""Which reader reads which range of a batch (see `plan.plan_batch`): so that the busiest reader has as little as
possible, with whole ranges or with ranges cut; or each split by its owner."""

COUNT, RATE = "count", "rate"
BALANCES = (COUNT, RATE)
"""What makes the load of a reader: how many splits it owns, or what they brought lately."""

FAIL, DECLARE = "fail", "declare"
LOSSES = (FAIL, DECLARE)
"""Whether a loss ends the run, or is declared and reading goes on."""

GAIN_PERCENT_DEFAULT = 2
CAPACITY_MAX = 1000
RETENTION_MS_DEFAULT = 7 * 24 * 60 * 60 * 1000
DISCOVERY_INTERVAL_MS_DEFAULT = 30_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the state keeps, so that a batch that has to be planned again is planned in the same way."""

    policy: str = BALANCED
    """One of POLICIES."""
    rebalance: str = ALWAYS
    """One of REBALANCES."""
    scope: str = ALL_CLUSTERS
    """One of SCOPES."""
    plan: str = WHOLE
    """One of PLANS."""
    retention_ms: int = RETENTION_MS_DEFAULT
    """How long positions of removed splits are kept; 0: not at all."""
    bounded: bool = False
    """Reading ends at the stops of the splits."""
    reader_offsets_min: int = 1
    """The offsets that a reader should have in a batch, at least 1; see `join_readers.join`."""
    tasks_min: int | None = None
    """The least number of tasks of a batch, at least 1; see `tasks.plan_tasks`."""
    task_offsets_max: int | None = None
    """The most offsets of one task, at least 1; see `tasks.plan_tasks`."""
    key_schema: ReaderSchema = NO_SCHEMA
    """How keys are decoded."""
    value_schema: ReaderSchema = NO_SCHEMA
    """How values are decoded."""

    balance: str = COUNT
    """One of BALANCES."""
    gain_percent: int = GAIN_PERCENT_DEFAULT
    """With RATE: a split moves if that lowers the higher load of two readers by more than so much of the mean load; at
    most 100."""
    moves_per_hour: int | None = None
    """With RATE: so many splits at most move in an hour for more even loads; None: a hundredth of them, rounded up."""
    capacities: tuple[tuple[int, int], ...] = ()
    """With RATE: readers and how much each takes beside the others, 1 to CAPACITY_MAX; ascending. Others have 1."""

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each invalid setting."""
        chosen = (
            ("policy", self.policy, POLICIES),
            ("rebalance", self.rebalance, REBALANCES),
            ("scope", self.scope, SCOPES),
            ("plan", self.plan, PLANS),
            ("balance", self.balance, BALANCES),
        )
        found = [
            f"{name} is {value!r}; expected one of {', '.join(known)}"
            for name, value, known in chosen
            if value not in known
        ]
        if self.balance == RATE and self.policy not in BY_RATE:
            found.append(
                f"balance is {RATE!r} and policy {self.policy!r}; expected one of {', '.join(BY_RATE)} with it"
            )
        if not 0 <= self.gain_percent <= 100 or (self.moves_per_hour or 0) < 0:
            found.append(
                f"gain and moves are {self.gain_percent} and {self.moves_per_hour}; expected 0 to 100 per cent, and 0 "
                "or more"
            )
        if any(reader < 0 or not 1 <= capacity <= CAPACITY_MAX for reader, capacity in self.capacities):
            found.append(f"capacities are {self.capacities}; expected readers from 0, and 1 to {CAPACITY_MAX} for each")
        if any(one >= other for (one, _), (other, _) in pairwise(self.capacities)):
            found.append(f"capacities are {self.capacities}; expected each reader once, ascending")
        if self.retention_ms < 0:
            found.append(f"the retention is {self.retention_ms} ms; expected 0 (none) or more")
        found.extend(
            f"{what} is {value}; expected 1 or more, or none"
            for what, value in (
                ("the least number of offsets of a reader", self.reader_offsets_min),
                ("the least number of tasks", self.tasks_min),
                ("the most offsets of a task", self.task_offsets_max),
            )
            if value is not None and value < 1
        )
        found.extend(filter(None, (self.key_schema.problem(), self.value_schema.problem())))
        return tuple(found)
