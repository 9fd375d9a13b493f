"""What the user decides about assignment: how, when and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.assign.terms import BALANCED, POLICIES

ALWAYS, ON_RESCALE, NEVER = "always", "on-rescale", "never"
REBALANCES = (ALWAYS, ON_RESCALE, NEVER)
"""When owners may change: with every change of splits or readers, of readers only (one that is removed and returns is
two changes), or only where an owner is gone."""

ALL_CLUSTERS, PER_CLUSTER = "global", "per-cluster"
SCOPES = (ALL_CLUSTERS, PER_CLUSTER)
"""What is balanced: all splits together, or those of each cluster on their own."""

WHOLE, LEVEL, OWNERS = "whole", "level", "owners"
PLANS = (WHOLE, LEVEL, OWNERS)
"""How a batch is shared out (see `plan.plan_batch`): so that the busiest reader has little, with ranges as they are, or
cut; or with every split read by its owner."""

FAIL, DECLARE = "fail", "declare"
LOSSES = (FAIL, DECLARE)
"""What loss does: it ends the run, or it is reported and reading goes on."""

RETENTION_MS_DEFAULT = 7 * 24 * 60 * 60 * 1000
DISCOVERY_INTERVAL_MS_DEFAULT = 30_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What is kept in the state, so that a batch that has to be planned again is planned in the same way.

    `policy`, `rebalance`, `scope`, `plan`: one of POLICIES, REBALANCES, SCOPES and PLANS.
    `retention_ms`: how long the position of what was removed is kept; 0: not at all.
    `bounded`: reading ends at the stops of the splits.
    `tasks_min`, `task_offsets_max`: see `tasks.plan_tasks`; at least 1 each, or None.
    """

    policy: str = BALANCED
    rebalance: str = ALWAYS
    scope: str = ALL_CLUSTERS
    plan: str = WHOLE
    retention_ms: int = RETENTION_MS_DEFAULT
    bounded: bool = False
    tasks_min: int | None = None
    task_offsets_max: int | None = None

    def problems(self) -> tuple[str, ...]:
        """One sentence for each setting that cannot be."""
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
                ("the least number of tasks", self.tasks_min),
                ("the most offsets of a task", self.task_offsets_max),
            )
            if value is not None and value < 1
        )
        return tuple(found)
