"""What an edit comes to, as a table."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from evensplit.cli.usage import cell
from evensplit.core.repair.proof import Consequence
from evensplit.core.text import counted, plain

ROWS_MAX = 40
"""With more partitions than this, the table has a row for each topic."""


def table(found: tuple[Consequence, ...], batch: int) -> Table:
    """A row for each partition or, where there are many, for each topic, without the columns in which nothing is.

    `batch`: the one that the edit goes into. Where it is planned, the query is not as far as its end yet.
    """
    made = Table(box=SIMPLE)
    made.add_column("partition", overflow="fold")
    columns = (f"next after batch {batch}", "becomes", "read again", "never read", "read now")
    shown = [True, True, *(any(getattr(one, name) for one in found) for name in ("again", "never", "now"))]
    for name, is_shown in zip(columns, shown, strict=True):
        if is_shown:
            made.add_column(name, justify="right", no_wrap=True)
    for name, values in _rows(found):
        cells = [value for value, is_shown in zip(values, shown, strict=True) if is_shown]
        made.add_row(Text(plain(name)), *(Text("forgotten") if value == "" else cell(value) for value in cells))
    return made


def _rows(found: tuple[Consequence, ...]) -> list[tuple[str, list[int | str]]]:
    """The cells of each partition or, where there are many, of each topic."""
    if len(found) <= ROWS_MAX:
        return [
            (str(one.split), [one.before, "" if one.after is None else one.after, one.again, one.never, one.now])
            for one in found
        ]
    topics: dict[str, list[Consequence]] = {}
    for one in found:
        topics.setdefault(f"{one.split.cluster}/{one.split.topic}", []).append(one)
    return [
        (
            f"{topic}: {counted(len(ones), 'partition')}",
            [
                sum(one.before for one in ones),
                "" if ones[0].after is None else sum(one.after or 0 for one in ones),
                *(sum(getattr(one, name) for one in ones) for name in ("again", "never", "now")),
            ],
        )
        for topic, ones in topics.items()
    ]
