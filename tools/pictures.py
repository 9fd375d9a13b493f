"""Draws the pictures of the documentation: `python -m tools.pictures` writes them into docs/pictures.

Each is drawn from what the code really does: assignments and a simulated run are computed here, crash.json was recorded
by `tools.record_crash`, and the figures of skew are those of `bench.howfar.skew`. With `--check`, nothing is written,
and the exit code says whether they are up to date.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from random import Random

from evensplit import Assignment, SplitId, Topic, assign
from evensplit.core.batch.alignment import TimeSearch
from evensplit.core.batch.limits import BatchLimits, Caps, filled
from evensplit.core.batch.shares import share
from evensplit.core.machine.enumerator import TRANSITIONS
from evensplit.core.model import Lifecycle
from evensplit.core.policies import POLICIES
from evensplit.enumerator import Assign, ListPartitions, ResolveStart, Revoke
from evensplit.testing.sim import simulate
from tools import made

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "pictures"
HOW_FAR = Path(__file__).resolve().parents[1] / "bench" / "results" / "howfar.json"
WIDTH = 760
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
STYLE = f"""\
text {{ font: 13px {FONT}; fill: #1f2328 }}
.title {{ font-size: 15px; font-weight: 600 }}
.soft {{ fill: #656d76; font-size: 12px }}
.in {{ fill: #ffffff; font-size: 11px }}
.page {{ fill: #ffffff }}
.grid {{ stroke: #d8dee4; stroke-width: 1 }}
.a {{ fill: #1769aa }}
.b {{ fill: #6b5b95 }}
.bar {{ fill: #1769aa }}
.line {{ fill: none; stroke: #1769aa; stroke-width: 1.5 }}
.mark {{ fill: none; stroke: #cf6a17; stroke-width: 3 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }}
.soft {{ fill: #9198a1 }}
.in {{ fill: #ffffff }}
.page {{ fill: #0d1117 }}
.grid {{ stroke: #2a313a }}
.a {{ fill: #2f81c4 }}
.b {{ fill: #8f7cc0 }}
.bar {{ fill: #4aa3e8 }}
.line {{ stroke: #4aa3e8 }}
.mark {{ stroke: #f0954a }}
}}"""
BOX, GAP, LEFT, TOP, ROW = 30, 4, 110, 64, 38

STEPS, READERS, SEED = 400, 8, 7


def owners() -> str:
    """A fourth reader joins three."""
    splits = [SplitId("eu", "orders", partition) for partition in range(12)]
    before = assign(splits, ["r0", "r1", "r2"])
    after = assign(splits, ["r0", "r1", "r2", "r3"], previous=before.owner)
    return _assignments("A fourth reader joins: outlined is what moved", before.owner, after)


def chain() -> str:
    """Nine, ten and eleven of a chain of readers become ten each."""
    a = [SplitId("eu", "a", partition) for partition in range(14)]
    b = [SplitId("eu", "b", partition) for partition in range(16)]
    previous = dict.fromkeys(a[:9], "m1") | dict.fromkeys((*a[9:], *b[:5]), "m2")
    previous |= dict.fromkeys(b[5:], "m3")
    may_read = {"m1": [Topic("eu", "a")], "m2": [Topic("eu", "a"), Topic("eu", "b")], "m3": [Topic("eu", "b")]}
    after = assign([*a, *b], ["m1", "m2", "m3"], previous=previous, eligible=may_read)
    return _assignments("m1 may read a, m2 both, m3 b: outlined is what moved", previous, after, box=22)


def _assignments(title: str, before: Mapping[SplitId, object], after: Assignment, box: int = BOX) -> str:
    assert after.verify()
    parts, y = [_text(16, 28, title, "title")], TOP
    readers = sorted(map(str, after.loads))
    moved = {split for split, reader in after.owner.items() if before[split] != reader}
    for name, owner in (("before", before), ("after", after.owner)):
        parts.append(_text(16, y, name, "soft"))
        y += 10
        for reader in readers:
            own = sorted(split for split in owner if owner[split] == reader)
            parts.append(_text(LEFT - 14, y + box / 2 + 5, f"{reader}: {len(own)}", anchor="end"))
            for number, split in enumerate(own):
                x = LEFT + number * (box + GAP)
                kind = "b" if split.topic == "b" else "a"
                parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{box}" height="{box}" rx="3"/>')
                parts.append(_text(x + box / 2, y + box / 2 + 4, str(split.partition), "in", "middle"))
                if name == "after" and split in moved:
                    parts.append(f'<rect class="mark" x="{x}" y="{y}" width="{box}" height="{box}" rx="3"/>')
            y += box + 8
        y += 24
    parts.append(_text(16, y, f"{after.certificate.statement()}".capitalize() + "."))
    return _svg(title, y + 20, parts)


def spread() -> str:
    """The largest load less the smallest, of each policy, while topics come and go at random."""
    width, height = 220, 110
    found = {policy: spreads(policy) for policy in POLICIES}
    most = max(max(values) for values in found.values())
    said = f"Largest load less smallest (0 to {most}), {READERS} readers, topics come and go"
    parts = [_text(16, 28, said, "title")]
    for number, (policy, values) in enumerate(found.items()):
        x, y = 16 + (number % 3) * (width + 22), 56 + (number // 3) * (height + 60)
        parts.append(_text(x, y, f"{policy}: at most {max(values)}"))
        base = y + 14 + height
        for part in (0, 1):
            at = base - part * height
            parts.append(f'<line class="grid" x1="{x}" x2="{x + width}" y1="{at}" y2="{at}"/>')
        points = " ".join(
            f"{x + step * width / STEPS:.1f},{base - value / most * height:.1f}" for step, value in enumerate(values)
        )
        parts.append(f'<polyline class="line" points="{points}"/>')
        parts.append(_text(x, base + 16, "0 changes", "soft"))
        parts.append(_text(x + width, base + 16, str(STEPS), "soft", "end"))
    return _svg("The spread of each policy", 56 + 2 * (height + 60), parts)


def spreads(policy: str) -> list[int]:
    """The spread after each of so many random changes, which are the same for every policy."""
    random = Random(SEED)
    topics: dict[str, int] = {}
    owner: Mapping[SplitId, str | int] = {}
    values = []
    for step in range(STEPS):
        if len(topics) > 12 and random.random() < 0.5:
            topics.pop(random.choice(sorted(topics)))
        else:
            topics[f"topic-{step}"] = random.randint(1, 6)
        splits = [
            SplitId("eu", name, partition) for name, count in sorted(topics.items()) for partition in range(count)
        ]
        result = assign(
            splits, READERS, previous={split: owner[split] for split in splits if split in owner}, policy=policy
        )
        owner = result.owner
        values.append(max(result.loads.values()) - min(result.loads.values()))
    return values


def simulation() -> str:
    """What one simulated run did."""
    report = simulate(SEED)
    groups = (
        ("Events that the enumerator was told", sorted(report.kinds.items(), key=lambda one: (-one[1], one[0]))),
        ("How often laws were checked", sorted(report.checks.items(), key=lambda one: (-one[1], one[0]))),
    )
    title = f"evensplit simulate --seed {SEED}: {report.batches} batches, {report.sessions} starts of the driver"
    parts, y = [_text(16, 28, title, "title")], TOP
    for heading, rows in groups:
        parts.append(_text(16, y, heading, "soft"))
        y += 12
        most = max(count for _, count in rows)
        for name, count in rows:
            length = max(1.0, count / most * (WIDTH - 330 - 90))
            parts.append(_text(320, y + 13, name, anchor="end"))
            parts.append(f'<rect class="bar" x="330" y="{y + 2}" width="{length:.1f}" height="14" rx="2"/>')
            parts.append(_text(338 + length, y + 14, f"{count:,}", "soft"))
            y += 21
        y += 26
    return _svg(title, y, parts)


def crash() -> str:
    """The batches of the run that was recorded: a bar for what each read of each partition."""
    batches = json.loads((DIRECTORY / "crash.json").read_text())["batches"]
    splits = sorted(batches[0]["end"])
    most = max(batches[-1]["end"].values())
    scale = (WIDTH - LEFT - 60) / most
    parts = [_text(16, 28, "Offsets that each batch read; outlined: killed, and read again", "title")]
    y = TOP
    for split in splits:
        parts.append(_text(16, y + 18, split.partition("/")[2]))
        for batch in batches:
            start, end = batch["start"][split], batch["end"][split]
            if end > start:
                x, width = LEFT + start * scale, max(1.0, (end - start) * scale - 2)
                parts.append(f'<rect class="a" x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="3"/>')
                if batch["killed"]:
                    parts.append(f'<rect class="mark" x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="3"/>')
                if width > 16:
                    parts.append(_text(x + width / 2, y + 18, str(batch["number"]), "in", "middle"))
        y += ROW
    parts += [
        _text(LEFT + share * most * scale, y + 14, f"{share * most:,.0f}", "soft", "middle")
        for share in (0.0, 0.5, 1.0)
    ]
    parts.append(
        _text(
            16, y + 40, "The number in a bar is the batch's. Bars lie side by side: nothing is missing, nothing twice."
        )
    )
    return _svg("A run that was killed twice", y + 60, parts)


def states() -> str:
    """Which events take a split from where to where, by the table of the enumerator."""
    froms, tos = (None, *Lifecycle), (*Lifecycle, None)
    left, width, line = 96, (WIDTH - 112) / len(tos), 15
    events = {
        change: [event.__name__ for event, transition in TRANSITIONS.items() if change in transition.changes]
        for change in ((start, end) for start in froms for end in tos)
    }
    parts, y = [_text(16, 28, "Events that take a split from a state (left) to another one (above)", "title")], 58.0
    parts += [_text(left + number * width + 8, y, str(end or "(gone)")) for number, end in enumerate(tos)]
    y += 12
    for start in froms:
        height = 18 + line * max(1, *(len(events[start, end]) for end in tos))
        parts.append(f'<line class="grid" x1="16" x2="{WIDTH - 16}" y1="{y}" y2="{y}"/>')
        parts.append(_text(16, y + 22, str(start or "(new)")))
        for number, end in enumerate(tos):
            parts += [
                _text(left + number * width + 8, y + 21 + line * place, name, "soft")
                for place, name in enumerate(events[start, end])
            ]
        y += height
    return _svg("Events that take a split from state to state", y + 8, parts)


Replayed = Sequence[tuple[int, int]]
"""After each batch: where a watermark of 10 minutes stands, and how old the oldest record is that is still unread, in
minutes from the beginning."""


def watermarks() -> str:
    """A replay of 12 hours, without alignment and with it."""
    width, height, top = 330, 220, 92
    title = "A replay of 12 hours: the watermark, and the oldest record that is still to be read"
    parts = [_text(16, 28, title, "title")]
    for number, (said, found) in enumerate((("maxOffsetsPerTrigger", replayed(None)), ("alignment=10m", replayed(10)))):
        x = 46 + number * (width + 42)
        late = sum(1 for watermark, oldest in found[:-1] if oldest < watermark)
        parts.append(
            _text(x, top - 28, f"{said}: {f'{late} batches have late records' if late else 'nothing is late'}")
        )
        for hour in range(0, 13, 3):
            y = top + height - hour / 12 * height
            parts.append(f'<line class="grid" x1="{x}" x2="{x + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(x - 6, y + 4, f"{hour} h", "soft", "end"))
        for line, name in ((1, "line"), (0, "mark")):
            points = " ".join(
                f"{x + step * width / (len(found) - 1):.1f},{top + height - max(0, at[line]) / 720 * height:.1f}"
                for step, at in enumerate(found)
            )
            parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(_text(x, top + height + 18, "batches", "soft"))
        parts.append(_text(x + width, top + height + 18, str(len(found)), "soft", "end"))
    y = top + height + 48
    for x, name, said in (
        (46, "mark", "the watermark: older records are dropped"),
        (400, "line", "the oldest unread record"),
    ):
        parts.append(f'<line class="{name}" x1="{x}" x2="{x + 28}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(_text(x + 36, y, said, "soft"))
    return _svg(title, y + 20, parts)


def skew() -> str:
    """The largest load over the mean load in the hours of a simulated day, by three ways to choose owners."""
    width, height, left, top, least, most = 640, 220, 58, 64, 1.0, 2.5
    ways = json.loads(HOW_FAR.read_text())["skew"]["traces"]["reference"]["ways"]
    title = "The busiest reader's load over the mean load, hour by hour"
    parts = [_text(16, 28, title, "title")]

    def at(ratio: float) -> float:
        return top + height - (ratio - least) / (most - least) * height

    for tick in (1.0, 1.5, 2.0, 2.5):
        parts.append(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{at(tick):.1f}" y2="{at(tick):.1f}"/>')
        parts.append(_text(left - 8, at(tick) + 4, f"{tick:.1f}", "soft", "end"))
    hours = len(ways["rate"]["ratio_by_hour"])
    for way, name, said, above in (
        ("hash", "line", "hash: the formula of Flink's KafkaSource", 8),
        ("count", "line", "counts, and Flink's counter", -32),
        ("rate", "mark", "balance=rate", 10),
    ):
        points = [(left + hour * width / (hours - 1), at(one)) for hour, one in enumerate(ways[way]["ratio_by_hour"])]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="{name}" points="{drawn}"/>')
        highest = min(y for x, y in points if x > left + width - 8 * len(said))
        parts.append(_text(left + width, highest - above, said, "", "end"))
    parts.extend(
        _text(left + hour * width / (hours - 1), top + height + 20, f"{hour} h", "soft", "middle")
        for hour in range(0, hours, 6)
    )
    return _svg(title, top + height + 40, parts)


def replayed(ahead: int | None) -> Replayed:
    """Read four partitions in batches of 100, with records at other hours each. `ahead`: minutes; None: not aligned."""
    hours = ([40] * 12, [120] * 3 + [2] * 9, [2] * 9 + [120] * 3, [3] * 12)
    logs = {
        SplitId("eu", "orders", place): [
            60 * hour + 60 * one // count for hour, count in enumerate(counts) for one in range(count)
        ]
        for place, counts in enumerate(hours)
    }
    positions, latest = dict.fromkeys(logs, 0), {key: len(times) for key, times in logs.items()}
    limits, newest, reached, found = BatchLimits(offsets=Caps(100)), 0, 0, list[tuple[int, int]]()
    while positions != latest:
        ends = share(positions, latest, limits).ends
        if ahead is not None:
            search = TimeSearch(
                positions,
                latest,
                busy=(),
                reached_ms=reached,
                ahead_ms=ahead,
                now_ms=720,
                future_ms=1 << 60,
                filled=_filling(positions, limits),
            )
            while (at := search.next_ms) is not None:
                places = {key: bisect_left(logs[key], at) for key in search.asked}
                search.take(
                    at, {key: (one, logs[key][one]) if one < latest[key] else (-1, -1) for key, one in places.items()}
                )
            reached = search.cut.reached_ms or 0
            ends = share(positions, search.cut.at_most, limits, at_least=search.cut.at_least).ends
        newest = max([newest, *(logs[key][end - 1] for key, end in ends.items())])
        positions = {**positions, **ends}
        unread = [logs[key][position] for key, position in positions.items() if position < latest[key]]
        found.append((newest - 10, min(unread, default=720)))
    return found


def _filling(positions: Mapping[SplitId, int], limits: BatchLimits) -> Callable[[Mapping[SplitId, int]], float]:
    return lambda ends: filled(positions, ends, limits)


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
        parts.append(_text(x + width / 2, (top + bottom) / 2, name, "in", "middle"))
    parts.append(_text(659, (top + bottom) / 2 + 18, "step(state, event)", "in", "middle"))
    for number, (name, told, orders) in enumerate(rows):
        y = top + number * step
        parts.append(f'<rect class="a" x="16" y="{y}" width="100" height="40" rx="4"/>')
        parts.append(_text(66, y + 24, name, "in", "middle"))
        said = ", ".join(order.__name__ for order in orders) or ("encode" if name == "checkpoint" else "")
        parts += [*_arrow(116, 290, y + 12, told), *(_arrow(290, 116, y + 36, said) if said else ())]
    parts += [*_arrow(400, 574, top + 60, "events: what happened"), *_arrow(574, 400, top + 130, "effects: what to do")]
    return _svg(title, bottom + 16, [_text(16, 28, title, "title"), *parts])


def _arrow(start: int, end: int, y: int, said: str) -> Iterator[str]:
    back = -7 if end > start else 7
    yield f'<polyline class="line" points="{start},{y} {end},{y}"/>'
    yield f'<polyline class="line" points="{end + back},{y - 4} {end},{y} {end + back},{y + 4}"/>'
    yield _text((start + end) / 2, y - 5, said, "soft", "middle")


def _svg(label: str, height: float, parts: Iterable[str]) -> str:
    return "\n".join(_lines(label, round(height), parts)) + "\n"


def _lines(label: str, height: int, parts: Iterable[str]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(label)}">'
    )
    yield f"<style>\n{STYLE}\n</style>"
    yield f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    yield from parts
    yield "</svg>"


def _text(x: float, y: float, text: str, name: str = "", anchor: str = "start") -> str:
    style = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


PICTURES: Mapping[str, Callable[[], str]] = {
    "owners.svg": owners,
    "chain.svg": chain,
    "spread.svg": spread,
    "simulation.svg": simulation,
    "crash.svg": crash,
    "states.svg": states,
    "watermarks.svg": watermarks,
    "skew.svg": skew,
    "host.svg": host,
}


def stale(names: Sequence[str] = tuple(PICTURES)) -> list[str]:
    """The pictures that are not what would be drawn."""
    return made.stale(DIRECTORY, {name: PICTURES[name] for name in names})


def main(arguments: list[str]) -> int:
    """Draw the pictures, or check them."""
    return made.main("tools.pictures", __doc__, DIRECTORY, PICTURES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
