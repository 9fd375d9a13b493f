"""Tables for notebooks: HTML in which names are text, whatever they contain, and that stays small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

ROWS_MAX = 30
"""So many rows of a table are shown; of the others only how many there are."""

TEXT_MAX = 300
"""So many characters of a text are shown; Kafka's names have at most 249."""

_RIGHT = ' style="text-align: right"'
_LEFT = ' style="text-align: left"'


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> str:
    """The first of `rows`, of which there are `count`. Whole numbers stand on the right, None is what is not known."""
    head = "".join(f"<th{_LEFT}>{_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, ROWS_MAX))
    if count > ROWS_MAX:
        body += f'<tr><td colspan="{len(headings)}"{_LEFT}>… and {count - ROWS_MAX:,} more</td></tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def title(text: str) -> str:
    """A line above the rest."""
    return f"<p><strong>{_text(text)}</strong></p>"


def lines(texts: Sequence[str]) -> str:
    """A paragraph for each of the first of them."""
    shown = [f"<p>{_text(text)}</p>" for text in texts[:ROWS_MAX]]
    return "".join([*shown, f"<p>… and {len(texts) - ROWS_MAX:,} more</p>"] if len(texts) > ROWS_MAX else shown)


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"<td{_RIGHT}>{value:,}</td>"
    return f"<td{_LEFT}>{'not known' if value is None else _text(str(value))}</td>"


def _text(text: str) -> str:
    return escape(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")
