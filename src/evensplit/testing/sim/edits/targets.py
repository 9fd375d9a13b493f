"""Where to go back to: each way that `evensplit rewind --to` has, as a command finds it, and by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from evensplit.core.model import Cluster, Readable, SplitId, Topic, scopes
from evensplit.core.repair import places
from evensplit.core.state.offset_strategies import (
    Ago,
    AtTime,
    Bounds,
    Earliest,
    Found,
    Strategy,
    TopicPartition,
    lookups,
    resolve,
)
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.checkpoints import Entry
from evensplit.testing.sim.edits.truth import Opened, began
from evensplit.testing.sim.world import Log, World, first_from, record_ms


@dataclass(frozen=True, slots=True)
class Where:
    """One place to go back to."""

    said: str
    only: tuple[Readable, ...]
    asked: Callable[[Sequence[SplitId]], Mapping[SplitId, int]]
    """What a command finds for the splits that it may rewind."""
    targets: Mapping[SplitId, int]
    """What that has to be, whether a split goes back by it or not."""


def ways(opened: Opened, entries: Sequence[Entry], world: World, random: Random) -> list[Where]:
    """One place of each kind, at random."""
    model = opened.last.model
    keys = [key for key in sorted(model.marks) if opened.is_read(key)]
    if not keys:
        return [Where("--to {}", (), lambda _: {}, {})]
    key = random.choice(keys)
    only: tuple[Readable, ...] = random.choice(((), (Cluster(key.cluster),), (Topic(key.cluster, key.topic),), (key,)))
    meant = [one for one in keys if not only or any(scope in scopes(one) for scope in only)]
    by_offset = {one: random.randint(0, model.marks[one] + 2) for one in meant if random.random() < 0.7}
    found = [
        Where(f"--to offsets of {len(by_offset)}", only, lambda _: by_offset, by_offset),
        _of_batch(only, meant, entries, world, random),
    ]
    # A command that is not answered says which it would have to leave out, and writes nothing.
    logs = {one: log for one in meant if (log := world.log(one)) is not None}
    if logs:
        found += _by_logs(logs, random)
    return found


def _of_batch(
    only: tuple[Readable, ...], meant: Sequence[SplitId], entries: Sequence[Entry], world: World, random: Random
) -> Where:
    numbers = [entry.number + 1 for entry in entries]
    number = random.choice([*([0] if entries[0].number == 0 else []), *numbers])
    ends: Mapping[int, EnumeratorState] = {entry.number: entry.state for entry in entries}
    targets = {key: at for key, at in began(number, entries, world).items() if key in meant}
    return Where(f"--to batch:{number}", only, lambda wanted: places.targets_of_batch(number, ends, wanted), targets)


def _by_logs(logs: Mapping[SplitId, Log], random: Random) -> Iterable[Where]:
    """By times and beginnings, as clusters say them."""
    now_ms = max(record_ms(key, log.end) for key, log in logs.items())
    ago_ms = random.randint(1, now_ms)
    only = tuple(logs)
    strategies: tuple[tuple[str, Strategy, int | None], ...] = (
        ("earliest", Earliest(), None),
        (f"{ago_ms}ms", Ago(ago_ms), max(0, now_ms - ago_ms)),
        (f"{now_ms // 2}", AtTime(now_ms // 2, "latest"), now_ms // 2),
    )
    for said, strategy, at_ms in strategies:
        targets = {key: log.start if at_ms is None else _at(key, log, at_ms) for key, log in logs.items()}

        def asked(wanted: Sequence[SplitId], strategy: Strategy = strategy) -> Mapping[SplitId, int]:
            return _resolved(strategy, {key: logs[key] for key in wanted}, now_ms)

        yield Where(f"--to {said}", only, asked, targets)


def _at(key: SplitId, log: Log, at_ms: int) -> int:
    first = first_from(key, log, at_ms)
    return log.end if first < 0 else first


def _resolved(strategy: Strategy, logs: Mapping[SplitId, Log], now_ms: int) -> Mapping[SplitId, int]:
    """As a command has it from each cluster."""
    found: dict[SplitId, int] = {}
    for cluster in dict.fromkeys(key.cluster for key in logs):
        own: Mapping[TopicPartition, tuple[SplitId, Log]] = {
            (key.topic, key.partition): (key, log) for key, log in logs.items() if key.cluster == cluster
        }
        bounds = {one: Bounds(log.start, max(log.start, log.end)) for one, (_, log) in own.items()}
        times = {one: first_from(*own[one], at_ms) for one, at_ms in lookups(strategy, bounds, now_ms).times.items()}
        found.update(
            (SplitId(cluster, *one), at) for one, at in resolve(strategy, bounds, Found(times)).offsets.items()
        )
    return found
