"""How what was written is named in errors."""

from __future__ import annotations

from evensplit.core.delivery.terms import Transaction, Written
from evensplit.kafka.produce.problems import written_in


def test_transactions_are_named_by_what_is_in_them() -> None:
    """Many tasks write to the same partitions."""
    found = [
        Transaction("west", "p.q.2", 2, 0, (Written("orders", 1, 7, 0, 9),)),
        Transaction("east", "p.q.0", 1, 0, (Written("orders", 10, 1, 0, 9), Written("orders", 2, 2, 0, 9))),
        Transaction("east", "p.q.1", 3, 0, (Written("orders", 2, 3, 10, 19),)),
    ]
    assert written_in(found) == (
        "cluster 'east': orders/2 (5 records), orders/10 (1 record); cluster 'west': orders/1 (7 records)"
    )
