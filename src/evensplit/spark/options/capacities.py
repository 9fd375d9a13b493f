"""The option `capacity`: how much each reader takes beside the others."""

from __future__ import annotations

from evensplit.core.state.settings import CAPACITY_MAX
from evensplit.spark.options.pins import reader_range
from evensplit.spark.options.spec.query import CAPACITY
from evensplit.spark.options.values import RawOptions, is_whole, shown


def parse_capacities(given: RawOptions, readers: int | None) -> tuple[tuple[int, int], ...]:
    """Readers with their capacities, ascending; those of 1 are left out. Nothing where `capacity` is not given.

    `readers`: their number, None if it is not known. A reader may be in one entry only.
    """
    document = given.document(CAPACITY) if CAPACITY.name in given else {}
    if document is None:
        return ()
    if CAPACITY.name in given and not document:
        given.wrong(CAPACITY)
    found: dict[int, int] = {}
    for text, capacity in document.items():
        if not is_whole(capacity, 1, CAPACITY_MAX):
            given.problems.append(
                f"{CAPACITY.name} of the readers {shown(text)} is {shown(capacity)}; expected a whole number from 1 to "
                f"{CAPACITY_MAX}"
            )
            continue
        named = reader_range(given, CAPACITY, text, readers)
        twice = [reader for reader in named if reader in found]
        if twice:
            given.problems.append(f"{CAPACITY.name} names reader {twice[0]} twice; expected each reader once")
        found.update(dict.fromkeys(named, capacity))
    return tuple((reader, found[reader]) for reader in sorted(found) if found[reader] != 1)
