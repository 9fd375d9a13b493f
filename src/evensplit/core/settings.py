"""What the user decides about assignment: how, when and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.assign.policies import BALANCED, POLICIES

ALWAYS, ON_RESCALE, NEVER = "always", "on-rescale", "never"
REBALANCES = (ALWAYS, ON_RESCALE, NEVER)
"""When owners may change: with every change of splits or readers, of readers only (one that is removed and returns is
two changes), or only where an owner is gone."""

ALL_CLUSTERS, PER_CLUSTER = "global", "per-cluster"
SCOPES = (ALL_CLUSTERS, PER_CLUSTER)
"""What is balanced: all splits together, or those of each cluster on their own."""

OWNERS = "owners"
PLANS = (OWNERS,)
"""The kinds of batch plan: under `owners`, every split is read by its owner."""

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
    """

    policy: str = BALANCED
    rebalance: str = ALWAYS
    scope: str = ALL_CLUSTERS
    plan: str = OWNERS
    retention_ms: int = RETENTION_MS_DEFAULT
    bounded: bool = False

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
        return tuple(found)
