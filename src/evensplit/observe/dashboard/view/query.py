"""The parameters of a page. All of them are in its address, so a page can be sent to a colleague."""

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
"""The value of `reader` for splits without one."""

NUMBER_MAX = 2**63 - 1

E = TypeVar("E", bound=StrEnum)


class BadPageQuery(ValueError):
    """An address that no link of the page has. The message names the wrong part."""


class Shade(StrEnum):
    """The value that the grid is shaded by."""

    LAG = "lag"
    RATE = "rate"


class Show(StrEnum):
    """What a page is about."""

    ONE = "one"
    """One source."""
    ALL = "all"
    """All of them, a line each."""
    ADVICE = "advice"
    """When which advice is given."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The parameters of a page."""

    source: tuple[str, int] | None = None
    """Query id and number of the source; None: the one with the latest news."""
    shade: Shade = Shade.LAG
    reader: int | None = None
    """Only splits of this reader; -1: those without one; None: all."""
    cluster: str | None = None
    topic: str | None = None
    find: str = ""
    """Only splits whose names contain this."""
    page: int = 0
    """Of the grid, from 0."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of events that are shown; empty: all."""
    older: int = 0
    """How many of the latest events are skipped."""
    split: SplitId | None = None
    """The split whose history is shown."""
    show: Show = Show.ONE
    """With `ALL`, `find` and `page` are about queries."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> PageQuery:
        """Read the parameters of an address. Raises BadPageQuery."""
        known = {"source", "by", "reader", "cluster", "topic", "find", "page", "kind", "older", "split", "show"}
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
            _one_of("show", once.get("show", Show.ONE), Show),
        )

    def address(self) -> str:
        """The address of the page, from the root on."""
        pairs = list(self.pairs())
        return "/?" + urlencode(pairs, errors="surrogatepass") if pairs else "/"

    def pairs(self) -> Sequence[tuple[str, str]]:
        """The names and values in the address, as `of` takes them."""
        split = () if self.split is None else (self.split.cluster, self.split.topic, str(self.split.partition))
        query: Mapping[str, str | None] = {
            "show": None if self.show is Show.ONE else str(self.show),
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
        """The same page for this source."""
        return replace(self, source=(source.query_id, source.number))

    def zoomed(self, reader: int | None, cluster: str | None = None, topic: str | None = None) -> PageQuery:
        """The same page with only this part of the grid."""
        return replace(self, reader=reader, cluster=cluster, topic=topic, page=0)

    def shaded(self, shade: str) -> PageQuery:
        """The same page, shaded by this."""
        return replace(self, shade=Shade(shade))

    def toggled(self, kind: Kind) -> PageQuery:
        """The same page with this kind of events switched on or off."""
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
