"""Templates to HTML: for the pages of the dashboard, and for reports."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evensplit.core.text import counted
from evensplit.observe.dashboard.view import formatting

HERE = Path(__file__).parent


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """Render a page, in UTF-8. Values are escaped; lone surrogates, which names can have, are written out."""
    return _templates().get_template(template).render(values).encode("utf-8", "backslashreplace")


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for one in (
        formatting.exact,
        formatting.short,
        counted,
        formatting.lasted,
        formatting.utc,
        formatting.stamp,
        formatting.attribute,
    ):
        found.globals[one.__name__] = one
    return found
