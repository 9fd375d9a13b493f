"""The rules under test: everything that a simulation can exchange for something else, such as a planted bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evensplit.core.batch.plan import BatchPlan, plan_batch
from evensplit.core.batch.shares import Shares, share
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState

OFFSETS_MIN = 1
"""Simulated batches are small, and are to be shared out all the same."""


def plan_any_batch(start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
    """The plan of a batch that is never too small to be shared out."""
    return plan_batch(start, end, offsets_min=OFFSETS_MIN)


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions of the core that decide; by default the real ones."""

    step: Callable[[EnumeratorState, Event], Step] = step
    encode: Callable[[EnumeratorState], dict[str, Any]] = encode
    decode: Callable[[object], EnumeratorState] = decode
    share: Callable[..., Shares] = share
    plan_batch: Callable[[EnumeratorState, EnumeratorState], BatchPlan] = plan_any_batch
