"""How many records of a batch a condition left out, and how many keys and values could not be decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Counted(NamedTuple):
    """The counts of one cluster, or of all together."""

    filtered: int = 0
    """Records that the option `where` left out."""
    undecodable: int = 0
    """Keys and values that could not be decoded, and became null."""

    def plus(self, other: Counted) -> Counted:
        """Both together."""
        return Counted(self.filtered + other.filtered, self.undecodable + other.undecodable)


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """The counts of one batch, as its tasks told them."""

    clusters: Mapping[str, Counted] = field(default_factory=dict)
    """Cluster -> its counts; those without any may be left out."""
    complete: bool = True
    """Whether every task has told its own. If not, the true counts are these or higher."""

    @property
    def all(self) -> Counted:
        """Those of all clusters together."""
        found = Counted()
        for one in self.clusters.values():
            found = found.plus(one)
        return found

    def sentence(self) -> str:
        """The counts in words."""
        found = self.all
        least = "" if self.complete else "at least "
        more = "" if self.complete else "; not every task could say"
        return (
            f"records left out by the condition: {least}{found.filtered:,}; "
            f"keys and values that could not be decoded: {least}{found.undecodable:,}{more}"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types, with the clusters in the order of their names."""
        clusters = [{"id": name, **self.clusters[name]._asdict()} for name in sorted(self.clusters)]
        return {**self.all._asdict(), "complete": self.complete, "clusters": clusters}
