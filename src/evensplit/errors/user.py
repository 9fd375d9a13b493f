"""Errors in what the user wrote: options, metadata, cases, arguments."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.errors.base import EvenSplitError, list_problems


class UserError(EvenSplitError):
    """Something that the user wrote cannot work. Trying again unchanged fails again."""

    id = "ES-100"
    cause = (
        "This is the root of the errors in what was written: options, metadata, cases, arguments. It is not raised "
        "itself."
    )
    cure = "Change what the message names. Trying again unchanged fails again."


class OptionError(UserError):
    """One or more options are wrong, or columns of rows that are to be written. The message lists them all."""

    id = "ES-101"
    cause = (
        "One or more options are missing, unknown, malformed, or contradict each other. `load()` reports what the "
        "options alone show. The start of the query reports what depends on stream or batch, and on the clusters; "
        "where it writes, also columns of the rows that are missing or of a wrong type."
    )
    cure = (
        "Correct each option that the message lists, with what was expected and found. `evensplit explain NAME` shows "
        "one option, and [Options](options.md) has all of them."
    )
    problems: tuple[str, ...]
    """One sentence for each wrong option, and then for each wrong column; at least one."""

    columns: int
    """How many of them are columns of rows that are to be written."""

    def __init__(self, problems: Sequence[str], columns: Sequence[str] = ()) -> None:
        self.problems, self.columns = (*problems, *columns), len(columns)
        super().__init__(tuple(problems), tuple(columns))

    def __str__(self) -> str:
        kinds = (len(self.problems) - self.columns, "option"), (self.columns, "column")
        said = " and ".join(f"{count} {kind}{'s' * (count > 1)}" for count, kind in kinds if count)
        return list_problems(self.problems, f"{said} is wrong", f"{said} are wrong")


class AssignmentInputError(UserError, ValueError):
    """Splits, readers, eligibility, weights or previous owners cannot be assigned."""

    id = "ES-102"
    cause = (
        "`evensplit.assign` was given splits, readers, eligibility, weights or previous owners that make no sense, "
        "such as no reader, a reader twice, or a weight below 1."
    )
    cure = (
        "Correct each argument that the message lists, with what was expected. A split that no reader may read is not "
        "an error: it is in `unassigned`."
    )
    problems: tuple[str, ...]
    """One sentence for each wrong argument, at least one."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"nothing was assigned: {self.problems[0]}"
        return "nothing was assigned:" + "".join(f"\n  - {problem}" for problem in self.problems)


class CaseError(UserError):
    """The cases for `evensplit assign` cannot be read."""

    id = "ES-103"
    cause = "The file for `evensplit assign` is not JSON, or something in it has the wrong form."
    cure = (
        "Correct each case and field that the message lists, with what was expected. `evensplit assign --help` shows "
        "the form."
    )
    source: str
    """Where the cases come from: a file, or standard input."""

    problems: tuple[str, ...]
    """One sentence for each thing that is wrong, at least one."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        where = self.source
        return list_problems(self.problems, where, f"{where}: {len(self.problems)} things are wrong")


class MetadataError(UserError):
    """A metadata file or service gave no usable answer. The next answer may be usable."""

    id = "ES-104"
    cause = (
        "The metadata file or service gave no usable answer: it does not exist, rejects the token, takes longer than "
        "`metadataTimeout`, or gives a document with mistakes. A running query keeps the last good answer until "
        "`metadataFailureThreshold` answers in a row have failed. A query that starts needs a good one."
    )
    cure = "Correct the document at the place that the message names (for files, with the line), or repair the service."
    source: str
    """Which file or service it is."""

    problems: tuple[str, ...]
    """One sentence for each thing that is wrong, at least one."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        where = f"metadata of {self.source}"
        return list_problems(self.problems, where, f"{where}: {len(self.problems)} things are wrong")


class SubscriptionError(UserError):
    """Topics or partitions that were named do not exist, or the offsets named for them do not."""

    id = "ES-105"
    cause = (
        "A new query names a topic or partition that the cluster does not have or does not let it describe, or an "
        "offset that the log does not have."
    )
    cure = (
        "Correct the name or the offset, create the topic, or grant Describe on it. To read topics that are created "
        "later, use `subscribePattern`. To begin where a log begins now, set `failOnDataLoss=false`."
    )
    problems: tuple[str, ...]
    """One sentence for each topic or partition, at least one."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "the subscription cannot be read:" + "".join(f"\n  - {problem}" for problem in self.problems)


class PortError(UserError):
    """The dashboard or the metrics cannot be served at this host and port."""

    id = "ES-106"
    cause = (
        "The dashboard cannot be served at this host and port: another program listens there, the port is not "
        "allowed, or the host is not an address of this machine. `register` logs this as a warning, and the query "
        "runs without a dashboard."
    )
    cure = "Choose another port, or 0 for any free one, or stop the program that listens there."


class LibraryMissing(UserError):
    """A library that decodes values is not installed where a task runs."""

    id = "ES-108"
    cause = (
        "A task meets a schema that it needs a library for, and the Python of its executor does not have that. The "
        "driver's Python has it, or the query would not have started."
    )
    cure = "Run `pip install 'evensplit[typed]'` for the Python of every executor, or ship it with the job."
    library: str
    """The module that is missing."""

    def __init__(self, library: str) -> None:
        self.library = library
        super().__init__(library)

    def __str__(self) -> str:
        return (
            f"to decode what a schema of the registry has written takes {self.library}, which this Python does not "
            "have; run pip install 'evensplit[typed]' on the executors, too"
        )


class InstallationError(UserError):
    """The evensplit of a Python process cannot work there, or is another version than the one that sends it work."""

    id = "ES-109"
    cause = (
        "The driver and an executor, or the driver's program and the Python that plans its queries, have different "
        "versions of evensplit. Or evensplit is in an archive that is on the path, as `--py-files` puts it there: "
        "Python loads no compiled module from an archive."
    )
    cure = (
        "Install the same wheel into the Python of the driver and of every executor, or ship that Python with "
        "`--archives`. [Deploying](../howto/deploy.md) has both."
    )


class MetadataRefused(MetadataError):
    """Metadata names environment variables, files or credentials of this machine that `metadata.allow` lacks."""

    id = "ES-107"
    cause = (
        "The metadata file or service names something of the machine that runs the query: `${env:…}`, `${file:…}`, "
        "the path of a store, a keytab or a token, or the machine's own credentials. Or it names a token endpoint of "
        "its own, or changes how a login from the options is sent. Since metadata also names the brokers, its author "
        "could send secrets to a host of their choice. A running query keeps the last good answer until "
        "`metadataFailureThreshold` answers in a row have failed."
    )
    cure = (
        "Add what the message names to `metadata.allow`, such as `env:KAFKA_PASSWORD, /etc/kafka/secrets`, if the "
        "author of the metadata may have it. Otherwise find out who wrote it there. The options themselves may name "
        "anything. See [Secrets in metadata](../howto/metadata.md#secrets-in-metadata)."
    )
