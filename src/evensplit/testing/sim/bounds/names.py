"""What simulated clusters and topics are called."""

from __future__ import annotations

CLUSTERS = ("a", "a-b", "b", "b-c")
TOPICS = ("b-c", "c", "c-0")
"""Ids that collide when they are joined by a dash: `a` + `b-c` and `a-b` + `c`."""
