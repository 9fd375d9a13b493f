"""The states of a split, and what is around the enumerator."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.core.machine.enumerator import TRANSITIONS
from evensplit.core.model import Lifecycle
from evensplit.enumerator import Assign, ListPartitions, ResolveStart, Revoke
from tools.pictures.drawing import WIDTH, svg, text

BOX, GAP, LEFT, TOP, ROW = 30, 4, 110, 64, 38


def states() -> str:
    """Which events take a split from where to where, by the table of the enumerator."""
    froms, tos = (None, *Lifecycle), (*Lifecycle, None)
    left, width, line = 96, (WIDTH - 112) / len(tos), 15
    events = {
        change: [event.__name__ for event, transition in TRANSITIONS.items() if change in transition.changes]
        for change in ((start, end) for start in froms for end in tos)
    }
    parts, y = [text(16, 28, "Events that take a split from a state (left) to another one (above)", "title")], 58.0
    parts += [text(left + number * width + 8, y, str(end or "(gone)")) for number, end in enumerate(tos)]
    y += 12
    for start in froms:
        height = 18 + line * max(1, *(len(events[start, end]) for end in tos))
        parts.append(f'<line class="grid" x1="16" x2="{WIDTH - 16}" y1="{y}" y2="{y}"/>')
        parts.append(text(16, y + 22, str(start or "(new)")))
        for number, end in enumerate(tos):
            parts += [
                text(left + number * width + 8, y + 21 + line * place, name, "soft")
                for place, name in enumerate(events[start, end])
            ]
        y += height
    return svg("Events that take a split from state to state", y + 8, parts)


def host() -> str:
    """Who tells what to whom, where a host drives the enumerator."""
    title, parts = "A host between the world and the enumerator", list[str]()
    rows = (
        ("clusters", "partitions, offsets", (ListPartitions, ResolveStart)),
        ("readers", "started, failed", (Assign, Revoke)),
        ("sink", "what is safe", ()),
        ("checkpoint", "decode", ()),
    )
    top, step, bottom = 64, 62, 64 + 62 * len(rows) - 22
    for x, width, name in ((290, 110, "host"), (574, 170, "enumerator")):
        parts.append(f'<rect class="b" x="{x}" y="{top}" width="{width}" height="{bottom - top}" rx="4"/>')
        parts.append(text(x + width / 2, (top + bottom) / 2, name, "in", "middle"))
    parts.append(text(659, (top + bottom) / 2 + 18, "step(state, event)", "in", "middle"))
    for number, (name, told, orders) in enumerate(rows):
        y = top + number * step
        parts.append(f'<rect class="a" x="16" y="{y}" width="100" height="40" rx="4"/>')
        parts.append(text(66, y + 24, name, "in", "middle"))
        said = ", ".join(order.__name__ for order in orders) or ("encode" if name == "checkpoint" else "")
        parts += [*_arrow(116, 290, y + 12, told), *(_arrow(290, 116, y + 36, said) if said else ())]
    parts += [*_arrow(400, 574, top + 60, "events: what happened"), *_arrow(574, 400, top + 130, "effects: what to do")]
    return svg(title, bottom + 16, [text(16, 28, title, "title"), *parts])


def _arrow(start: int, end: int, y: int, said: str) -> Iterator[str]:
    back = -7 if end > start else 7
    yield f'<polyline class="line" points="{start},{y} {end},{y}"/>'
    yield f'<polyline class="line" points="{end + back},{y - 4} {end},{y} {end + back},{y + 4}"/>'
    yield text((start + end) / 2, y - 5, said, "soft", "middle")
