"""Where the source's own process says what it does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
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
    """Let one line per change reach standard error, which Spark keeps with the driver's log.

    Nothing is done where logging has been set up: by the program, or by whoever gave the logger a level or a handler.
    """
    log = logging.getLogger("evensplit")
    if log.handlers or log.level != logging.NOTSET or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def say_losses(losses: Sequence[Loss], *, more: str) -> None:
    """One line for each of the first losses, and one for how many more there are; `more`: what to say of those."""
    log = logging.getLogger("evensplit")
    for loss in losses[:LOSSES_SAID_MAX]:
        log.warning("%s %s: %s", verdict(loss), loss.split, told(loss))
    if len(losses) > LOSSES_SAID_MAX:
        log.warning("lost: … and %d more, %s", len(losses) - LOSSES_SAID_MAX, more)


def say_changes(start: EnumeratorState, state: EnumeratorState, report: Callable[[], Report]) -> None:
    """One line for each change in the batch from `start` to `state`; `report`: what was seen, if that is needed."""
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
