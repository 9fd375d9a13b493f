"""Draws the pictures of the documentation: `python -m tools.pictures` writes them into docs/pictures.

Each is drawn from what the code really does: assignments and a simulated run are computed here, crash.json was recorded
by `tools.record_crash`, and the figures of skew are those of `bench.howfar.skew`. With `--check`, nothing is written,
and the exit code says whether they are up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tools import made
from tools.pictures.assignments import chain, owners, simulation, spread
from tools.pictures.batches import crash, skew, watermarks
from tools.pictures.drawing import DIRECTORY
from tools.pictures.machine import host, states
from tools.pictures.overview import overview

PICTURES: Mapping[str, Callable[[], str]] = {
    "overview.svg": overview,
    "owners.svg": owners,
    "chain.svg": chain,
    "spread.svg": spread,
    "simulation.svg": simulation,
    "crash.svg": crash,
    "states.svg": states,
    "watermarks.svg": watermarks,
    "skew.svg": skew,
    "host.svg": host,
}


def stale(names: Sequence[str] = tuple(PICTURES)) -> list[str]:
    """The pictures that are not what would be drawn."""
    return made.stale(DIRECTORY, {name: PICTURES[name] for name in names})


def main(arguments: list[str]) -> int:
    """Draw the pictures, or check them."""
    return made.main("tools.pictures", __doc__, DIRECTORY, PICTURES, arguments)
