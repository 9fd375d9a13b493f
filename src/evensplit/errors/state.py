"""Errors of the source's state: as a checkpoint has it, and as events change it."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.errors.base import EvenSplitError


class CheckpointError(EvenSplitError):
    """A checkpoint, or an offset that Spark passes from it, cannot be used."""

    id = "ES-400"
    cause = (
        "A checkpoint, or an offset that Spark passes from it, cannot be used: a file is missing, belongs to another "
        "query, or asks for a batch that cannot be planned."
    )
    cure = "Check that the path in the message is the query's checkpointLocation, and complete."


class CheckpointCorrupt(CheckpointError):
    """The offset was written by this source and is damaged. Nothing of it was used."""

    id = "ES-401"
    cause = (
        "An offset of this source is damaged: truncated, edited, or against its format. PySpark reads offsets first: "
        "for one that is not JSON, or nested too deep, it raises `JSONDecodeError` or `RecursionError`, without an id."
    )
    cure = (
        "Restore the file from a copy of the checkpoint. `evensplit inspect CHECKPOINT` names the file, or says that "
        "it is incomplete."
    )


class CheckpointUnreachable(CheckpointError):
    """The file system that a checkpoint is on cannot be used."""

    id = "ES-405"
    cause = (
        "A command is to read or write a checkpoint on another file system (S3, GCS, ABFS, HDFS, …). The library for "
        "it is not installed, it does not answer, or it does not let this user in. Spark's settings for it, such as "
        "`spark.hadoop.fs.s3a.*`, are not used by commands."
    )
    cure = (
        "Install what the message names, and give the library an address and credentials as "
        "[Where checkpoints are](../commands.md#where-checkpoints-are) says. Or copy the checkpoint to this machine: "
        "the directories `offsets` and `commits` are enough to look at it."
    )


class CheckpointVersionUnknown(CheckpointError):
    """The offset was written by a newer version of this package."""

    id = "ES-402"
    cause = "The checkpoint was written by a newer version of evensplit."
    cure = "Upgrade evensplit on the driver and the executors."


class CheckpointForeign(CheckpointError):
    """The offset was not written by this source."""

    id = "ES-403"
    cause = (
        "The checkpoint belongs to another source, or to Spark's own Kafka source in a form that cannot be continued."
    )
    cure = (
        "Run `evensplit migrate` if it is from Spark's own Kafka source (see [Migration](../migration.md)). Otherwise "
        "give the query a checkpointLocation of its own."
    )


class SchemaChanged(CheckpointError):
    """Keys or values would be decoded by another schema, format or framing than in the batches before."""

    id = "ES-404"
    cause = (
        "Keys or values would be decoded by another schema, format or framing than those in the checkpoint: an option "
        "was changed, or the registry has a newer version. A batch that is repeated would have other rows than before."
    )
    cure = (
        "Set acceptSchema to the fingerprint in the message if the change is meant. Otherwise go on with the former "
        "options; with a registry, by a fixed version in value.subject."
    )


class EditRefused(CheckpointError):
    """A checkpoint cannot be edited in this way. Nothing was changed."""

    id = "ES-406"
    cause = (
        "A command that edits a checkpoint, such as `evensplit rewind`, was asked for what cannot be done: for a "
        "partition or cluster that is not there, offsets that were read already, or a name that is taken; or it would "
        "take back what the query has gone on from. Nothing was changed."
    )
    cure = (
        "The message says what is there instead; `evensplit inspect CHECKPOINT --splits` lists it. See "
        "[Repair a checkpoint](../howto/repair.md)."
    )


class TransitionError(EvenSplitError):
    """The enumerator got an event that cannot happen in its state. The state is unchanged."""

    id = "ES-501"
    cause = (
        "The enumerator got an event that cannot happen in its state: a bug in evensplit, not in your query. The state "
        "is unchanged."
    )
    cure = (
        "Report it with the message, which has the event, the state and the events before. Restart the query: it "
        "continues from its checkpoint."
    )
    problem: str
    """What is impossible about the event."""

    event: str
    """The event, or empty where there is none yet."""

    state: str
    """The state when the event came, or empty."""

    story: tuple[str, ...]
    """The events before it, one line each, the latest at the end."""

    def __init__(self, problem: str, event: str = "", state: str = "", story: Sequence[str] = ()) -> None:
        self.problem = problem
        self.event = event
        self.state = state
        self.story = tuple(story)
        super().__init__(problem, event, state, self.story)

    def __str__(self) -> str:
        lines = [self.problem]
        if self.event:
            lines.append(f"  event: {self.event}")
        if self.state:
            lines.append(f"  state, which stays as it was: {self.state}")
        if self.story:
            lines.append("  before it came:")
            lines.extend(f"    {told}" for told in self.story)
        return "\n".join(lines)
