"""The rules under test: everything that a simulation can exchange for something else, such as a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.codec import decode, encode
from evensplit.core.enumerator import Step, step
from evensplit.core.events import Event
from evensplit.core.model import SplitId
from evensplit.core.plan import ReaderPlan, plan_batch, plan_ends
from evensplit.core.state import EnumeratorState


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions of the core that decide; by default the real ones."""

    step: Callable[[EnumeratorState, Event], Step] = step
    encode: Callable[[EnumeratorState], dict[str, Any]] = encode
    decode: Callable[[object], EnumeratorState] = decode
    plan_ends: Callable[[Mapping[SplitId, int], Mapping[SplitId, int], int | None], dict[SplitId, int]] = plan_ends
    plan_batch: Callable[[EnumeratorState, EnumeratorState], tuple[ReaderPlan, ...]] = plan_batch
