"""What somebody wants to see: all of it is in the address, so a page can be sent to a colleague."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from evensplit.core.model import SplitId
from evensplit.observe.source_view import Source
from evensplit.observe.timeline import Kind

NOBODY = "none"
"""How the readers' column is called where splits have no reader."""

NUMBER_MAX = 2**63 - 1

E = TypeVar("E", bound=StrEnum)


class BadPageQuery(ValueError):
    """An address that nobody could have got from the page; the message says which part of it."""


class Shade(StrEnum):
    """What the grid is shaded by."""

    LAG = "lag"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class PageQuery:
    """What is shown.

    `source`: id of the query and number of the source; None: the one of which there was news last. `shade`: what the
    grid is shaded by. `reader`: of this one alone, -1: of those without one; None: of all. `cluster`, `topic`: the
    same. `find`: of those alone in whose names that is. `page`: of the grid, from 0. `kinds`: of happenings; none: all.
    `older`: so many of the latest happenings are left out. `split`: whose story is told.
    """

    source: tuple[str, int] | None = None
    shade: Shade = Shade.LAG
    reader: int | None = None
    cluster: str | None = None
    topic: str | None = None
    find: str = ""
    page: int = 0
    kinds: tuple[Kind, ...] = ()
    older: int = 0
    split: SplitId | None = None

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> PageQuery:
        """The params that the parameters of an address are. Raises BadWish."""
        known = {"source", "by", "reader", "cluster", "topic", "find", "page", "kind", "older", "split"}
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in known:
                raise BadPageQuery(f"{name!r}: expected one of {', '.join(sorted(known))}")
            found.setdefault(name, []).append(value)
        once = {name: _once(name, values) for name, values in found.items() if name not in ("kind", "split")}
        reader = once.get("reader")
        return cls(
            _source(once.get("source")),
            _one_of("by", once.get("by", Shade.LAG), Shade),
            None if reader is None else -1 if reader == NOBODY else _number("reader", reader),
            once.get("cluster"),
            once.get("topic"),
            once.get("find", ""),
            _number("page", once.get("page", "0")),
            tuple(dict.fromkeys(_one_of("kind", one, Kind) for one in found.get("kind", ()))),
            _number("older", once.get("older", "0")),
            _split(found.get("split")),
        )

    def address(self) -> str:
        """The address that this params has, from the root on."""
        pairs = list(self.pairs())
        return "/?" + urlencode(pairs, errors="surrogatepass") if pairs else "/"

    def pairs(self) -> Sequence[tuple[str, str]]:
        """Names and values of the address, as `of` takes them."""
        split = () if self.split is None else (self.split.cluster, self.split.topic, str(self.split.partition))
        query: Mapping[str, str | None] = {
            "source": f"{self.source[1]}:{self.source[0]}" if self.source else None,
            "by": None if self.shade is Shade.LAG else str(self.shade),
            "reader": None if self.reader is None else NOBODY if self.reader < 0 else str(self.reader),
            "cluster": self.cluster,
            "topic": self.topic,
            "find": self.find or None,
            "page": str(self.page) if self.page else None,
            "older": str(self.older) if self.older else None,
        }
        return (
            *((name, value) for name, value in query.items() if value is not None),
            *(("kind", str(kind)) for kind in self.kinds),
            *(("split", part) for part in split),
        )

    def at(self, source: Source) -> PageQuery:
        """The same of this source."""
        return replace(self, source=(source.query_id, source.number))

    def zoomed(self, reader: int | None, cluster: str | None = None, topic: str | None = None) -> PageQuery:
        """The same, with this part of the grid alone."""
        return replace(self, reader=reader, cluster=cluster, topic=topic, page=0)

    def shaded(self, shade: str) -> PageQuery:
        """The same, shaded by this."""
        return replace(self, shade=Shade(shade))

    def toggled(self, kind: Kind) -> PageQuery:
        """The same, with happenings of this kind too, or without them."""
        kinds = tuple(one for one in Kind if (one in self.kinds) != (one is kind))
        return replace(self, kinds=kinds, older=0)


def _once(name: str, values: Sequence[str]) -> str:
    if len(values) > 1:
        raise BadPageQuery(f"{name}: expected once, found {len(values)} times")
    return values[0]


def _source(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    number, _, query = text.partition(":")
    return query, _number("source", number)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > NUMBER_MAX:
        raise BadPageQuery(f"{name}={text[:40]!r}: expected a number")
    return int(text)


def _one_of(name: str, text: str, kind: type[E]) -> E:
    try:
        return kind(text)
    except ValueError:
        raise BadPageQuery(f"{name}={text[:40]!r}: expected one of {', '.join(kind)}") from None


def _split(parts: Sequence[str] | None) -> SplitId | None:
    if parts is None:
        return None
    if len(parts) != 3:
        raise BadPageQuery(f"split: expected cluster, topic and partition, found {len(parts)} parts")
    return SplitId(parts[0], parts[1], _number("split", parts[2]))
