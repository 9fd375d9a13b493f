"""What an assignment can prove about itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bounds that no assignment of the same input can go below, and the numbers that prove them (see `duals`).

    `policy`: the one that was followed. `weighted`: loads are sums of weights, not counts of splits.
    `load_max`, `squares`: the largest load, and the sum of the squares of all loads.
    `load_max_bound`, `squares_bound`: what these are at least in every assignment that the policy allows. With weights
    there is no bound for the squares (None).
    `moved`: splits that left a reader which could have kept them. `moved_bound`: what that is at least in every
    assignment as even as this one; None where the policy does not look at moves, or nothing is proven about them.
    `levels`: one for each reader, in the order of `readers`; empty with weights. `potentials`: likewise; only for
    `balanced`. `witness`: with weights, the places in `readers` of those whose own splits give `load_max_bound` on
    average; empty where a single split or a pair of splits gives it.
    """

    policy: str
    weighted: bool
    load_max: int
    load_max_bound: int
    squares: int
    squares_bound: int | None
    moved: int
    moved_bound: int | None
    levels: tuple[int, ...] = ()
    potentials: tuple[int, ...] = ()
    witness: tuple[int, ...] = ()

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
        """What is proven, in a sentence."""
        load = "weight" if self.weighted else "load"
        if self.even:
            what = f"no assignment has a smaller largest {load} than {self.load_max}"
            said = what if self.weighted else "as even as possible"
        elif self.load_max == self.load_max_bound:
            said = f"less even than possible: the sum of squares is {self.squares}, and could be {self.squares_bound}"
        else:
            said = f"the largest {load} is {self.load_max}; no assignment has one below {self.load_max_bound}"
            said += f" (gap {self.gap:.1%})"
        if self.policy == "sticky":
            return f"nothing valid moved; given that, {said}"
        moves = f"{self.moved} moved"
        return f"{said}; {moves}, the fewest for that" if self.fewest_moves else f"{said}; {moves}"

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
