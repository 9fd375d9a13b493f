"""Who owns which split: `assign` gives the best assignment there is, and proves it."""

from evensplit.core.assign.assignment import Assignment, assign, owners
from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.claims import Claim, resolve_claims
from evensplit.core.assign.per_cluster import assign_by_cluster, by_cluster

__all__ = [
    "Assignment",
    "Certificate",
    "Claim",
    "assign",
    "assign_by_cluster",
    "by_cluster",
    "owners",
    "resolve_claims",
]
