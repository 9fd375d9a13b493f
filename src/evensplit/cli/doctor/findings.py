"""What was looked at, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evensplit.errors import ClusterError, EvenSplitError


class Status(StrEnum):
    """How a step went."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One step. `where`: what it is about; `found`: what was found; `cure`: what to do, of a warning and a failure.

    `id`: that of the error which says what was found, if it is one of this package.
    """

    where: str
    step: str
    status: Status
    found: str
    cure: str = ""
    id: str = ""

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {**asdict(self), "status": str(self.status), "cure": self.cure or None, "id": self.id or None}


@dataclass(frozen=True, slots=True)
class Step:
    """A look at one thing.

    `look`: says what was found, or raises `Doubt` or an error of this package, or OSError. `cure`: what to do about an
    error, where that does not say so itself.
    """

    name: str
    look: Callable[[], str]
    cure: str


class Wrong(Exception):
    """What was found does not work. `error_id`: the `id` of its `Finding`."""

    status = Status.FAILED

    def __init__(self, found: str, cure: str, error_id: str = "") -> None:
        self.found, self.cure, self.error_id = found, cure, error_id
        super().__init__(found, cure, error_id)


class Doubt(Wrong):
    """What was found works, or may work, and is not as it should be."""

    status = Status.WARNING


def taken(where: str, step: Step) -> Finding:
    """What one step has found."""
    try:
        return Finding(where, step.name, Status.OK, step.look())
    except Wrong as wrong:
        return Finding(where, step.name, wrong.status, wrong.found, wrong.cure, wrong.error_id)
    except ClusterError as error:
        # Which cluster it is stands before it.
        return Finding(where, step.name, Status.FAILED, error.detail, step.cure, error.id)
    except EvenSplitError as error:
        return Finding(where, step.name, Status.FAILED, str(error), step.cure, error.id)
    except (OSError, ValueError) as error:
        return Finding(where, step.name, Status.FAILED, str(error), step.cure)


def in_order(where: str, steps: Iterable[Step]) -> Iterator[Finding]:
    """What the steps find, one after the other; behind one that failed, all others are skipped and say so."""
    failed = ""
    for step in steps:
        if failed:
            yield Finding(where, step.name, Status.SKIPPED, f"not looked at, since {failed} failed")
            continue
        found = taken(where, step)
        failed = step.name if found.status is Status.FAILED else ""
        yield found
