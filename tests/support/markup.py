"""A page of HTML, taken apart."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
"""Elements that have no end."""


class Page(HTMLParser):
    """A page, taken apart by Python's own parser. `elements`: tag and attributes of each, `text`: all of it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self._within: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append((tag, found.get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert [name for name, _ in self._open[-1:]] == [tag], f"</{tag}> ends what is not open"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        for _, name in self._open:
            if name is not None:
                self._within.setdefault(name, []).append(data)

    def by_id(self, name: str) -> str:
        """The text in the element with this id; empty if there is none."""
        return " ".join(" ".join(self._within.get(name, ())).split())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def cells(self) -> list[dict[str, str | None]]:
        return [found for tag, found in self.elements if tag == "a" and "cell" in (found.get("class") or "").split()]
