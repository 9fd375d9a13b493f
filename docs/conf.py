"""How the pages are built: `make docs`. Every warning is an error there."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "evensplit"
release = version = version_of("evensplit")
project_copyright = "the authors of evensplit, Apache-2.0"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = True
# Types of other packages, for which no inventory is asked over the network, and names for types that have no page.
nitpick_ignore_regex = [
    ("py:.*", r"(?!evensplit\.).*"),
    ("py:.*", r"evensplit\.(core|explain|kafka|metadata|spark|testing)\..*"),
]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"evensplit {release}"
html_static_path: list[str] = []
html_show_sourcelink = False
html_search_scorer = str(ROOT / "docs" / "search_scorer.js")

OUTSIDE = re.compile(r"\[(?P<text>[^]\[]+)\]\((?P<target>(?:\.\./)+(?P<path>[^)#\s]+)(?:#[^)\s]*)?)\)")
MAYBE = re.compile(r"^(?P<page>[\w/-]+)\*\n", re.M)
CODE = re.compile(r"(?<![`:\w])`(?P<code>[^`\n]+)`(?!`)")


class Mermaid(SphinxDirective):
    """A diagram that a web view draws with what comes from another server: here it is a picture of the same table."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.image(uri="/pictures/states.svg", alt="Events that take a split from state to state")]


def link_inside(app: Sphinx, document: str, source: list[str]) -> None:
    """Links to files of the repository that are no pages: their text, and the path."""
    place = (Path(app.srcdir) / document).parent

    def replaced(found: re.Match[str]) -> str:
        target = (place / found["target"].partition("#")[0]).resolve()
        if target.is_relative_to(Path(app.srcdir).resolve()):
            return found[0]
        path = target.relative_to(ROOT)
        return f"`{path}`" if found["text"] in (target.name, str(path)) else f"{found['text']} (`{path}`)"

    source[0] = OUTSIDE.sub(replaced, source[0])


def only_what_there_is(app: Sphinx, document: str, source: list[str]) -> None:
    """In a table of contents, `page*` is a page that may be there."""
    there = app.srcdir

    def replaced(found: re.Match[str]) -> str:
        return f"{found['page']}\n" if (Path(there) / f"{found['page']}.md").is_file() else ""

    if document == "index":
        source[0] = MAYBE.sub(replaced, source[0])


def as_rst(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings here are written as Markdown is: code in single backquotes, blocks of code set off by four blanks."""
    made: list[str] = []
    block = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ") and (block or not _belongs(lines[:number]))
        if indented and not block:
            made += [".. code-block:: text", ""]
        block = indented or (block and not line.strip())
        made.append(line if block else CODE.sub(r"``\g<code>``", line))
    lines[:] = made


def _belongs(before: list[str]) -> bool:
    """Whether what is indented belongs to the line above: an item of a list, or a heading such as `Raises:`."""
    above = next((line for line in reversed(before) if line.strip()), "")
    set_off = not before or not before[-1].strip()
    return not set_off or above.startswith((" ", "- ", ":")) or above.rstrip().endswith("::")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", link_inside)
    app.connect("source-read", only_what_there_is)
    # Before napoleon, which makes RST of the headings.
    app.connect("autodoc-process-docstring", as_rst, priority=400)
