"""A page of HTML, taken apart."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """A page, taken apart by Python's own parser. `elements`: tag and attributes of each, `text`: all of it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, found))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def cells(self) -> list[dict[str, str | None]]:
        return [found for tag, found in self.elements if tag == "a" and "cell" in (found.get("class") or "").split()]
