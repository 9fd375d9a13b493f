"""What the enumerator wants done: orders, in the imperative. The host carries them out, in their order.

Some can be carried out before they are given: a host that looks at its clusters all the time has an answer to
`ListPartitions` ready, and one whose readers are logical, as Spark's host, has done what `Assign` and `Revoke` say when
the state is written down.
"""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.model import Loss, SplitId, StartBy


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
    """`reader`, which is registered, reads `split` from `position` on, up to `stop` if there is one.

    `previous` owned it before: another reader, `reader` itself when it starts again, or None.
    `generation`: of the assignment, to be reported when the reader registers again; likewise `topic_id`.
    """

    split: SplitId
    reader: int
    position: int
    previous: int | None
    generation: int
    topic_id: str = ""
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """`reader`, which is registered, stops reading `split`; what it has read and not committed is void."""

    split: SplitId
    reader: int


@dataclass(frozen=True, slots=True)
class SignalNoMoreSplits:
    """Tell `reader`, which is registered, that nothing else will be discovered: it can end when it has read its own.

    Only a reader that is removed (`ReaderRemoved`) leaves something for others after that: a host that can remove
    readers keeps the others until all splits are finished.
    """

    reader: int


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """Records that were still to be read are gone; `detail` says why. `fatal`: the run has to end."""

    loss: Loss
    detail: str
    fatal: bool = True

    @property
    def split(self) -> SplitId:
        """Whose records they were."""
        return self.loss.split


@dataclass(frozen=True, slots=True)
class RefuseCluster:
    """Do not read `cluster`: it is not the one that it was, or another one is the same; `detail` says which."""

    cluster: str
    detail: str


@dataclass(frozen=True, slots=True)
class Forget:
    """`split` has been away for longer than its position is kept: seen again, it is a new one."""

    split: SplitId


Effect = ListPartitions | ResolveStart | Assign | Revoke | SignalNoMoreSplits | ReportLoss | RefuseCluster | Forget
