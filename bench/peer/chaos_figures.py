"""What is kept of the verdict on a run with faults, and lines of Markdown that show it: for the storm and long runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evensplit.testing.chaos.checker.verdict import NO_PROOF, Verdict


def no_proof(verdict: Verdict) -> str:
    """All that was found of a run that proves nothing; empty if it proves something."""
    if not any(one.kind in NO_PROOF for one in verdict.findings):
        return ""
    return "; ".join(f"{one.kind}: {one.what}" for one in verdict.findings)


def latency_s(figures: Mapping[str, Any]) -> dict[str, list[float]]:
    """`p50` and `p99` of each query that keeps records."""
    found = figures.get("delivery latency (s)", {}).values()
    return {part: [one[part] for one in found] for part in ("p50", "p99")}


def standstill_s(figures: Mapping[str, Any]) -> float:
    """The longest time without delivery after a fault, of the query for which it was longest."""
    return max(figures.get("longest stall after a fault (s)", {}).values(), default=0.0)


def explained_ends(figures: Mapping[str, Any]) -> int:
    """How often queries ended with an error for which the source's documentation has a reason, and the run a fault."""
    return sum(bool(one["cause"]) for one in figures["queries' ends"])
