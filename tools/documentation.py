"""Builds the documentation: `python -m tools.documentation` writes docs/_build/html. Exit code 0: no warnings.

All pages are read anew each time: of a page that it knows, Sphinx does not say again what is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
HTML = DOCS / "_build" / "html"
STRICT = ("--fresh-env", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")

if __name__ == "__main__":
    code = main([*STRICT, "--doctree-dir", str(DOCS / "_build" / "doctrees"), str(DOCS), str(HTML)])
    if code == 0:
        print(HTML / "index.html")
    sys.exit(code)
