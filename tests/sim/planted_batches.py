"""Planted bugs of checkpoints and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from evensplit.core import codec
from evensplit.core.codec import decode, encode
from evensplit.core.model import SplitId
from evensplit.core.plan import BatchPlan, ReaderPlan, plan_batch, plan_ends
from evensplit.core.state import EnumeratorState
from evensplit.testing.sim import Rules
from tests.sim.planting import Owners, Planted, swapped


def pending_forgotten(state: EnumeratorState) -> dict[str, Any]:
    """Only splits that somebody owns are written down."""
    owned = {key: split for key, split in state.splits.items() if split.owner is not None}
    return encode(replace(state, splits=MappingProxyType(owned)))


def unchecked(document: Any) -> EnumeratorState:
    """The checksum fits whatever was read."""
    if not isinstance(document, dict) or "check" not in document:
        return decode(document)
    with swapped("_check", lambda _: document["check"], codec):
        return decode(document)


def one_too_far(positions: Owners, latest: Owners, offsets_max: int | None) -> dict[SplitId, int]:
    """The end of a log is taken for the offset of its last record."""
    return {key: end + 1 for key, end in plan_ends(positions, latest, offsets_max).items()}


def firsts_skipped(start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
    """What begins in a batch is read from the next batch on."""
    found = plan_batch(start, end)
    kept = (
        ReaderPlan(plan.reader, tuple(part for part in plan.ranges if part.split in start.splits))
        for plan in found.readers
    )
    return replace(found, readers=tuple(plan for plan in kept if plan.ranges))


BUGS: Mapping[str, Planted] = {
    "pending-forgotten": Planted("the checkpoint lacks what nobody owns", ("S10",), Rules(encode=pending_forgotten)),
    "unchecked": Planted("a damaged checkpoint is believed", ("S10",), Rules(decode=unchecked)),
    "one-too-far": Planted("a batch goes beyond the log", ("S12",), Rules(plan_ends=one_too_far)),
    "firsts-skipped": Planted("the first range of a split is not read", ("S15",), Rules(plan_batch=firsts_skipped)),
}
"""Name -> bug."""
