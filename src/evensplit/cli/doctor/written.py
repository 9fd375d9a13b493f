"""Which format would be written into a checkpoint, and who could go on from it then."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.checkpoint.formats import HELD, OLDEST_WRITTEN, format_of, lasting, needing, told
from evensplit.cli.doctor.checkpoint import Kept, format_spans
from evensplit.cli.doctor.findings import Finding, Status
from evensplit.core.state.codec import encode
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.parse import SourceOptions

_COPY = "copy the checkpoint while no query runs on it, if you may want to go back to an older version"


def format_findings(kept: Kept, after: EnumeratorState, options: SourceOptions | None) -> Iterator[Finding]:
    """The format of the next batches, and what older versions could do with them.

    `after`: the state of the next batch if it read nothing. `options`: those of the query that were said; None: none.
    """
    now = format_of(kept.document)
    staying = lasting(encode(after))
    then = max(staying, default=OLDEST_WRITTEN)
    names = tuple(name for one in staying.values() for name in one)
    unsaid = "" if options else " (options may, such as limits: say them with -o)"
    reason = f"it has {told(names)}" if names else f"nothing in it needs a later one{unsaid}"
    first = f"batch {kept.next_batch}"
    said = f"the newest batch is in format {now}; from {first} on, format {then} is written, since {reason}"
    for version, names in needing({"clusters": {}, **dict.fromkeys(_to_come(kept.state, options))}).items():
        if version > then:
            said += f". Format {version} is written as soon as there is {told(names)}"
    yield Finding(kept.where, "format", Status.OK, said)
    yield _older(kept, max(now, *(kept.formats[batch] for batch in kept.needed)), then, first)


def _to_come(state: EnumeratorState, options: SourceOptions | None) -> list[str]:
    """The names of values that a batch can bring. `options`: those that were said; None: nothing was."""
    # Limits are not in a checkpoint; one that held the last batch may still be there.
    found = [HELD] if state.held else []
    if options is None:
        return found
    limits = options.limits
    if limits.alignment_ms is not None:
        found.append("reachedMs")
    if limits.alignment_ms is not None or limits.batch:
        found.append(HELD)
    if limits.bytes:
        found.append("recordBytes")
    return found


def _older(kept: Kept, needed: int, then: int, first: str) -> Finding:
    """Whether an older version can go on from the checkpoint as it is, and from what this one writes."""
    said = f"one that reads formats 1 to {needed} can go on from the checkpoint as it is"
    rises = then > needed
    said += f". From {first} on, only one that reads format {then} can" if rises else ", and from what is written then"
    earlier = {batch: version for batch, version in kept.formats.items() if version < needed}
    if earlier:
        said += f". One that reads fewer can go on only from a copy with earlier offsets: {format_spans(earlier)}"
    return Finding(kept.where, "older versions", Status.WARNING if rises else Status.OK, said, _COPY if rises else "")
