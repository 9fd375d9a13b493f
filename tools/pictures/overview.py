"""What evensplit is, in one picture: clusters, one query, readers with even shares, and what is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evensplit import SplitId, assign
from tools.pictures.drawing import WIDTH, svg, text

CLUSTERS = {"eu": {"orders": 6, "clicks": 3}, "us": {"orders": 4, "refunds": 1}, "asia": {"orders": 3}}
BEFORE, READERS = ["0", "1", "2"], ["0", "1", "2", "3"]
COLOURS = {"eu": "a", "us": "b", "asia": "c"}
MORE = """<style>
.c { fill: #1a7f5a }
.card { fill: #f6f8fa; stroke: #d8dee4 }
.way { fill: none; stroke: #8c959f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.c { fill: #2f9e75 }
.card { fill: #161b22; stroke: #2a313a }
}
</style>"""
TOP, BOX, STEP = 62, 18, 22
LEFT_WIDTH, READERS_AT, READERS_WIDTH, SINKS_AT = 204, 286, 250, 610


def overview() -> str:
    """Three clusters, and four readers of which the last one has just come."""
    splits = [
        SplitId(cluster, topic, partition)
        for cluster, topics in CLUSTERS.items()
        for topic, count in topics.items()
        for partition in range(count)
    ]
    before = assign(splits, BEFORE)
    after = assign(splits, READERS, previous=before.owner)
    assert after.verify()
    moved = {split for split in splits if after.owner[split] != before.owner[split]}
    title = "Clusters, one Spark query over all of them, and readers with even shares"
    heights = [38 + 26 * len(topics) for topics in CLUSTERS.values()]
    bottom = TOP + sum(heights) + 14 * (len(heights) - 1)
    middle = (TOP + bottom) / 2
    parts = [MORE, text(16, 40, "Kafka clusters", "title"), text(READERS_AT, 40, "one Spark query", "title")]
    parts += [text(SINKS_AT, 40, "what it writes", "title")]
    y = float(TOP)
    for (cluster, topics), height in zip(CLUSTERS.items(), heights, strict=True):
        parts += _cluster(cluster, topics, y, height)
        parts.append(_way(16 + LEFT_WIDTH, y + height / 2, READERS_AT, middle))
        y += height + 14
    parts += _readers(after.owner, moved, bottom)
    for number, said in enumerate((("Kafka,", "each row once"), ("files, tables,", "your own code"))):
        at = middle - 64 + number * 76
        parts.append(_way(READERS_AT + READERS_WIDTH, middle, SINKS_AT, at + 26))
        parts.append(f'<rect class="card" x="{SINKS_AT}" y="{at:.1f}" width="134" height="52" rx="6"/>')
        parts += [text(SINKS_AT + 12, at + 22, said[0]), text(SINKS_AT + 12, at + 40, said[1], "soft")]
    *most, last = (str(after.loads[reader]) for reader in READERS)
    shares = f"{', '.join(most)} and {last}"
    parts.append(text(16, bottom + 34, f"{len(splits)} partitions, {len(READERS)} readers: {shares}."))
    parts.append(
        text(
            16,
            bottom + 54,
            f"Outlined: when reader 3 came, {len(moved)} partitions moved. No way to even shares moves fewer; that is "
            "proven each time.",
            "soft",
        )
    )
    return svg(title, bottom + 72, parts)


def _cluster(cluster: str, topics: dict[str, int], y: float, height: float) -> Iterator[str]:
    yield f'<rect class="card" x="16" y="{y:.1f}" width="{LEFT_WIDTH}" height="{height}" rx="6"/>'
    yield text(28, y + 22, f"cluster {cluster}")
    for row, (topic, count) in enumerate(topics.items()):
        at = y + 34 + 26 * row
        yield text(28, at + 13, topic, "soft")
        yield from (_tile(84 + STEP * number, at, COLOURS[cluster], number) for number in range(count))


def _readers(owner: Mapping[SplitId, object], moved: set[SplitId], bottom: float) -> Iterator[str]:
    yield (
        f'<rect class="card" x="{READERS_AT}" y="{TOP}" width="{READERS_WIDTH}" height="{bottom - TOP:.1f}" rx="6"/>'
    )
    step = (bottom - TOP - 16) / len(READERS)
    for row, reader in enumerate(READERS):
        own = sorted(split for split in owner if owner[split] == reader)
        at = TOP + 8 + step * row
        yield text(READERS_AT + 14, at + step / 2 + 4, f"reader {reader}")
        for number, split in enumerate(own):
            x, y = READERS_AT + 82 + (STEP + 8) * number, at + step / 2 - 13
            yield _tile(x, y, COLOURS[split.cluster], split.partition, 26)
            if split in moved:
                yield f'<rect class="mark" x="{x}" y="{y:.1f}" width="26" height="26" rx="3"/>'


def _tile(x: float, y: float, colour: str, number: int, box: int = BOX) -> str:
    rectangle = f'<rect class="{colour}" x="{x}" y="{y:.1f}" width="{box}" height="{box}" rx="3"/>'
    return rectangle + text(x + box / 2, y + box / 2 + 4, str(number), "in", "middle")


def _way(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f'<path class="way" d="M {x} {y:.1f} C {half} {y:.1f}, {half} {to_y:.1f}, {to_x} {to_y:.1f}"/>'


assert READERS_AT + READERS_WIDTH < SINKS_AT < WIDTH
