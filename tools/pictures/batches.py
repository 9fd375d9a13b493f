"""What batches read: in a crash, in a replay, and over the hours of a day."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evensplit import SplitId
from evensplit.core.batch.alignment import TimeSearch
from evensplit.core.batch.limits import BatchLimits, Caps, filled
from evensplit.core.batch.shares import share
from tools.pictures.drawing import DIRECTORY, WIDTH, svg, text

HOW_FAR = Path(__file__).resolve().parents[2] / "bench" / "results" / "howfar.json"
BOX, GAP, LEFT, TOP, ROW = 30, 4, 110, 64, 38


def crash() -> str:
    """The batches of the run that was recorded: a bar for what each read of each partition."""
    batches = json.loads((DIRECTORY / "crash.json").read_text())["batches"]
    splits = sorted(batches[0]["end"])
    most = max(batches[-1]["end"].values())
    scale = (WIDTH - LEFT - 60) / most
    parts = [text(16, 28, "Offsets that each batch read; outlined: killed, and read again", "title")]
    y = TOP
    for split in splits:
        parts.append(text(16, y + 18, split.partition("/")[2]))
        for batch in batches:
            start, end = batch["start"][split], batch["end"][split]
            if end > start:
                x, width = LEFT + start * scale, max(1.0, (end - start) * scale - 2)
                parts.append(f'<rect class="a" x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="3"/>')
                if batch["killed"]:
                    parts.append(f'<rect class="mark" x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="3"/>')
                if width > 16:
                    parts.append(text(x + width / 2, y + 18, str(batch["number"]), "in", "middle"))
        y += ROW
    parts += [
        text(LEFT + share * most * scale, y + 14, f"{share * most:,.0f}", "soft", "middle") for share in (0.0, 0.5, 1.0)
    ]
    parts.append(
        text(
            16, y + 40, "The number in a bar is the batch's. Bars lie side by side: nothing is missing, nothing twice."
        )
    )
    return svg("A run that was killed twice", y + 60, parts)


Replayed = Sequence[tuple[int, int]]
"""After each batch: where a watermark of 10 minutes stands, and how old the oldest record is that is still unread, in
minutes from the beginning."""


def watermarks() -> str:
    """A replay of 12 hours, without alignment and with it."""
    width, height, top = 330, 220, 92
    title = "A replay of 12 hours: the watermark, and the oldest record that is still to be read"
    parts = [text(16, 28, title, "title")]
    for number, (said, found) in enumerate((("maxOffsetsPerTrigger", replayed(None)), ("alignment=10m", replayed(10)))):
        x = 46 + number * (width + 42)
        late = sum(1 for watermark, oldest in found[:-1] if oldest < watermark)
        parts.append(text(x, top - 28, f"{said}: {f'{late} batches have late records' if late else 'nothing is late'}"))
        for hour in range(0, 13, 3):
            y = top + height - hour / 12 * height
            parts.append(f'<line class="grid" x1="{x}" x2="{x + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(text(x - 6, y + 4, f"{hour} h", "soft", "end"))
        for line, name in ((1, "line"), (0, "mark")):
            points = " ".join(
                f"{x + step * width / (len(found) - 1):.1f},{top + height - max(0, at[line]) / 720 * height:.1f}"
                for step, at in enumerate(found)
            )
            parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(text(x, top + height + 18, "batches", "soft"))
        parts.append(text(x + width, top + height + 18, str(len(found)), "soft", "end"))
    y = top + height + 48
    for x, name, said in (
        (46, "mark", "the watermark: older records are dropped"),
        (400, "line", "the oldest unread record"),
    ):
        parts.append(f'<line class="{name}" x1="{x}" x2="{x + 28}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(text(x + 36, y, said, "soft"))
    return svg(title, y + 20, parts)


def skew() -> str:
    """The largest load over the mean load in the hours of a simulated day, by three ways to choose owners."""
    width, height, left, top, least, most = 640, 220, 58, 64, 1.0, 2.5
    ways = json.loads(HOW_FAR.read_text())["skew"]["traces"]["reference"]["ways"]
    title = "The busiest reader's load over the mean load, hour by hour"
    parts = [text(16, 28, title, "title")]

    def at(ratio: float) -> float:
        return top + height - (ratio - least) / (most - least) * height

    for tick in (1.0, 1.5, 2.0, 2.5):
        parts.append(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{at(tick):.1f}" y2="{at(tick):.1f}"/>')
        parts.append(text(left - 8, at(tick) + 4, f"{tick:.1f}", "soft", "end"))
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
        parts.append(text(left + width, highest - above, said, "", "end"))
    parts.extend(
        text(left + hour * width / (hours - 1), top + height + 20, f"{hour} h", "soft", "middle")
        for hour in range(0, hours, 6)
    )
    return svg(title, top + height + 40, parts)


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
