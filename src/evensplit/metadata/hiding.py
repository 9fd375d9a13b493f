"""Hides the options of a user's own service in texts that it writes: they may be secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

HIDDEN_CHARS_MIN = 4
"""A value that is shorter is no secret, and would be found anywhere."""


def hidden(text: str, options: Mapping[str, str]) -> str:
    """`text` with the name of the option, as `<metadata.password>`, in place of each value, also as URLs and reprs."""
    names: dict[str, str] = {}
    for name, value in sorted(options.items()):
        for form in (value, value.strip(), quote(value), quote(value, safe=""), quote_plus(value), repr(value)[1:-1]):
            if len(form) >= HIDDEN_CHARS_MIN:
                names.setdefault(form, f"<metadata.{name}>")
    if not names:
        return text
    # The longest first: one value can be the beginning of another.
    forms = "|".join(re.escape(form) for form in sorted(names, key=len, reverse=True))
    return re.sub(forms, lambda found: names[found[0]], text)
