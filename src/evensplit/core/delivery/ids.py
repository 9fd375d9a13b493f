"""The transactional ids of a query: how they are made, and which slots a task may take.

A slot is a name that tasks of a host share, one at a time. What it was used for last is a text beside it.
"""

from __future__ import annotations

_ASKED = b"?"

GIVEN_BACK = b""
"""What a slot has beside it when its task has failed, and ended all that it had begun: as if nobody had used it.

The task has offered nothing, so nothing of the id can be decided. One that is killed may have, and gives nothing back.
"""


def ledger_id(prefix: str, query: str) -> str:
    """The id under which a query's drivers append to the ledger, one at a time."""
    return f"{prefix}.{query}"


def task_ids_begin(prefix: str, query: str) -> str:
    """What the ids of a query's tasks begin with, and no other ids."""
    return f"{prefix}.{query}."


def task_id(prefix: str, query: str, slot: str) -> str:
    """The id of a slot. `slot` may have dots in it; `query` may not."""
    return f"{task_ids_begin(prefix, query)}{slot}"


def used_for(batch: int) -> bytes:
    """What a slot has beside it once a task of `batch` has taken it."""
    return str(batch).encode()


def asked_for(batch: int) -> bytes:
    """What a slot has beside it while a broker is asked to begin with its id.

    If that is never answered, the request may arrive much later, and abort whatever the id has open then. So such a
    slot is never free again.
    """
    return used_for(batch) + _ASKED


def is_free(last: bytes, batch: int) -> bool:
    """Whether a slot that nobody has now is free for a task of `batch`. `last`: what it has beside it, if anything.

    Only if it was given back, or an earlier batch has used it: a transaction of this batch, or of a later one, may be
    decided and not yet committed, and whoever begins with its id again aborts it. What is no number was not written by
    this, or not to its end; so nobody knows for what the slot was used.
    """
    return not last or (last.isdigit() and int(last) < batch)
