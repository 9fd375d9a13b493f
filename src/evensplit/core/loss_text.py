"""What a message says about lost records, the same on the driver, in tasks and in what explains a batch."""

from __future__ import annotations

from evensplit.core.model import Cause, HandedOut, Loss
from evensplit.core.text import counted

CURE = "set failOnDataLoss=false, or start with a new checkpoint"
"""What to do; a sentence begins with what that is for, as in "To go on without them, "."""

RECREATED = "the topic was deleted and created anew"
CUT_OFF = "it was cut off by an unclean leader election, or the topic was created anew"


def replaced(records: str, offset: int | None) -> str:
    """`records` are those of the partition, from `offset` on."""
    return f"an unclean leader election replaced {records} from offset {offset} on"


def verdict(loss: Loss) -> str:
    """Whether its records are certainly lost."""
    return "perhaps lost" if loss.handed_out else "lost"


def describe_loss(loss: Loss, log_end: int | None = None) -> str:
    """What happened, in one clause. `log_end`: the end of the log in which reading was to start, None if not known."""
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
            return RECREATED
        case Cause.DELETED:
            unread = "" if loss.found is None else f" with offsets {loss.position} to {loss.found - 1} unread"
            return f"it was deleted{unread}"
        case Cause.TRUNCATED:
            end = f"its log ends at offset {loss.found}, before position {loss.position}, which was read up to"
            return f"{end}: {CUT_OFF}"
        case Cause.REPLACED:
            return f"{replaced('its records', loss.found)}, and position {loss.position} had been read up to"
        case Cause.AGED_OUT:
            return (
                f"its log begins at offset {loss.found}, after position {loss.position}: the records between were "
                "never read"
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
