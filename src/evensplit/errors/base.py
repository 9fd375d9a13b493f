"""The root of all errors, and how an error is shown."""

from __future__ import annotations

from typing import ClassVar


class EvenSplitError(Exception):
    """The root of every error that this package raises on purpose.

    `id` never changes, so it can be searched for. `cause` says why an error of this class is raised, `cure` what to do
    about it: Markdown, in whole sentences. The documentation and `evensplit explain` show both. A message says more:
    which cluster, topic, partition, file or option it is.

    The id is not in the message. It is a note, so Python writes it below the message wherever it prints the error, in
    the text of Spark's exceptions too.
    """

    id: ClassVar[str] = "ES-001"
    cause: ClassVar[str] = "This is the root of all errors of evensplit. It is not raised itself."
    cure: ClassVar[str] = "Catch it to catch every error of evensplit."

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(self.reference)

    @property
    def reference(self) -> str:
        """Where to read more about this error, in one line."""
        return reference(self.id)


def reference(error_id: str) -> str:
    """Where to read more about the errors with this id, in one line."""
    return f"{error_id}: `evensplit explain {error_id}` tells its cause and its cure"


def line_of(error: Exception) -> str:
    """An error as a log line shows it: the message, followed by the id if the error has one."""
    return f"{error} ({error.id})" if isinstance(error, EvenSplitError) else str(error)


def list_problems(problems: tuple[str, ...], one: str, several: str) -> str:
    """A message: a single problem after the heading `one`, or all of them, numbered, below the heading `several`."""
    if len(problems) == 1:
        return f"{one}: {problems[0]}"
    return f"{several}:" + "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, start=1))
