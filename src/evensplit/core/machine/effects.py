"""The enumerator's orders, in the imperative. The driver carries them out, in their order.

Some can be carried out before they are given: a driver that polls its clusters all the time has a listing ready for
`ListPartitions`, and one whose readers are logical, as Spark's, has carried out `Assign` and `Revoke` when the state is
written down.
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
    """Let `reader`, which is registered, read `split` from `position` on."""

    split: SplitId
    reader: int
    position: int
    previous: int | None
    """The owner before: another reader, `reader` itself when it starts again, or None."""
    generation: int
    """Of the assignment; the reader reports it when it registers again."""
    topic_id: str = ""
    """Of the split; the reader reports it when it registers again."""
    stop: int | None = None
    """Where reading ends (exclusive); None without end."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Let `reader`, which is registered, stop reading `split`; records that it has read and not committed are void."""

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
    """Report that records which were still to be read are gone."""

    loss: Loss
    detail: str
    """Why, how many, and what to do about it."""
    fatal: bool = True
    """The run has to end."""

    @property
    def split(self) -> SplitId:
        """The split that the records are of."""
        return self.loss.split


@dataclass(frozen=True, slots=True)
class RefuseCluster:
    """Do not read `cluster`: it is another Kafka cluster than before, or one that is listed twice."""

    cluster: str
    detail: str
    """Which of the two, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget `split`: it has been removed for longer than its position is kept. If it is listed again, it is new.

    A checkpoint from before still has it: keep one before dropping anything that this one would go on from.
    """

    split: SplitId


Effect = ListPartitions | ResolveStart | Assign | Revoke | SignalNoMoreSplits | ReportLoss | RefuseCluster | Forget
