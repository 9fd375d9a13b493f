"""Bugs that other systems had, planted around the real rules: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim import (
    planted_batches,
    planted_bounds,
    planted_discovery,
    planted_edits,
    planted_host,
    planted_identity,
    planted_owners,
    planted_positions,
)
from tests.sim.planting import Planted

PLANTED: Mapping[str, Planted] = {
    **planted_owners.BUGS,
    **planted_positions.BUGS,
    **planted_discovery.BUGS,
    **planted_identity.BUGS,
    **planted_batches.BUGS,
    **planted_bounds.BUGS,
    **planted_host.BUGS,
    **planted_edits.BUGS,
}
"""Name -> bug."""
