"""Looks for what cannot be true in a history: then a verdict on it would prove nothing."""

from __future__ import annotations

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.ledger import Bools, Claims, Ints

KIND = "history"


def judge_history(context: Context) -> None:
    """Find records that the run's own witnesses, writers and another reader, do not agree on."""
    ledger = context.ledger
    sent, confirmed, found = ledger.sent, ledger.confirmed, ledger.found
    _find(context, "were sent twice", sent, _again(sent.number))
    unclean = np.array([ledger.kinds.get(place[:3]) == "unclean" for place in ledger.places] + [False])
    for claims, who in ((confirmed, "the brokers"), (found, "another client")):
        known = (claims.number >= 0) & (claims.number < ledger.size)
        place = np.full(len(claims.number), -1)
        place[known] = ledger.place[claims.number[known]]
        _find(context, f"were never sent, or elsewhere, but {who} told of them", claims, place != claims.place)
        _find(context, f"are twice in what {who} told", claims, _again(claims.number))
        same = _again(np.stack([claims.place, claims.offset])) & (claims.offset >= 0)
        if claims is confirmed:
            # After an unclean election, offsets are given anew.
            same &= ~unclean[claims.place]
        _find(context, f"have the offset of another one, as {who} told", claims, same)
    if not ledger.size:
        return
    known = (found.number >= 0) & (found.number < ledger.size)
    number = np.where(known, found.number, 0)
    aborted = known & ledger.aborted[number]
    _find(context, "are of aborted transactions, and another client found them", found, aborted)
    moved = known & (ledger.offset[number] != found.offset)
    _find(context, "were found at another offset than the brokers gave", found, moved)
    gone = np.flatnonzero(~np.isnan(ledger.due_s) & ledger.was_read & ledger.stays & ~ledger.in_log)
    what = "were acknowledged, and another client did not find them"
    context.find_records(KIND, what, "brokers", gone, ledger.due_s[gone])


def _again(key: Ints) -> Bools:
    """Which entries, columns of `key`, are there before, too."""
    again = np.zeros(key.shape[-1], bool)
    if len(again):
        _, first = np.unique(key, axis=-1, return_index=True)
        again[:] = True
        again[first] = False
    return again


def _find(context: Context, what: str, claims: Claims, bad: Bools) -> None:
    context.find_records(KIND, what, "history", claims.number[bad], claims.at_s[bad])
