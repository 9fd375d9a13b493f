"""`evensplit explain`: what an error means, and what to do about it, by its id."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import asdict

import click
from rich.console import Console
from rich.text import Text

from evensplit.cli.usage import ending, form_option
from evensplit.core.words import plain
from evensplit.error_table import MEANINGS, Meaning

SUGGESTIONS_MAX = 5
SIMILAR = 0.5
"""How much alike two words are, from 0 to 1, for one to be meant with the other."""

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
    """What an id or a name means, in upper or lower case. Raises click.ClickException with what may be meant."""
    by_name = {name.lower(): one for one in MEANINGS for name in (one.id, one.name)}
    wanted = error.strip().rstrip(":").rpartition(".")[2].lower()
    if wanted in by_name:
        return by_name[wanted]
    close = difflib.get_close_matches(wanted, by_name, SUGGESTIONS_MAX, SIMILAR)
    named = dict.fromkeys(f"{by_name[one].id} {by_name[one].name}" for one in close)
    expected = f"did you mean {', '.join(named)}?" if named else "expected one such as ES-101 or OptionError"
    raise click.ClickException(f"there is no error {plain(error)!r}; {expected}")


def _plainly(text: str) -> str:
    """Markdown without the addresses of its links."""
    return _LINK.sub(r"\1", text)
