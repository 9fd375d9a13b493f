"""The types of an assignment: readers and scopes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evensplit.core.model import Cluster, SplitId, Topic

Reader = int | str
Scope = Cluster | Topic | SplitId
Eligible = Mapping[Reader, Collection[Scope]]
Base = Mapping[Reader, int]
