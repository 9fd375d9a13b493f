"""The user's settings of assignment and of losses."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.policies import BALANCED, POLICIES
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

FAIL, DECLARE = "fail", "declare"
LOSSES = (FAIL, DECLARE)
"""Whether a loss ends the run, or is declared and reading goes on."""

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

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each invalid setting."""
        chosen = (
            ("policy", self.policy, POLICIES),
            ("rebalance", self.rebalance, REBALANCES),
            ("scope", self.scope, SCOPES),
            ("plan", self.plan, PLANS),
        )
        found = [
            f"{name} is {value!r}; expected one of {', '.join(known)}"
            for name, value, known in chosen
            if value not in known
        ]
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
