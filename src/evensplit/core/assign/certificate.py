"""The proof of how even an assignment is, and of how few moves it takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from evensplit.core.text import counted


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bounds that no assignment of the same input can go below, and the numbers that prove them (see `duals`)."""

    policy: str
    weighted: bool
    """Loads are sums of weights, not counts of splits."""
    load_max: int
    """The largest load of a reader."""
    load_max_bound: int
    """The least that `load_max` can be in an assignment that the policy allows."""
    squares: int
    """The sum of the squares of all loads."""
    squares_bound: int | None
    """The least that `squares` can be in an assignment that the policy allows; None with weights."""
    moved: int
    """How many splits left a reader that could have kept them."""
    moved_bound: int | None
    """The least that `moved` can be in an assignment as even as this one; None if nothing is proven about moves."""
    levels: tuple[int, ...] = ()
    """One for each reader, in the order of `readers`; empty with weights."""
    potentials: tuple[int, ...] = ()
    """One for each reader, in the order of `readers`; only for `balanced`."""
    witness: tuple[int, ...] = ()
    """With weights: the places in `readers` of those whose own splits give `load_max_bound` on average. Empty where a
    single split, or a pair of splits, gives it."""

    @property
    def even(self) -> bool:
        """Proven: no assignment that the policy allows is more even (with weights: has a smaller largest load)."""
        return self.load_max == self.load_max_bound if self.weighted else self.squares == self.squares_bound

    @property
    def fewest_moves(self) -> bool:
        """Proven: no assignment as even as this one moves fewer splits."""
        return self.moved == self.moved_bound

    @property
    def gap(self) -> float:
        """How far the largest load is above its bound, as a part of the bound; 0.0 where nothing can be better."""
        return self.load_max / self.load_max_bound - 1 if self.load_max_bound else 0.0

    def statement(self) -> str:
        """Say in a sentence what is proven."""
        load = "weight" if self.weighted else "load"
        if self.even:
            what = f"the largest weight, {self.load_max}, is the smallest possible"
            said = what if self.weighted else "as even as possible"
        elif self.load_max == self.load_max_bound:
            said = f"less even than possible: the sum of squares is {self.squares}, and could be {self.squares_bound}"
        else:
            said = f"the largest {load} is {self.load_max}; no assignment has one below {self.load_max_bound}"
            said += f" (gap {self.gap:.1%})"
        if self.policy == "sticky":
            return f"no partition moved that could have stayed; given that, {said}"
        if not self.moved:
            return f"{said}; no partition moved that could have stayed"
        partitions = counted(self.moved, "partition")
        least = ", the minimum" if self.fewest_moves else ""
        return f"{said}; {partitions} moved for that{least}"

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            **asdict(self),
            "even": self.even,
            "fewest_moves": self.fewest_moves,
            "gap": round(self.gap, 6),
            "statement": self.statement(),
            "levels": list(self.levels),
            "potentials": list(self.potentials),
            "witness": list(self.witness),
        }
