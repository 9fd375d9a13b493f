"""Record batches that are not decoded: what is said of them, and what to do about it."""

from __future__ import annotations

from evensplit._kernel import KernelError
from evensplit.core.model import SplitId
from evensplit.errors import BatchTooLarge, CorruptRecordsError, OldMessageFormat, TimestampOutOfRange

DAMAGED = "the records are damaged in the broker's log or on the way from it"

_MAGIC_AT = 16
_OLD_FORMATS = (0, 1)
_SEE_OTHERS = (
    "The records are damaged in the broker's log or on the way from it; see what another consumer reads there, and "
    "start behind them to go on without them"
)
_OTHER_UNIT = (
    "Its producer seems to write another unit than milliseconds. With onTimestampOverflow=null such a timestamp is "
    "null, and with columns that leave timestamp out it is not looked at"
)


def too_long(split: SplitId, offset: int, length: int, batch_bytes_max: int) -> BatchTooLarge:
    """A record batch claims to have `length` bytes, as the broker keeps it."""
    return BatchTooLarge(
        *split,
        offset,
        f"a record batch claims a length of {length} bytes, and maxBatchBytes is {batch_bytes_max}. Raise "
        "maxBatchBytes to read it, in a worker with memory for several times as much; if the topic's max.message.bytes "
        f"does not allow so much, {DAMAGED}",
    )


def refused_by_kernel(
    split: SplitId, offset: int, data: bytearray, begin: int, error: KernelError, batch_bytes_max: int
) -> CorruptRecordsError:
    """The kernel refused what is in `data` from `begin` on, when it was at `offset`."""
    kind, base, detail = error.args
    at = base if base >= 0 else offset
    if kind == "too_large":
        return BatchTooLarge(
            *split,
            at,
            f"{detail} ({kind}), and maxBatchBytes is {batch_bytes_max}. Raise maxBatchBytes to read it, in a worker "
            "with memory for several times as much, and let producers send smaller batches (batch.size)",
        )
    if kind == "unsupported_magic" and _magic(data, begin) in _OLD_FORMATS:
        return OldMessageFormat(*split, at, detail)
    if kind == "timestamp":
        return TimestampOutOfRange(*split, at, f"{detail}. {_OTHER_UNIT}")
    return CorruptRecordsError(*split, at, f"{detail} ({kind}). {_SEE_OTHERS}")


def _magic(data: bytearray, begin: int) -> int:
    """The version of the message format, which has been in the same place in all of them; -1 where nothing is."""
    return data[begin + _MAGIC_AT] if begin + _MAGIC_AT < len(data) else -1
