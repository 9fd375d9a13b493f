"""What a nemesis is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from evensplit.testing.chaos.schedule import Kind

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from evensplit.testing.chaos.arena import Arena


NEEDS: Mapping[str, str] = {
    "": "",
    "evensplit": "evensplit as the source",
    "standalone": "a standalone cluster of Spark",
    "held-sink": "a query of our job besides `parquet` and `kafka`",
    "written": "the query `kafka` of our job",
    "mount": "the right to mount file systems",
}
"""What a nemesis may need: word -> meaning."""


@dataclass(frozen=True, slots=True)
class Harm:
    """A fault that has begun."""

    what: str
    """What is done to whom, in a sentence: `broker 1 of east is killed`."""
    clusters: tuple[str, ...] = ()
    """The clusters that cannot be read as usual until it ends; empty if it is not about clusters."""
    since_s: float | None = None
    """When it began, in seconds of the run; None: when it was asked for."""


@dataclass(frozen=True, slots=True)
class Nemesis:
    """Something bad that can be done to an arena, and undone."""

    kind: Kind
    meaning: str
    """What it does, in a sentence for users."""
    do: Callable[[Arena, Random], AbstractContextManager[Harm]]
    """Begin the fault on entering, end it on leaving. On return from either, it has happened."""
    needs: str = ""
    """A word of `NEEDS`; empty if nothing."""


def nemesis(
    name: str,
    resource: str,
    meaning: str,
    *,
    lasts_s: tuple[float, float] = (3.0, 20.0),
    ends_process: bool = False,
    needs: str = "",
) -> Callable[[Callable[[Arena, Random], Iterator[Harm]]], Nemesis]:
    """Make a nemesis of a generator function that begins the fault, yields the harm once, and ends the fault."""

    def make(body: Callable[[Arena, Random], Iterator[Harm]]) -> Nemesis:
        return Nemesis(Kind(name, resource, lasts_s, ends_process), meaning, contextmanager(body), needs)

    return make
