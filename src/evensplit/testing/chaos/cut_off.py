"""Notes which batch of the query that writes to a topic the end of a driver has cut off, and how far it had come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from evensplit.testing.chaos.history.events import BatchCutOff
from evensplit.testing.chaos.history.recorder import Recorder


class CutOff:
    """To be called when a driver has ended, and before the next one starts.

    `checkpoint`: of the query. `ends`: says where each partition of the sink's topic ends now, in their order, the
    records of open transactions included; None if nobody says.
    """

    def __init__(self, checkpoint: Path, ends: Callable[[], tuple[int, ...] | None], recorder: Recorder) -> None:
        self._checkpoint = checkpoint
        self._ends = ends
        self._recorder = recorder

    def __call__(self) -> None:
        batch = last_batch(self._checkpoint / "offsets")
        if batch is None or batch == last_batch(self._checkpoint / "commits"):
            return
        batch_ms = _time_of(self._checkpoint / "offsets" / f"{batch}")
        if batch_ms is not None:
            self._recorder.record(BatchCutOff(batch=batch, batch_ms=batch_ms, ends=self._ends() or ()))


def last_batch(log: Path) -> int | None:
    """The last batch that a log of Spark has; None if it has none."""
    try:
        return max((int(file.name) for file in log.iterdir() if file.name.isdecimal()), default=None)
    except OSError:
        return None


def _time_of(offsets: Path) -> int | None:
    """The time that Spark has given a batch; None if the file does not tell."""
    try:
        _, said, *_ = offsets.read_text().splitlines()
        return int(json.loads(said)["batchTimestampMs"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
