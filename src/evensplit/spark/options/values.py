"""Options as they were given, and the sentences about wrong ones.

A sentence says which option it is about, what was found and what was expected. No value that could be a secret is in
one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evensplit.core.json_text import parse_json
from evensplit.core.text import shown as in_quotes
from evensplit.kafka.options.option import LONG_MAX, Option

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FILE = "file:"
PARTITION = re.compile(r"[0-9]{1,10}", re.ASCII)


class RawOptions:
    """The options of one level, and the list that sentences about wrong ones go to.

    Names are given in any case; `options` has them in lower case. `where` follows an option's name in a sentence:
    nothing outside, " of cluster 'east'" inside `clusters`. A wrong value counts as not given, once it is reported.
    """

    def __init__(self, options: Mapping[str, Any], problems: list[str], where: str = "") -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self._written = {name.lower(): name for name in options}
        self.problems = problems
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.options

    def value(self, name: str) -> Any:
        """The value as it was given; None if it was not."""
        return self.options.get(name.lower())

    def written(self, name: str) -> str:
        """The name of a given option, in the case it was given in."""
        return self._written[name.lower()]

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are given."""
        return [name for name in names if name in self]

    def wrong(self, option: Option, reason: str = "", *, expected: str = "") -> None:
        """Say that the value of `option` is not what is expected: what its type says, or `expected`."""
        because = f": {reason}" if reason else ""
        secret = option.type.secret
        found = (
            "has a wrong value, not shown as it may be a secret" if secret else f"is {shown(self.value(option.name))}"
        )
        self.problems.append(f"{option.name}{self.where} {found}; expected {expected or option.type.expected}{because}")

    def read(self, option: Option) -> Any:
        """The value of `option`; its default where it is not given, or wrong."""
        if option.name not in self:
            return option.default
        try:
            return option.type.parse(self.value(option.name))
        except ValueError as error:
            self.wrong(option, str(error))
            return option.default

    def document(self, option: Option, *, expected: str = "") -> dict[str, Any] | None:
        """The JSON object that `option` is; it may be one already, inside another document. None: it is wrong."""
        value = self.value(option.name)
        if isinstance(value, dict):
            return value
        reason, document = "", None
        try:
            document = parse_json(value, strict=True) if isinstance(value, str) else None
        except ValueError as error:
            reason = str(error)
        if isinstance(document, dict):
            return document
        self.wrong(option, reason, expected=expected)
        return None

    def is_meant(self, name: str) -> bool:
        """Whether `rules.refuse_unknown` has asked on this level whether `name` was meant, or said to use it."""
        asked = tuple(f" is not an option{self.where}; {hint} {name}" for hint in ("did you mean", "use"))
        return any(one in problem for problem in self.problems for one in asked)


def file_of(value: object) -> str | None:
    """The path in a value `file:/path`; None for another value."""
    text = value.strip() if isinstance(value, str) else ""
    return text.removeprefix(_FILE) if text.startswith(_FILE) else None


def read_file(given: RawOptions, option: Option, example: str, bytes_max: int = -1) -> RawOptions | None:
    """`given`, with the content of the file in the place of `file:/path`; None: it cannot be read.

    It is read on the driver, when the query starts. Sentences about wrong values in it name its path. `example`: the
    name of such a file. `bytes_max`: a longer one cannot be read; -1: however long it is.
    """
    file = file_of(given.value(option.name))
    if file is None:
        return given
    content = read_bytes(given, option, example, bytes_max)
    if content is None:
        return None
    try:
        # Some editors put a mark of their own at the beginning.
        text = content.decode("utf-8-sig").strip()
    except ValueError as error:
        given.wrong(option, str(error), expected=f"the path of a file on the driver, as file:/path/{example}")
        return None
    return RawOptions({**given.options, option.name.lower(): text}, given.problems, f"{given.where} (in {Path(file)})")


def read_bytes(given: RawOptions, option: Option, example: str, bytes_max: int = -1) -> bytes | None:
    """The content of the file that `option` names; None: it cannot be read. The arguments are those of `read_file`."""
    path = Path(file_of(given.value(option.name)) or "")
    try:
        if not path.is_absolute():
            raise ValueError("the path does not begin with /")
        with path.open("rb") as opened:
            content = opened.read(bytes_max + 1 if bytes_max >= 0 else -1)
        if 0 <= bytes_max < len(content):
            raise ValueError(f"the file has more than {bytes_max:,} bytes")
        return content
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        given.wrong(option, reason, expected=f"the path of a file on the driver, as file:/path/{example}")
        return None


def is_whole(value: object, least: int, most: int = LONG_MAX) -> bool:
    """Whether it is a whole number from `least` to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def shown(value: object) -> str:
    """`value` in a sentence: not more than a hundred characters of it."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return in_quotes(text)
