"""What all pictures have in common: their look, and where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDTH = 760
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
STYLE = f"""\
text {{ font: 13px {FONT}; fill: #1f2328 }}
.title {{ font-size: 15px; font-weight: 600 }}
.soft {{ fill: #656d76; font-size: 12px }}
.in {{ fill: #ffffff; font-size: 11px }}
.page {{ fill: #ffffff }}
.grid {{ stroke: #d8dee4; stroke-width: 1 }}
.a {{ fill: #1769aa }}
.b {{ fill: #6b5b95 }}
.bar {{ fill: #1769aa }}
.line {{ fill: none; stroke: #1769aa; stroke-width: 1.5 }}
.mark {{ fill: none; stroke: #cf6a17; stroke-width: 3 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }}
.soft {{ fill: #9198a1 }}
.in {{ fill: #ffffff }}
.page {{ fill: #0d1117 }}
.grid {{ stroke: #2a313a }}
.a {{ fill: #2f81c4 }}
.b {{ fill: #8f7cc0 }}
.bar {{ fill: #4aa3e8 }}
.line {{ stroke: #4aa3e8 }}
.mark {{ stroke: #f0954a }}
}}"""


def svg(label: str, height: float, parts: Iterable[str]) -> str:
    """A picture: what it is called where it cannot be seen, its height, and what is on it."""
    return "\n".join(_lines(label, round(height), parts)) + "\n"


def _lines(label: str, height: int, parts: Iterable[str]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(label)}">'
    )
    yield f"<style>\n{STYLE}\n</style>"
    yield f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    yield from parts
    yield "</svg>"


def text(x: float, y: float, text: str, name: str = "", anchor: str = "start") -> str:
    """A text at a place, in a style, beginning there unless `anchor` says where else."""
    style = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'
