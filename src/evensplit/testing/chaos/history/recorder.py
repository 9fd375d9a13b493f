"""Writing a history, from several threads and processes, and reading it again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Self, TypeVar

from evensplit.errors import ChaosError
from evensplit.testing.chaos.history.events import EVENTS, Event

_Event = TypeVar("_Event", bound=Event)


class Recorder:
    """Appends events to a file of its own in the directory of a history, one JSON object a line.

    `name`: of the file, without its ending; no two processes may use the same one. `began_s`: when the run began, by
    `time.monotonic()`, which all processes of a machine share; None: now. An event is in the file when `record`
    returns, so SIGKILL loses none. Safe to use from several threads.
    """

    def __init__(self, directory: Path, name: str, began_s: float | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.began_s = time.monotonic() if began_s is None else began_s
        self._file = (directory / f"{name}.jsonl").open("ab", buffering=0)
        self._lock = threading.Lock()

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_s

    def record(self, event: _Event) -> _Event:
        """Append an event, at this moment unless it has a time; the event with its time."""
        with self._lock:
            timed = event if event.at_s >= 0 else replace(event, at_s=round(self.now_s, 4))
            # `asdict` copies deeply, which takes longer than all the rest.
            facts = {field.name: getattr(timed, field.name) for field in fields(timed)}
            line = json.dumps({"event": type(event).__name__, **facts}, separators=(",", ":"))
            self._file.write(line.encode() + b"\n")
        return timed

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_history(directory: Path) -> list[Event]:
    """All events of a history, in the order of their times; those of one file keep their order.

    A last line that is not complete, as SIGKILL leaves it, is no event. `ChaosError` for any other line that is none.
    """
    files = sorted(directory.glob("*.jsonl"))
    if not files:
        raise ChaosError(f"{directory} holds no history: expected files *.jsonl. Give the directory of a run")
    events = [event for file in files for event in _events(file)]
    return sorted(events, key=lambda event: event.at_s)


def _events(file: Path) -> Iterator[Event]:
    lines = file.read_bytes().split(b"\n")
    # After the last newline comes nothing, or what a killed process had begun to write.
    for number, line in enumerate(lines[:-1], 1):
        try:
            found = json.loads(line)
            kind: Callable[..., Event] = EVENTS[found.pop("event")]
            yield kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})
        except (ValueError, KeyError, TypeError) as error:
            known = ", ".join(field.name for field in fields(Event))
            raise ChaosError(f"{file}, line {number}: no event of a history ({error!r}); each has {known}") from error
