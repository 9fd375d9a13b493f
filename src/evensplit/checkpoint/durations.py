"""How long batches took, by when Spark wrote down that they were done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from evensplit.checkpoint.look import written_in
from evensplit.checkpoint.places.place import Place
from evensplit.observe.history.work import Work


def durations(checkpoint: Place, works: Sequence[Work]) -> dict[int, int]:
    """Batch -> how long it took in ms, for `works`, which follow each other; empty if the files are copies, whose times
    say nothing."""
    found: dict[int, int] = {}
    done = written_in(checkpoint / "commits") if works else {}
    for work, following in zip_longest(works, works[1:]):
        done_ms = int(done.get(str(work.batch), 0) / 1e9 * 1000)
        if work.at_ms is None or done_ms <= work.at_ms:
            continue
        if following is not None and following.at_ms is not None and done_ms > following.at_ms:
            return {}
        found[work.batch] = done_ms - work.at_ms
    return found
