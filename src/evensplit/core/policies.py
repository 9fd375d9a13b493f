"""The policies of assignment, by name."""

from __future__ import annotations

BALANCED, STICKY, FAIR = "balanced", "sticky", "fair"
HASH, ROUND_ROBIN, GLOBAL = "hash", "round-robin", "global"

POLICIES = (BALANCED, STICKY, FAIR, HASH, ROUND_ROBIN, GLOBAL)
"""balanced: as even as possible, then the fewest moves. sticky: no valid owner loses a split, then as even as possible.
fair: as even as possible, whatever was before. hash, round-robin, global: the rules of Flink's sources, see
`assign.rules`."""

BY_RATE = (BALANCED, STICKY)
"""The policies that can weigh splits by their rates: `fair` ignores who had what, and the rules look at no loads."""

EXACT = (BALANCED, STICKY, FAIR)
"""The policies that are solved exactly. They depend neither on the order of the splits nor on that of the readers; for
the others, a reader's place among the readers matters."""
