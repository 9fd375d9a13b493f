"""A loss of records in words: what happened, how much of it is lost, and whether that is sure."""

from __future__ import annotations

from evensplit.core.model import Cause, HandedOut, Loss
from evensplit.core.text import counted


def verdict(loss: Loss) -> str:
    """Whether records of it are sure to be lost."""
    return "perhaps lost" if loss.handed_out else "lost"


def describe_loss(loss: Loss, log_end: int | None = None) -> str:
    """What happened, in one clause. `log_end`: where the log ends in which reading was to start, if that is known."""
    if loss.handed_out is None:
        return _describe_unread(loss, log_end)
    what = f"its log begins at offset {loss.found}" if loss.cause is Cause.AGED_OUT else _describe_unread(loss)
    when = "before the restart" if loss.handed_out is HandedOut.BEFORE_RESTART else "in an earlier batch"
    return (
        f"{what}; offsets from {loss.position} on were handed out {when}, and whether they were read before they went "
        "is not known"
    )


def _describe_unread(loss: Loss, log_end: int | None = None) -> str:
    match loss.cause:
        case Cause.RECREATED:
            return "the topic was deleted and created anew"
        case Cause.DELETED:
            unread = "" if loss.found is None else f" with offsets {loss.position} to {loss.found - 1} unread"
            return f"it was deleted{unread}"
        case Cause.TRUNCATED:
            return (
                f"its log ends at offset {loss.found}, before position {loss.position}, which was read up to: "
                "records were lost by an unclean leader election, or the topic was created anew"
            )
        case Cause.REPLACED:
            return (
                f"an unclean leader election replaced its records from offset {loss.found} on, and position "
                f"{loss.position} had been read up to"
            )
        case Cause.AGED_OUT:
            return (
                f"its log begins at offset {loss.found}, after position {loss.position}: what was between went unread"
            )
    log = f"begins at offset {loss.found}{'' if log_end is None else f' and ends at {log_end}'}"
    return (
        f"reading was to start at offset {loss.position}, but its log {log}; with failOnDataLoss=false it is read from "
        "its beginning"
    )


def extent(loss: Loss) -> str:
    """How much was lost, in one clause."""
    if loss.handed_out and loss.offsets_max is not None:
        return f"Up to {counted(loss.offsets_max, 'offset')} from {loss.position} on may be unread"
    if loss.offsets_max is None:
        return f"How many offsets from {loss.position} on were lost is not known"
    since = f"from {loss.position} on"
    return f"At most {counted(loss.offsets_max, f'offset {since} was lost', f'offsets {since} were lost')}"
