"""Writes the page about the enumerator's state machine: `python -m tools.diagram docs/state-machine.md`.

The diagram and the table on it are made from `TRANSITIONS` of `evensplit.core.machine.enumerator`: they show what the
code does.
With `--check`, nothing is written, and the exit code says whether the file is what would be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evensplit.core.machine.enumerator import TRANSITIONS, Change
from evensplit.core.model import Lifecycle

PAGE = """\
# The enumerator as a state machine

This page shows which event can bring a partition from which stage to which. Read it before you change the enumerator,
the part of the core that decides which partitions there are, how far they are read and by which reader. All of it is
one function, `step(state, event) -> Step(state, effects)`. It calls a partition of a cluster a *split*.

`python -m tools.diagram docs/state-machine.md` makes this page from the table `TRANSITIONS` in
`src/evensplit/core/machine/enumerator.py`, and a test compares the two.

```mermaid
stateDiagram-v2
{arrows}
```

| stage | meaning |
|---|---|
| unassigned | It has no owner: its start is being looked up, no reader has registered yet, or none may read it |
| assigned | It has an owner, and counts as load of that reader |
| retained | It was removed and is not read; its position is kept for `removedRetention`, in case it returns |
| finished | It was read up to its stop. Its position stays there, and it is never read again |

A known split is in exactly one of these four stages (law S1). A split becomes known when it is discovered, or when a
reader reports it. It is forgotten when it was removed and `removedRetention` is over; if it returns later, it counts
as new. One event can take a split through two stages: if the start of a returning split is known, the event that
brings it back also assigns it.

## What each event can change

| event | from → to |
|---|---|
{rows}

(new): not known before the event. (gone): forgotten by it. In the diagram, both are a dot.

An impossible event (a batch that is planned backwards, a cluster that was never named, time that goes back) raises
`TransitionError` with the event, the state and the events before it, and leaves the state unchanged. Events that come
late or twice are possible, and change nothing (law S13). [Architecture](architecture.md) has the modules with the
handlers, and [The laws](explanation/laws.md) has S1 to S21.
"""

OUTSIDE = "[*]"


def page() -> str:
    """The text of the page."""
    return PAGE.format(arrows="\n".join(arrows()), rows="\n".join(rows()))


def arrows() -> list[str]:
    """One line for each change, with the events that make it."""
    events: dict[Change, list[str]] = {}
    for event, transition in TRANSITIONS.items():
        for change in transition.changes:
            events.setdefault(change, []).append(event.__name__)
    order = (None, *Lifecycle)
    return [
        f"    {_name(start)} --> {_name(end)} : {'<br/>'.join(events[start, end])}"
        for start in order
        for end in order
        if (start, end) in events
    ]


def rows() -> list[str]:
    """One line for each event, with the changes that it makes."""
    return [
        f"| `{event.__name__}` | "
        + (
            "<br/>".join(f"{_word(start, 'new')} → {_word(end, 'gone')}" for start, end in transition.changes)
            or "nothing"
        )
        + " |"
        for event, transition in TRANSITIONS.items()
    ]


def _name(where: Lifecycle | None) -> str:
    return OUTSIDE if where is None else str(where)


def _word(where: Lifecycle | None, outside: str) -> str:
    return f"({outside})" if where is None else str(where)


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m tools.diagram", description=__doc__)
    parser.add_argument("file", type=Path, help="where the page is")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    given = parser.parse_args(arguments)
    file: Path = given.file
    if given.check:
        if file.is_file() and file.read_text() == page():
            return 0
        print(f"{file} is not what the table gives; run: python -m tools.diagram {file}", file=sys.stderr)
        return 1
    file.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
