"""A broken law, inside a simulated run; the run makes a `SimulationFailed` of it, with the story."""

from __future__ import annotations


class Broken(Exception):
    """A law does not hold. `law` is its id, `detail` one sentence."""

    def __init__(self, law: str, detail: str, split: object = None) -> None:
        self.law = law
        self.detail = detail
        self.split = split
        super().__init__(law, detail)
