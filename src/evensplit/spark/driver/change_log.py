"""The log of the source's own process: one line for each change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from evensplit.core.loss_text import verdict
from evensplit.core.model import Loss
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.explain.batch import explain
from evensplit.explain.changes import changes, told

LOSSES_SAID_MAX = 20
"""How many losses of one batch have a line in the log."""


def show_log() -> None:
    """Write the log to standard error, which Spark keeps with the driver's log.

    Nothing is done where logging has been set up: where the root logger or this one has a handler, or this one a level.
    """
    log = logging.getLogger("evensplit")
    if log.handlers or log.level != logging.NOTSET or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


@contextmanager
def silent_log() -> Iterator[None]:
    """Log nothing unless the program has set up a log: whoever runs a query's parts says itself what they find."""
    log, silent = logging.getLogger("evensplit"), logging.NullHandler()
    log.addHandler(silent)
    try:
        yield
    finally:
        log.removeHandler(silent)


def say_losses(losses: Sequence[Loss], *, more: str) -> None:
    """Log one line for each of the first losses, and one for how many more there are.

    Args:
        more: where to find those.
    """
    log = logging.getLogger("evensplit")
    for loss in losses[:LOSSES_SAID_MAX]:
        log.warning("%s %s: %s", verdict(loss), loss.split, told(loss))
    if len(losses) > LOSSES_SAID_MAX:
        log.warning("lost: … and %d more, %s", len(losses) - LOSSES_SAID_MAX, more)


def say_changes(start: EnumeratorState, state: EnumeratorState, report: Callable[[], Report]) -> None:
    """Log one line for each change in the batch from `start` to `state`.

    Args:
        report: returns the report of the batch; called only where it is needed.
    """
    log = logging.getLogger("evensplit")
    say_losses(new_losses(start, state), more="all in the offset")
    explained = replace(state, losses=())
    if start.generation != state.generation:
        sentences = explain(start, explained, report()).sentences()
    else:
        # The common case, in which nothing is to be proven anew.
        sentences = changes(start, explained).sentences()
    for sentence in sentences:
        log.info(sentence)
