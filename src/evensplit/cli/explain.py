"""`evensplit explain`: what an error, an option, a metric, an alert or a command means, by its id or name."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
import yaml
from rich.text import Text

from evensplit.cli.subjects import COMMAND_WORDS, REPAIR_PAGE, REPAIRING, SUBJECTS
from evensplit.cli.usage import ending, form_option, new_console
from evensplit.core.text import plain
from evensplit.errors import BY_ID
from evensplit.kafka.options.option import Option
from evensplit.observe import files
from evensplit.spark.options.hints import CLIENT_OPTIONS, meaning_of
from evensplit.spark.options.spec.all import BY_NAME, DECLARED, notes
from evensplit.spark.options.spec.sink import SINK_BY_NAME, SINK_DECLARED

if TYPE_CHECKING:
    from evensplit.observe.metric import Metric

SUGGESTIONS_MAX = 3
SIMILAR = 0.6
"""How much alike two words are, from 0 to 1, for one to be meant with the other."""

TITLE = ("id", "name", "option", "metric", "alert", "command", "subject")
"""What stands in the first line of what is found; the rest has a heading each."""

PAGES = "docs/reference"
"""From where the links of errors and options are."""

_ID = re.compile(r"(?:es-?)?(\d+)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@click.command(
    epilog=ending(
        "the meaning was printed",
        "unknown error or option",
        "evensplit explain ES-101",
        "evensplit explain startingOffsets",
        "evensplit explain OptionError --format json",
        "evensplit explain EvensplitSilent",
        "evensplit explain poison record",
    )
)
@click.argument("name", nargs=-1, required=True)
@form_option
@click.pass_context
def explain(context: click.Context, name: tuple[str, ...], form: str) -> None:
    """Print what an error, an option, a metric or an alert means.

    For an error, these are its cause and its cure. NAME is the id in the last line of an error, or its class in
    evensplit.errors. Otherwise NAME is an option of format("evensplit"); for an option of another Kafka source or
    client, the command names the one to use here. The name of a command, or what people search for, such as lag or
    poison record, leads to the command and its page.
    """
    asked = " ".join(name)
    found = {heading: _plainly(text) for heading, text in find(asked, context.find_root().command).items()}
    if form == "json":
        click.echo(json.dumps(found, indent=1))
        return
    console = new_console(highlight=False)
    console.print(Text(" ".join(found[part] for part in TITLE if part in found), "bold"))
    for heading, text in found.items():
        if heading not in TITLE:
            console.print(Text(f"\n{heading.capitalize()}: ", "bold").append(text, ""))


def find(name: str, among: click.Command | None = None) -> Mapping[str, str]:
    """What an id (also as ES101 or 101), a name in any case, or a word means: Markdown by heading.

    `among`: the group whose commands may be meant, too.

    Raises click.ClickException with what may be meant.
    """
    whole = name.strip().rstrip(":").lower()
    wanted = whole.rpartition(".")[2]
    if number := _ID.fullmatch(wanted):
        wanted = f"es-{number[1]}"
    for error in BY_ID.values():
        if wanted in (error.id.lower(), error.__name__.lower()):
            return {"id": error.id, "name": error.__name__, "cause": error.cause, "cure": error.cure}
    option, of_writing = BY_NAME.get(whole), SINK_BY_NAME.get(whole)
    if option is not None:
        return {**_option(option, DECLARED), **_writing(option, of_writing)}
    if of_writing is not None:
        return _option(of_writing, SINK_DECLARED)
    if known := meaning_of(whole):
        return {"option": known[0], "meaning": known[1]}
    if own := next((one for one in BY_NAME.values() if _is_one_of_many(whole, one)), None):
        return _option(own, DECLARED)
    if watched := _watched(whole):
        return watched
    if isinstance(among, click.Group):
        context = click.Context(among)
        asked = COMMAND_WORDS.get(whole, (whole,))
        if commands := {one: command for one in asked if (command := among.get_command(context, one)) is not None}:
            return _commands(commands)
    if subject := SUBJECTS.get(whole):
        return {"subject": subject.title, "meaning": subject.meaning, "more": f"[this page]({subject.page})."}
    raise click.ClickException(_unknown(name, whole, among))


def _watched(whole: str) -> Mapping[str, str]:
    """A metric or an alert of that name in lower case; nothing if there is none."""
    for metric in _metrics():
        if metric.name == whole:
            labels = {"labels": ", ".join(metric.labels)} if metric.labels else {}
            return {"metric": metric.name, "type": metric.kind, **labels, "meaning": metric.help}
    rule = next((rule for rule in _alerts() if rule["alert"].lower() == whole), None)
    if rule is None:
        return {}
    lasting = f" for {rule['for']}" if "for" in rule else ""
    return {
        "alert": rule["alert"],
        "meaning": rule["annotations"]["description"],
        "fires": f"when `{rule['expr']}`{lasting}",
        "more": f"[all alerts](metrics.md#{whole}).",
    }


def _metrics() -> Sequence[Metric]:
    # They take as long to load as all else here, and most names are found before.
    from evensplit.observe.metrics import METRICS

    return METRICS


def _alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(files()["alerts.yml"])["groups"] for rule in group["rules"]]


def _commands(found: Mapping[str, click.Command]) -> Mapping[str, str]:
    """What the commands do, and the page about them."""
    names = list(found)
    said = [f"`evensplit {name}`: {(one.help or '').strip().splitlines()[0]}" for name, one in found.items()]
    title = f"evensplit {names[0]}" if len(names) == 1 else "evensplit"
    page = REPAIR_PAGE if REPAIRING.issuperset(names) else f"commands.md#evensplit-{names[0]}"
    more = f"{f'`evensplit {names[0]} --help`' if len(names) == 1 else 'their `--help`'} and [this page]({page})"
    return {"command": title, "meaning": " ".join(said), "more": f"{more}."}


def _is_one_of_many(whole: str, option: Option) -> bool:
    """Whether that is one of the names that, as in metadata.<name>, stand in the list as one."""
    prefix, placeholder, _ = option.name.lower().partition("<name>")
    return bool(placeholder) and whole.startswith(prefix) and whole != prefix


def _writing(option: Option, of_writing: Option | None) -> Mapping[str, str]:
    """What the option means where it is given to what writes, if that is something else."""
    if of_writing is None or of_writing is option:
        return {}
    return {"when writing": f"{of_writing.meaning} Default: {of_writing.default_shown}."}


def _option(option: Option, among: Iterable[Option]) -> Mapping[str, str]:
    return {
        "option": option.name,
        "type": option.type.expected,
        "default": option.default_shown,
        "where": ", ".join(option.places),
        "since": option.since,
        "meaning": " ".join((option.meaning, *notes(option, among))),
        "example": option.example,
    }


def _unknown(name: str, whole: str, among: click.Command | None) -> str:
    """What is said of what is nothing; `whole`: in lower case. Names are like others, of ids there are ranges."""
    if _ID.fullmatch(whole):
        kinds = groupby(BY_ID, key=lambda error_id: error_id[:-2])
        ranges = (" to ".join(dict.fromkeys((ids[0], ids[-1]))) for _, found in kinds for ids in [list(found)])
        return f"there is no error {plain(name)!r}; there are {', '.join(ranges)}"
    said = f"there is no error, option, metric, alert or command {plain(name)!r}"
    close = _nearest(whole, among)
    if not close:
        return f"{said}; expected an error such as ES-101 or OptionError, or an option such as subscribe"
    return f"{said}; did you mean {' or '.join(close)}?"


def _nearest(whole: str, among: click.Command | None) -> list[str]:
    """The errors, options, metrics, alerts, commands and subjects whose names are most like it, the closest first."""
    of_error = whole.rpartition(".")[2]
    alike = {f"{error_id} {error.__name__}": _likeness(of_error, error.__name__) for error_id, error in BY_ID.items()}
    named = (*CLIENT_OPTIONS, *(one.name for one in BY_NAME.values()), *(one.name for one in _metrics()))
    named = (*named, *(rule["alert"] for rule in _alerts()))
    commands = among.list_commands(click.Context(among)) if isinstance(among, click.Group) else ()
    alike |= {name: _likeness(whole, name) for name in (*named, *commands)}
    # Of several words for one thing, the closest is enough.
    best: dict[object, tuple[float, str]] = {}
    for word, of in (*SUBJECTS.items(), *COMMAND_WORDS.items()):
        best[of] = max(best.get(of, (0.0, "")), (_likeness(whole, word), word))
    alike |= {word: how for how, word in best.values()}
    close = sorted((shown for shown, how in alike.items() if how >= SIMILAR), key=lambda shown: (-alike[shown], shown))
    return close[:SUGGESTIONS_MAX]


def _likeness(typed: str, name: str) -> float:
    return SequenceMatcher(None, typed, name.lower()).ratio()


def _plainly(text: str) -> str:
    """Markdown, with the page behind the words of each link, as it is called in the repository."""
    return _LINK.sub(lambda link: f"{link[1]} ({posixpath.normpath(posixpath.join(PAGES, link[2]))})", text)
