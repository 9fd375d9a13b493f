"""What an edit of a checkpoint has to come to, by the oracle's model alone: no code that edits is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evensplit.core.model import Cluster, Loss, Range, Readable, SplitId, scopes
from evensplit.testing.sim.checkpoints import Checkpoints, Entry
from evensplit.testing.sim.edits.counts import Counts, Part, joined, without
from evensplit.testing.sim.edits.deliveries import Deliveries, wanted
from evensplit.testing.sim.oracle.cluster_names import call
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.world import World


@dataclass(frozen=True, slots=True)
class Truth:
    """A checkpoint with an edit: what has to be known then, what its batch reads, and what tasks have skipped."""

    model: Model
    parts: Mapping[SplitId, Sequence[Part]]
    owed: tuple[Loss, ...]
    again: int = 0
    """How many offsets are read once more that lie before the batch, or in it."""

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What the batch reads, in order."""
        return tuple(Range(key, *part) for key in sorted(self.parts) for part in joined(self.parts[key]))


class Opened:
    """The newest entry of a checkpoint, whose process has ended, as an edit finds it.

    Each method is a command. It returns what has to come of it, or None where the command has to refuse.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        entries = checkpoints.entries
        self.last, self.done = entries[-1], entries[-1].committed
        self.before: Entry | None = entries[-1] if self.done else entries[-2] if len(entries) > 1 else None
        self._deliveries: Deliveries = checkpoints.deliveries
        self.parts: dict[SplitId, list[Part]] = {}
        for part in () if self.done else self.last.again:
            self.parts.setdefault(part.split, []).append((part.start, part.end))

    @property
    def can_be_edited(self) -> bool:
        """Whether the source has planned a batch."""
        return self.last.state.begun

    def is_away(self, key: SplitId) -> bool:
        """Whether a split is not read any more, and its position is kept."""
        return self.last.state.splits[key].removed_at_ms is not None

    def is_read(self, key: SplitId) -> bool:
        """Whether a split is read, or has been read to its end while its cluster is read."""
        return not self.is_away(key) and self.last.state.clusters[key.cluster].removed_at_ms is None

    def begin(self, key: SplitId) -> int:
        """Where the batch that is edited begins, or where it has gone back to, if that is before."""
        return min(self._came_to(key), self.last.model.marks[key])

    def _came_to(self, key: SplitId) -> int:
        """Up to where the batches before the one that is edited have come."""
        model = self.last.model
        number, begin = model.runs[key]
        if self.before is not None:
            marks = {one: self.before.model.marks[of] for of, (one, _) in self.before.model.runs.items()}
            begin = marks.get(number, begin)
        return begin

    def _after(
        self, model: Model, parts: Mapping[SplitId, Sequence[Part]], owed: Iterable[Loss], again: int = 0
    ) -> Truth:
        return Truth(model, {key: ones for key, ones in parts.items() if ones}, tuple(owed), again)

    def _model(self) -> Model:
        model = self.last.model.copy()
        if self.done:
            model.skips = {}
        return model

    def note(self) -> Truth:
        """Nothing changes."""
        return self._after(self._model(), self.parts, self.last.owed)

    def rewind(self, targets: Mapping[SplitId, int]) -> Truth | None:
        """What is beyond its target is read again from there on."""
        model, back = self._model(), dict[SplitId, int]()
        for key, target in targets.items():
            mark = model.marks.get(key)
            if mark is None or not self.is_read(key) or mark <= target:
                continue
            number, _ = model.runs[key]
            more = model.edited.get(number, Counts()).plus(Counts((target, mark)))
            come = joined([(0, self._came_to(key)), *self.parts.get(key, ())])
            model.edited[number], model.marks[key] = more, target
            back[key] = sum(end - max(first, target) for first, end in come if end > target)
            model.left_out[number] = tuple(without(model.left_out.get(number, ()), (target, mark)))
            model.one_log.epochs.pop(key, None)
        owed = [_before(loss, targets[loss.split]) if loss.split in back else loss for loss in self.last.owed]
        found = self._after(model, self.parts, (one for one in owed if one is not None), sum(back.values()))
        return found if back else None

    def skip(self, ranges: Iterable[Range]) -> Truth | None:
        """The batch reads what is unread before each range, and what is in one is never read again."""
        if any(not 0 <= first < to for _, first, to in ranges):
            return None
        model, parts, of = self._model(), dict(self.parts), dict[SplitId, list[Part]]()
        for key, *part in ranges:
            of.setdefault(key, []).append((part[0], part[1]))
        for key in sorted(of):
            for first, to in joined(of[key]):
                left = self._skip(model, key, parts.get(key, []), first, to)
                if left is None:
                    return None
                parts[key] = left
        return self._after(model, parts, self.last.owed)

    def _skip(self, model: Model, key: SplitId, parts: list[Part], first: int, to: int) -> list[Part] | None:
        """What is left of `parts`, which the batch reads of one split, without a range behind those before."""
        mark = model.marks.get(key)
        if mark is None or self.is_away(key):
            return None
        finished = self.last.state.splits[key].finished
        late = not self.done and first > mark
        if (finished and not parts) or first < self.begin(key) or late or to > model.stops.get(key, to):
            return None
        number, begin = model.runs[key]
        own = Counts((begin, mark))
        due = wanted(model, number, begin, mark).plus(Counts((mark, max(mark, to))))
        due.put(first, to, self._deliveries.of(number))
        model.marks[key] = max(mark, to)
        model.edited[number] = due.plus(own, -1).plus(Counts((mark, model.marks[key])), -1)
        model.left_out[number] = (*model.left_out.get(number, ()), (first, to))
        model.skips[key] = (*model.skips.get(key, ()), (first, to))
        if model.marks[key] != mark:
            model.one_log.epochs.pop(key, None)
        return [*without(parts, (first, to)), *([(mark, first)] if mark < first else [])]

    def drop(self, scope: Readable) -> Truth | None:
        """What is in the scope is forgotten: seen again, it is new."""
        model = self._model()
        gone = [key for key in model.known if scope in scopes(key)]
        is_cluster = isinstance(scope, Cluster) and scope.id in model.clusters
        if not (gone or is_cluster) or len(gone) == len(model.known):
            return None
        for key in gone:
            model.forget(key)
        if isinstance(scope, Cluster):
            model.clusters.pop(scope.id, None)
            model.kafka.pop(scope.id, None)
        kept = {key: parts for key, parts in self.parts.items() if key not in gone}
        return self._after(model, kept, (loss for loss in self.last.owed if loss.split not in gone))

    def rename(self, was: str, now: str) -> Truth | None:
        """What is known of a cluster is known by another name."""
        model = self._model()
        if was not in model.clusters or now in model.clusters:
            return None
        call(model, was, now)

        def called(key: SplitId) -> SplitId:
            return key._replace(cluster=now) if key.cluster == was else key

        parts = {called(key): ones for key, ones in self.parts.items()}
        return self._after(model, parts, (loss._replace(split=called(loss.split)) for loss in self.last.owed))


def began(number: int, entries: Sequence[Entry], world: World) -> dict[SplitId, int]:
    """Where batch `number` began in each split that is known now, or where what is newer began.

    One of the entries is of the batch before it, or it is the first one of all.
    """

    last = next((one.model for one in entries if one.number == number - 1), Model())
    found = dict(last.marks)
    for entry in entries:
        if entry.number < number:
            continue
        names = {name: _called(name, last, entry.model, world) for name in last.clusters}
        before = {key._replace(cluster=names[key.cluster]): key for key in last.marks}
        model, known = entry.model, found
        found = {}
        for key in model.marks:
            former = before.get(key)
            ids = ("", "") if former is None else (last.known[former], model.known[key])
            is_new = former is None or (all(ids) and ids[0] != ids[1])
            found[key] = model.runs[key][1] if former is None or is_new else known[former]
        last = model
    return found


def _called(name: str, before: Model, after: Model, world: World) -> str:
    """What a cluster that is known in `before` is called in `after`."""
    if name in after.clusters:
        return name
    others = [one for one in after.clusters if one not in before.clusters and world.name(one) == world.name(name)]
    return others[0] if others else name


def _before(loss: Loss, target: int) -> Loss | None:
    """What of a loss lies before the place from which all is read again."""
    if loss.position >= target:
        return None
    size = loss.offsets_max
    return loss if size is None else loss._replace(offsets_max=min(size, target - loss.position))
