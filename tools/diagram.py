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

This page is made by `python -m tools.diagram docs/state-machine.md` from the table `TRANSITIONS` in
`src/evensplit/core/machine/enumerator.py`; a test holds the two together. The whole of the enumerator is
`step(state, event) -> Step(state, effects)`; what a *split* goes through in it is this:

```mermaid
stateDiagram-v2
{arrows}
```

- **unassigned**: nobody reads it. Its start is being resolved, or it waits for a reader.
- **assigned**: it has an owner, and it counts as load.
- **retained**: it is not to be read (any more), but its position is kept for a time, in case it returns.
- **finished**: it was read up to its stop, where its position stays. It is never read again.

Every known split is in exactly one of them (law S1). From outside the four it comes when it is discovered, or when a
reader reports it; out of them it goes when it is forgotten, and would then be a new one. One event can take a split two
steps at once: a split that returns is given to a reader by the same event if its start is known.

## What each event can do to a split

| event | from → to |
|---|---|
{rows}

An event that cannot happen (a batch planned backwards, a cluster that was never named, time that goes back) raises
`TransitionError` with the event, the state and the events before it, and leaves the state as it was. Events that come
late or twice are none of these: they change nothing (law S13).
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
