"""An operator who stops a query now and then, and edits its checkpoint with what the commands are made of.

All that it chooses is chosen apart from the rest of the run: so a seed without edits gives the run that it gave before
there were any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from evensplit.core.model import Cluster, Range, Readable, SplitId, Topic
from evensplit.core.repair import edit, places, proof, records
from evensplit.core.repair.edit import OpenBatch, Told
from evensplit.core.repair.past import past
from evensplit.core.repair.records import Record
from evensplit.core.state.edits import scope_text
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.testing.sim.bounds.names import TOPICS
from evensplit.testing.sim.checkpoints import Checkpoints, Entry, dump
from evensplit.testing.sim.edits.deliveries import Deliveries
from evensplit.testing.sim.edits.targets import ways
from evensplit.testing.sim.edits.truth import Opened, Truth
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.rules import Rules
from evensplit.testing.sim.world import World

BEGUN_MS = 1_700_000_000_000
"""When the first edit is made."""
STOPS = 0.04
"""How likely it is before each batch that the operator stops the query."""
COMES = 0.7
"""How likely it is that the operator edits the checkpoint of a query that has ended, whatever ended it."""
KILLED = 0.2
"""How likely it is that a command is killed before it has written what it was to write."""
KINDS = (
    "rewind",
    "rewind",
    "rewind",
    "skip",
    "skip",
    "skip",
    "drop",
    "rename-cluster",
    "undo",
    "undo",
    "fork",
    "other",
)

Make = Callable[[OpenBatch], EnumeratorState]
Kept = tuple[list[Entry], Deliveries, list[Record]]


class Operator:
    """Edits one checkpoint at a time. `counts`: how often each command was carried out, or refused."""

    def __init__(self, seed: int, rules: Rules, world: World, checkpoints: Checkpoints, note: Callable[[str], None]):
        # Not for secrets: the same seed has to give the same run.
        self._random = Random(f"operator of {seed}")  # noqa: S311
        self._more = Random(f"ranges of {seed}")  # noqa: S311
        self._rules = rules
        self._world = world
        self._checkpoints = checkpoints
        self._note = note
        self._records: list[Record] = []
        self._told = 0
        self._kept: Kept | None = None
        """Of a fork: the checkpoint that no query runs on at the moment, the original or its copy."""
        self.counts: Counter[str] = Counter()

    def stops(self) -> bool:
        """Whether the query is to be stopped now."""
        return self._random.random() < STOPS

    def visit(self) -> bool:
        """Perhaps edit the checkpoint of a query that has ended; whether it is another one by now."""
        random = self._random
        if not self._checkpoints.entries or random.random() >= COMES:
            return False
        changed = False
        for _ in range(random.choice((1, 2, 2, 3, 4))):
            changed = self._act(random.choice(KINDS)) or changed
        return changed

    def _act(self, kind: str) -> bool:
        checkpoints = self._checkpoints
        checkpoints.deliveries.begin(entry.given for entry in checkpoints.entries)
        opened = Opened(checkpoints)
        if kind == "undo":
            return self._undo(opened)
        if kind == "other":
            return self._go_on_with_the_other()
        if kind == "fork":
            return self._fork(opened)
        if kind == "rename-cluster":
            return self._rename(opened)
        return {"rewind": self._rewind, "skip": self._skip, "drop": self._drop}[kind](opened)

    # The commands.

    def _rewind(self, opened: Opened) -> bool:
        where = self._random.choice(ways(opened, self._checkpoints.entries, self._world, self._random))
        told = self._said("rewind", where.said)

        def make(batch: OpenBatch) -> EnumeratorState:
            wanted = places.within(places.rewindable(batch.end), where.only)
            return edit.rewind(batch, where.asked(wanted), told)

        return self._edit(opened, told, make, opened.rewind(where.targets))

    def _skip(self, opened: Opened) -> bool:
        random, last = self._random, opened.last
        key = random.choice(sorted(last.model.known) or [SplitId("nowhere", TOPICS[0], 0)])
        log = self._world.log(key, last.model.known.get(key, ""))
        if log is None or key not in last.model.marks:
            # Nobody says how far it goes.
            return False
        end, begin = log.end, opened.begin(key)
        if random.random() < 0.25:
            told = self._said("skip", str(key))
            unread = min([last.model.marks[key], *(start for start, _ in opened.parts.get(key, ()))])
            to = min(end, last.model.stops.get(key, end))

            def make_all(batch: OpenBatch) -> EnumeratorState:
                begins = places.firsts_unread(batch)
                return edit.skip(batch, [Range(key, *places.unread(batch.end.splits[key], begins[key], end))], told)

            return self._edit(opened, told, make_all, opened.skip([Range(key, unread, to)]))
        first = max(0, random.choice((begin, last.model.marks[key])) + random.randint(-1, 6))
        ranges = [Range(key, first, first + random.randint(1, 6))]
        if self._more.random() < 0.6:
            ranges = self._several(opened, key) or ranges
        told = self._said("skip", " ".join(f"{key}:{first}-{to - 1}" for key, first, to in ranges))
        ends = {one.split: self._world.log(one.split, last.model.known[one.split]) for one in ranges}

        def make(batch: OpenBatch) -> EnumeratorState:
            for key, _, to in ranges:
                if (log := ends[key]) is not None and to > (batch.end.splits[key].position or 0):
                    places.check_in_log(key, to, log.end)
            return edit.skip(batch, ranges, told)

        beyond = any(
            to > last.model.marks[key] and (log := ends[key]) is not None and to > log.end for key, _, to in ranges
        )
        return self._edit(opened, told, make, None if beyond else opened.skip(ranges))

    def _several(self, opened: Opened, key: SplitId) -> list[Range]:
        """Ranges to skip at once, of one partition and of another one: mostly such as the batch can leave out."""
        random, model, found = self._more, opened.last.model, list[Range]()
        other = random.choice(sorted(model.marks))
        for split in (key, key, key, other):
            log = self._world.log(split, model.known[split])
            if log is None or (found and random.random() < 0.3):
                continue
            end = log.end if opened.done or random.random() < 0.1 else min(log.end, model.marks[split])
            begin = random.randint(*sorted((opened.begin(split) - (random.random() < 0.05), end)))
            found.append(Range(split, max(0, begin), max(0, begin) + random.randint(1, 2)))
        return found

    def _drop(self, opened: Opened) -> bool:
        random, known = self._random, opened.last.model.known
        key = random.choice(sorted(known) or [SplitId("nowhere", TOPICS[0], 0)])
        scope: Readable = random.choice((Cluster(key.cluster), Topic(key.cluster, key.topic), key, key))
        told = self._said("drop", scope_text(scope))
        dropped = self._edit(opened, told, lambda batch: edit.drop(batch, scope, told), opened.drop(scope))
        cluster = self._world.clusters.get(key.cluster)
        if dropped and isinstance(scope, Cluster) and cluster is not None and random.random() < 0.5:
            self._note(f"{scope.id} is taken out of the metadata, too")
            cluster.listed = False
            self._world.version += 1
        return dropped

    def _rename(self, opened: Opened) -> bool:
        random = self._random
        cluster = random.choice([one for _, one in sorted(self._world.clusters.items())])
        name = self._world.new_name(cluster)
        if not name:
            return False
        taken = random.random() < 0.1
        now = random.choice(sorted(opened.last.model.clusters) or [name]) if taken else name
        told = self._said("rename-cluster", f"{cluster.id} {now}")
        truth = opened.rename(cluster.id, now)
        renamed = self._edit(opened, told, lambda batch: edit.rename_cluster(batch, cluster.id, now, told), truth)
        if renamed:
            self._note(self._world.rename(cluster, now))
        return renamed

    def _fork(self, opened: Opened) -> bool:
        checkpoints = self._checkpoints
        kept = [replace(entry) for entry in checkpoints.entries], checkpoints.deliveries.copy(), list(self._records)
        told = self._said("fork", "COPY")
        if not self._edit(opened, told, lambda batch: edit.note(batch, told), opened.note()):
            return False
        self._kept = kept
        self._note("a query goes on with the copy")
        return True

    def _go_on_with_the_other(self) -> bool:
        """The query of the original of a fork is started again, or that of the copy."""
        if self._kept is None:
            return False
        checkpoints = self._checkpoints
        other, self._kept = self._kept, (list(checkpoints.entries), checkpoints.deliveries, self._records)
        checkpoints.entries[:], checkpoints.deliveries, self._records = other
        self.counts["other"] += 1
        self._note("the other query of the two after a fork is started again")
        return True

    def _undo(self, opened: Opened) -> bool:
        checkpoints, last = self._checkpoints, opened.last
        made = records.made_by(self._records, last.number, last.text.encode())
        if bool(made and not last.committed) != (last.made and not last.committed):
            raise Broken("S21", f"of the edits of batch {last.number}, {made} can be taken back")
        if not made or last.committed:
            self.counts["undo refused"] += 1
            return False
        if made[0].stays:
            self.counts["undo refused"] += 1
            return False
        record, before = made[0], last.before_edit
        checkpoints.entries.pop()
        text = None if before is None else before.text
        if record.before != text:
            raise Broken("S21", f"with {record.line} taken back, the last offset is {record.before}; expected {text}")
        if before is not None:
            checkpoints.entries.append(before)
        if self._random.random() >= KILLED:
            self._records.remove(record)
        self.counts["undo"] += 1
        self._note(f"evensplit undo: {record.line} is taken back")
        return True

    # What they share.

    def _said(self, command: str, said: str) -> Told:
        self._told += 1
        return Told(command, said, BEGUN_MS + self._told * 1_000)

    def _edit(self, opened: Opened, told: Told, make: Make, truth: Truth | None) -> bool:
        """Make an edit, see that it comes to the truth, or is refused where there is none, and write it."""
        last, line = opened.last, told.edit().line
        start = EnumeratorState() if opened.before is None else opened.before.state
        if not opened.can_be_edited:
            truth = None
        try:
            batch = edit.open_batch(start, last.state, done=opened.done)
            state = make(batch)
        except EditRefused as error:
            if truth is not None:
                raise Broken("S21", f"{line} is refused: {error}") from error
            self.counts[f"{told.command} refused"] += 1
            return False
        except Exception as error:
            raise Broken("crash", f"{line} raised {error!r}") from error
        if truth is None:
            raise Broken("S21", f"{line} is made; expected that it is refused")
        _check_places(line, state, truth)
        text = dump(self._rules.encode(state))
        number = last.number + opened.done
        before = None if opened.done else last.text
        self._records.append(Record(self._told, line, told.at_ms, number, before, records.digest(text.encode())))
        if self._random.random() < KILLED:
            self._note(f"{line} is killed before it has written anything but its record")
            return False
        entry = Entry(text, self._checkpoints.read(text), truth.model, {}, truth.ranges, truth.ranges, owed=truth.owed)
        entry.number, entry.made, entry.before_edit = number, True, None if opened.done else last
        entry.passed = entry.passed_again = () if opened.done else last.passed_again
        self._checkpoints.put(entry, new=opened.done)
        _check_proof(line, batch, state, truth)
        self.counts[told.command] += 1
        self._note(line)
        return True


def _check_places(line: str, state: EnumeratorState, truth: Truth) -> None:
    """S21: the next offsets are those of the edit, and of nothing else."""
    stands = {key: split.position for key, split in state.splits.items() if split.position is not None}
    for key in sorted({**stands, **truth.model.marks}):
        if stands.get(key) != truth.model.marks.get(key):
            expected = truth.model.marks.get(key)
            raise Broken("S21", f"by {line}, {key} goes on at {stands.get(key)}; expected {expected}", key)
    if {key: split.topic_id for key, split in state.splits.items()} != truth.model.known:
        raise Broken("S21", f"by {line}, {list(state.splits)} are known; expected {list(truth.model.known)}")


def _check_proof(line: str, batch: OpenBatch, state: EnumeratorState, truth: Truth) -> None:
    """R1 to R7, as the commands check them; and what they say is what comes of it."""
    try:
        laws = proof.check_edit(batch, state)
        come = past([replace(batch.start, edits=())], state)
        again = sum(one.again for one in proof.consequences(batch, state, come))
    except Exception as error:
        raise Broken("crash", f"what {line} comes to raised {error!r}") from error
    for broken in laws:
        raise Broken(broken[:2], f"by {line}: {broken}")
    if again != truth.again:
        raise Broken("S21", f"by {line}, {again} offsets are said to be read again; expected {truth.again}")
