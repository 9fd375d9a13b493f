"""Who has what: owners before and after a change, and how even policies are."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from evensplit import Assignment, SplitId, Topic, assign
from evensplit.core.policies import POLICIES
from evensplit.testing.sim import simulate
from tools.pictures.drawing import WIDTH, svg, text

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
    parts, y = [text(16, 28, title, "title")], TOP
    readers = sorted(map(str, after.loads))
    moved = {split for split, reader in after.owner.items() if before[split] != reader}
    for name, owner in (("before", before), ("after", after.owner)):
        parts.append(text(16, y, name, "soft"))
        y += 10
        for reader in readers:
            own = sorted(split for split in owner if owner[split] == reader)
            parts.append(text(LEFT - 14, y + box / 2 + 5, f"{reader}: {len(own)}", anchor="end"))
            for number, split in enumerate(own):
                x = LEFT + number * (box + GAP)
                kind = "b" if split.topic == "b" else "a"
                parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{box}" height="{box}" rx="3"/>')
                parts.append(text(x + box / 2, y + box / 2 + 4, str(split.partition), "in", "middle"))
                if name == "after" and split in moved:
                    parts.append(f'<rect class="mark" x="{x}" y="{y}" width="{box}" height="{box}" rx="3"/>')
            y += box + 8
        y += 24
    parts.append(text(16, y, f"{after.certificate.statement()}".capitalize() + "."))
    return svg(title, y + 20, parts)


def spread() -> str:
    """The largest load less the smallest, of each policy, while topics come and go at random."""
    width, height = 220, 110
    found = {policy: spreads(policy) for policy in POLICIES}
    most = max(max(values) for values in found.values())
    said = f"Largest load less smallest (0 to {most}), {READERS} readers, topics come and go"
    parts = [text(16, 28, said, "title")]
    for number, (policy, values) in enumerate(found.items()):
        x, y = 16 + (number % 3) * (width + 22), 56 + (number // 3) * (height + 60)
        parts.append(text(x, y, f"{policy}: at most {max(values)}"))
        base = y + 14 + height
        for part in (0, 1):
            at = base - part * height
            parts.append(f'<line class="grid" x1="{x}" x2="{x + width}" y1="{at}" y2="{at}"/>')
        points = " ".join(
            f"{x + step * width / STEPS:.1f},{base - value / most * height:.1f}" for step, value in enumerate(values)
        )
        parts.append(f'<polyline class="line" points="{points}"/>')
        parts.append(text(x, base + 16, "0 changes", "soft"))
        parts.append(text(x + width, base + 16, str(STEPS), "soft", "end"))
    return svg("The spread of each policy", 56 + 2 * (height + 60), parts)


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
    parts, y = [text(16, 28, title, "title")], TOP
    for heading, rows in groups:
        parts.append(text(16, y, heading, "soft"))
        y += 12
        most = max(count for _, count in rows)
        for name, count in rows:
            length = max(1.0, count / most * (WIDTH - 330 - 90))
            parts.append(text(320, y + 13, name, anchor="end"))
            parts.append(f'<rect class="bar" x="330" y="{y + 2}" width="{length:.1f}" height="14" rx="2"/>')
            parts.append(text(338 + length, y + 14, f"{count:,}", "soft"))
            y += 21
        y += 26
    return svg(title, y, parts)
