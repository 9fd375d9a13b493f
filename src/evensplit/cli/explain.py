"""`evensplit explain`: what an error means, and what to do about it, by its id."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click
from rich.console import Console
from rich.text import Text

from evensplit.cli.usage import ending, form_option
from evensplit.core.words import plain
from evensplit.error_table import MEANINGS, Meaning

SUGGESTIONS_MAX = 5
SIMILAR = 0.5
"""How much alike two words are, from 0 to 1, for one to be meant with the other."""

_ID = re.compile(r"(?:es-?)?(\d+)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@click.command(
    epilog=ending(
        "the cause and the cure were printed",
        "there is no such error",
        "evensplit explain ES-101",
        "evensplit explain OptionError --format json",
    )
)
@click.argument("error")
@form_option
def explain(error: str, form: str) -> None:
    """Tell the cause and the cure of ERROR.

    ERROR is an id such as ES-101, or the name of a class in evensplit.errors. The id stands in the last line of each
    error.
    """
    found = find(error)
    if form == "json":
        click.echo(json.dumps({name: _plainly(text) for name, text in asdict(found).items()}, indent=1))
        return
    console = Console(highlight=False)
    console.print(Text(f"{found.id} {found.name}", "bold"))
    for heading, text in (("Cause", found.cause), ("Cure", found.cure)):
        console.print(Text(f"\n{heading}: ", "bold").append(_plainly(text), ""))


def find(error: str) -> Meaning:
    """What an id (also as ES101 or 101) or a name means, in any case.

    Raises click.ClickException with what may be meant.
    """
    by_name = {name.lower(): one for one in MEANINGS for name in (one.id, one.name)}
    wanted = error.strip().rstrip(":").rpartition(".")[2].lower()
    if number := _ID.fullmatch(wanted):
        wanted = f"es-{number[1]}"
    if wanted in by_name:
        return by_name[wanted]
    raise click.ClickException(f"there is no error {plain(error)!r}; {_meant(wanted)}")


def _meant(wanted: str) -> str:
    """What is said of a word in lower case that is no error's: names are like others, of ids there are ranges."""
    if not _ID.fullmatch(wanted):
        by_name = {one.name.lower(): one for one in MEANINGS}
        close = difflib.get_close_matches(wanted, by_name, SUGGESTIONS_MAX, SIMILAR)
        if close:
            return f"did you mean {', '.join(f'{by_name[one].id} {by_name[one].name}' for one in close)}?"
        return "expected one such as ES-101 or OptionError"
    kinds = groupby(sorted(one.id for one in MEANINGS), key=lambda one: one[:-2])
    return f"there are {', '.join(_from_to(tuple(ids)) for _, ids in kinds)}"


def _from_to(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"


def _plainly(text: str) -> str:
    """Markdown without the addresses of its links."""
    return _LINK.sub(r"\1", text)
