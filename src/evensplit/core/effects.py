"""What the enumerator wants done: orders, in the imperative. The host carries them out.

Two of them can be carried out before they are given: a host that looks at its clusters all the time has an answer to
`ListPartitions` ready, and one that keeps the owners in the state alone, as Spark's host does, has done what `Assign`
says when the state is written down.
"""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.model import SplitId, StartBy


@dataclass(frozen=True, slots=True)
class ListPartitions:
    """Ask `cluster` for all partitions that its subscription matches; answer with `PartitionsListed`."""

    cluster: str


@dataclass(frozen=True, slots=True)
class ResolveStart:
    """Find where each of `splits`, all of one cluster, starts; answer with `OffsetsResolved`."""

    cluster: str
    splits: tuple[SplitId, ...]
    by: StartBy


@dataclass(frozen=True, slots=True)
class Assign:
    """`reader` owns `split` from now on. `previous` owned it before; None if it is newly discovered."""

    split: SplitId
    reader: int
    previous: int | None


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """Records of `split` that were still to be read can no longer be told from others; `detail` says why."""

    split: SplitId
    detail: str


Effect = ListPartitions | ResolveStart | Assign | ReportLoss
