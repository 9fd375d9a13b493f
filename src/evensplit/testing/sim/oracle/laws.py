"""The laws, checked after every event: what may have changed, given the event and the model.

What a law is about is looked at again where the event can have changed it; the core's own checks, which look at
everything from scratch, are made after every event.
"""

from __future__ import annotations

from evensplit.core.machine.effects import Assign, RefuseCluster, ReportLoss, ResolveStart, Revoke, SignalNoMoreSplits
from evensplit.core.machine.enumerator import Step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import Loss, Split, SplitId, StartBy, matches
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.edits.counts import is_within
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.balance import Evenness
from evensplit.testing.sim.oracle.splits import Model

QUIET = frozenset({BatchOpened, ClusterPollFailed, ReaderLost})
"""Events that give nobody a split that another reader has, and say nothing about any split."""

TELLING = frozenset({LogsObserved, ReadLogsPolled, RecordsLost})
"""Events that say nothing about any split as long as nothing is reported because of them; each listing has one."""

DECIDING = frozenset({BatchOpened, BatchPlanned, ParallelismChanged, ReaderRegistered, ReaderRemoved, SettingsChanged})
"""Events after which owners are decided, even where no split changes by it."""


class Laws:
    """Checks one run. `orders`: what each registered reader was told to read in this session."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.orders: dict[int, dict[SplitId, bool]] = {}
        self._epochs: dict[int, int] = {}
        self._signalled: dict[int, bool] = {}
        self.evenness = Evenness(model)
        self.retention_ms = 0
        self.checked: dict[str, int] = dict.fromkeys(("splits", "orders", "owners", "states"), 0)

    def restored(self, model: Model) -> None:
        """A session begins with a state out of a checkpoint, of which `model` is what has to be known."""
        self.model = model
        self.orders = {}
        self._epochs = {}
        self._signalled = {}
        self.evenness = Evenness(model)

    def check(self, event: Event, before: EnumeratorState, step: Step) -> None:
        """Raise `Broken` for the first law that the step from `before` breaks. The model has taken the event in."""
        after = step.state
        self.retention_ms = after.settings.retention_ms
        self._reported(event, before, step)
        if type(event) is BatchPlanned:
            self._read_from(event, before, after)
        changed = after.splits is not before.splits
        told = type(event) not in TELLING or bool(step.effects)
        if changed or (told and type(event) not in QUIET):
            self.checked["splits"] += 1
            self._splits(event, before, after)
        if after.clusters is not before.clusters:
            self._clusters(before, after)
        if changed or step.effects or (told and after.session is not before.session):
            self.checked["orders"] += 1
            self._orders(before, step)
        if changed or type(event) in DECIDING or after.session.assigned != before.session.assigned:
            self.evenness.check(event, before, after)
            self._generation(before, after)
            self.checked["owners"] += 1
        self.checked["states"] += 1
        for broken in (*check(after), *check_step(before, event, after)):
            raise Broken(broken.partition(":")[0], broken)

    def _clusters(self, before: EnumeratorState, after: EnumeratorState) -> None:
        """What the model need not know any more of clusters that were removed or forgotten."""
        model = self.model
        for name, cluster in before.clusters.items():
            now = after.clusters.get(name)
            if now is None or (now.removed_at_ms is not None and cluster.removed_at_ms is None):
                model.ids.remove(name)
                model.read.remove(name)
            if now is None:
                for known in (model.clusters, model.kafka, model.heard, model.leaving):
                    known.pop(name, None)
                model.read.forget(name)

    def _splits(self, event: Event, before: EnumeratorState, after: EnumeratorState) -> None:
        """S1 to S4, S15: every split that is known is there once, with its topic id, where the model log says."""
        known, marks, earlier = self.model.known, self.model.marks, before.splits
        for key, split in after.splits.items():
            if known.get(key) != split.topic_id:
                if key not in known:
                    raise Broken("S1", f"{key} is in the state, and nothing has ever named it", key)
                raise Broken("S9", f"{key} has topic id {split.topic_id!r}; expected {known[key]!r}", key)
            if split.position != marks.get(key):
                law = "S4" if marks.get(key) is None or type(event) is OffsetsResolved else "S3"
                raise Broken(law, f"{key} stands at {split.position}; by the model log it is at {marks.get(key)}", key)
            if split.epoch is not None and split.epoch != self.model.one_log.epochs.get(key):
                raise Broken("S3", f"{key} was read up to epoch {split.epoch}; expected that of the log", key)
            old = earlier.get(key)
            if old is not split:
                self._split(event, old, split, after.readers)
        for key in earlier:
            if key not in after.splits and (self.model.renamed is None or key.cluster != self.model.renamed[0]):
                self._forgotten(event, earlier[key], before)
        if len(after.splits) != len(known):
            gone = next(key for key in sorted(known) if key not in after.splits)
            raise Broken("S1", f"{gone} was discovered and is not in the state any more", gone)

    def _split(self, event: Event, old: Split | None, new: Split, readers: int) -> None:
        """S1: exactly one of assigned, unassigned, retained and finished. S7, S8: how it may have become so."""
        key = new.id
        if new.owner is not None:
            if not 0 <= new.owner < readers:
                raise Broken("S2", f"{key} is owned by reader {new.owner}, of {readers}", key)
            if new.position is None or new.finished or new.removed_at_ms is not None:
                raise Broken("S1", f"{key} has an owner, and is not started, or finished, or retained: {new}", key)
        if new.finished and (new.position is None or new.removed_at_ms is not None):
            raise Broken("S1", f"{key} is finished, and without a position or retained as well: {new}", key)
        if old is None:
            return
        if old.finished and not new.finished and new.topic_id == old.topic_id:
            raise Broken("S1", f"{key} was finished, and is to be read again", key)
        if new.finished and not old.finished and new.position != self.model.stops.get(key, new.position):
            raise Broken("S1", f"{key} is finished at {new.position}; it stops at {self.model.stops[key]}", key)
        if new.finished and not old.finished and type(event) in (BatchPlanned, SplitsFinished):
            # Its reader knows, having read it to its end, so nobody takes it away. Otherwise it has to be told.
            self.orders.get(-1 if old.owner is None else old.owner, {}).pop(key, None)
        if new.removed_at_ms is not None and old.removed_at_ms is None:
            self._removal(event, key)
            # Whether its log is shorter than it was is asked anew when it is back.
            self.model.short.pop(key, None)
        if type(event) in QUIET and new.owner is not None and new.owner != old.owner and old.owner is not None:
            raise Broken("S7", f"{key} changed its owner because of {type(event).__name__}", key)

    def _forgotten(self, event: Event, old: Split, before: EnumeratorState) -> None:
        """S8: a split is forgotten when it was away for the retention time; without one, when it is removed."""
        cluster_since = before.clusters[old.id.cluster].removed_at_ms
        away_since = cluster_since if old.finished else old.removed_at_ms
        if away_since is not None and cluster_since is not None:
            # The clock may have been set back between the two.
            away_since = min(away_since, cluster_since)
        if type(event) is TimePassed and away_since is not None:
            if event.now_ms - away_since < self.retention_ms:
                raise Broken("S8", f"{old.id} was forgotten before its retention time was over", old.id)
        elif self.retention_ms or old.removed_at_ms is not None:
            raise Broken("S8", f"{old.id} was forgotten, and no time had passed", old.id)
        else:
            self._removal(event, old.id)

    def _removal(self, event: Event, key: SplitId) -> None:
        """S7: a split is retained for the second complete answer without it, or because nobody wants it any more."""
        model = self.model
        if type(event) is PartitionsListed:
            if event.cluster == key.cluster and event.complete and model.is_gone(key):
                return
            # All that are listed have said who they are by now, and none is this one under another name.
            if key.cluster in model.leaving:
                return
        elif type(event) is ClustersListed:
            listed = {one.id: one for one in event.clusters}.get(key.cluster)
            if listed is None:
                if key.cluster in model.leaving:
                    return
            elif (
                listed.subscription is not None
                and not matches(listed.subscription, key)
                and (model.is_gone(key, unwanted=True) or (model.listings == 1 and event.confirmed))
            ):
                return
        elif (type(event) is ReaderRegistered and key in event.reported) or (
            type(event) is SplitsGivenBack and key in event.splits
        ):
            return
        raise Broken("S7", f"{key} was removed by {type(event).__name__}, without two complete answers lacking it", key)

    def _reported(self, event: Event, before: EnumeratorState, step: Step) -> None:
        """S9: what is lost is reported, nothing else is. S15: no cluster is taken for another one."""
        model = self.model
        reported = [(effect.loss, effect.fatal) for effect in step.effects if type(effect) is ReportLoss]
        if reported or model.expected:
            for loss, fatal in model.expected:
                if (loss, fatal) not in reported:
                    raise Broken(
                        "S9", f"{loss} ({'fatal' if fatal else 'to be declared'}) was not reported", loss.split
                    )
            for one in reported:
                if one not in model.expected or len(reported) != len(model.expected):
                    raise Broken("S9", f"{one[0]} was reported, and nothing was lost", one[0].split)
                self._declared_once(one[0], step.state)
                self._not_left_out(one[0])
        if model.void and (step.state.splits is not before.splits or step.state.clusters != before.clusters):
            raise Broken("S15", f"{event} is the answer of another cluster, and was taken in")
        if model.renamed is not None and model.renamed[0] in step.state.clusters:
            was, now = model.renamed
            raise Broken("S15", f"cluster {was} is called {now} now, and is taken for another one")
        if model.void or model.refused:
            refused = tuple(effect.cluster for effect in step.effects if type(effect) is RefuseCluster)
            if refused != model.refused:
                raise Broken("S15", f"clusters {refused} were refused; expected {model.refused}")

    def _declared_once(self, loss: Loss, after: EnumeratorState) -> None:
        """S9: a process that begins with the state that declares what was skipped does not look for that again."""
        split = after.splits.get(loss.split)
        if loss.handed_out is None or split is None or split.read_from is None:
            return
        if split.read_from != self.model.read.oldest(self.model.known).get(split.id):
            raise Broken("S9", f"{loss} is declared, and the state says that it is to be compared", split.id)

    def _not_left_out(self, loss: Loss) -> None:
        """S21: what a command has left out is nothing that tasks could have skipped."""
        number, _ = self.model.runs.get(loss.split, (-1, 0))
        left_out, size = self.model.left_out.get(number, ()), loss.offsets_max
        lost = loss.position, loss.position + (size or 0)
        if loss.handed_out is not None and size and left_out and is_within(lost, left_out):
            raise Broken("S21", f"{loss} is declared, and a command has left that out", loss.split)

    def _read_from(self, event: BatchPlanned, before: EnumeratorState, after: EnumeratorState) -> None:
        """S9: where losses are declared, a state says what its batch reads, so that another process can look for it.

        And what earlier ones have read that nobody has compared yet, whatever becomes of losses now.
        """
        oldest = self.model.uncompared
        for key, split in after.splits.items():
            begin, end = before.splits[key].position, split.position or 0
            reads = self.model.loss == "declare" and event.ends.get(key, begin) != begin
            known = (oldest.get(key), begin if reads else None)
            if split.read_from != min((at for at in known if at is not None and at < end), default=None):
                raise Broken("S9", f"{key} is read from {begin} to {end}, and kept: {split.read_from}", key)

    def _orders(self, before: EnumeratorState, step: Step) -> None:
        """S2, S13: each registered reader is told once to read exactly what it owns."""
        state, orders = step.state, self.orders
        registrations = state.session.registrations
        if registrations is not before.session.registrations:
            for reader in [reader for reader in orders if reader not in registrations]:
                del orders[reader]
            for reader, registration in registrations.items():
                if registration.epoch < self._epochs.get(reader, registration.epoch):
                    raise Broken("S13", f"reader {reader} went back to epoch {registration.epoch}")
                if reader not in orders or self._epochs[reader] != registration.epoch:
                    orders[reader] = {}
                    self._signalled.pop(reader, None)
                self._epochs[reader] = registration.epoch
        for effect in step.effects:
            if type(effect) is Assign:
                self._assign(effect, state)
            elif type(effect) is Revoke:
                if effect.split not in orders.get(effect.reader, ()):
                    raise Broken(
                        "S13", f"reader {effect.reader} is to give up {effect.split}, which it has not", effect.split
                    )
                del orders[effect.reader][effect.split]
            elif type(effect) is ResolveStart:
                self._resolve(effect, state)
            elif type(effect) is SignalNoMoreSplits:
                if effect.reader in self._signalled or effect.reader not in registrations:
                    raise Broken("S13", f"reader {effect.reader} was told twice, or unregistered, that nothing follows")
                self._signalled[effect.reader] = True
        if state.session.assigned:
            self._held(state)
        elif any(orders.values()):
            raise Broken("S5", "splits were ordered before the global assignment")

    def _held(self, state: EnumeratorState) -> None:
        owned: dict[int, int] = dict.fromkeys(self.orders, 0)
        for key, split in state.splits.items():
            if split.owner is not None and split.owner in owned:
                owned[split.owner] += 1
                if key not in self.orders[split.owner]:
                    raise Broken("S2", f"{key} belongs to reader {split.owner}, which was not told", key)
        for reader, count in owned.items():
            if count != len(self.orders[reader]):
                held = sorted(self.orders[reader])
                extra = next(key for key in held if (known := state.splits.get(key)) is None or known.owner != reader)
                raise Broken("S2", f"reader {reader} still reads {extra}, which is not its own any more", extra)

    def _assign(self, order: Assign, state: EnumeratorState) -> None:
        key, split = order.split, state.splits.get(order.split)
        if split is None or split.owner != order.reader or split.position != order.position:
            raise Broken("S2", f"{order} does not say what the state says: {split}", key)
        if order.generation != state.generation:
            raise Broken("S5", f"{order} is not of generation {state.generation}", key)
        if order.reader not in self.orders:
            raise Broken("S13", f"{key} was given to reader {order.reader}, which is not registered", key)
        if key in self.orders[order.reader]:
            raise Broken("S13", f"{key} was given twice to one registration of reader {order.reader}", key)
        for reader, held in self.orders.items():
            if key in held:
                raise Broken("S2", f"{key} was given to reader {order.reader}; reader {reader} still has it", key)
        self.orders[order.reader][key] = True

    def _resolve(self, order: ResolveStart, state: EnumeratorState) -> None:
        for key in order.splits:
            if state.splits[key].position is not None:
                raise Broken(
                    "S4", f"the start of {key} is to be resolved, and it stands at {state.splits[key].position}", key
                )
            by = StartBy.STRATEGY if key in self.model.by_strategy else StartBy.EARLIEST
            if order.by is not by:
                raise Broken("S4", f"{key} is to start by {order.by}; expected {by}", key)

    def _generation(self, before: EnumeratorState, after: EnumeratorState) -> None:
        """S5: a generation is one set of owners."""
        if after.generation == before.generation:
            for key, split in after.splits.items():
                old = before.splits.get(key)
                if (
                    old is not split
                    and old is not None
                    and old.owner != split.owner
                    and None not in (old.owner, split.owner)
                ):
                    raise Broken("S5", f"{key} changed its owner within generation {after.generation}", key)
        elif after.generation != before.generation + 1:
            raise Broken("S5", f"generation {before.generation} was followed by {after.generation}")


def is_stale(event: Event, before: EnumeratorState) -> bool:
    """Whether this is a reader's message of an earlier life, or one that came already."""
    session = before.session
    if type(event) is ReaderRegistered:
        return event.reader < before.readers and event.epoch <= session.epochs.get(event.reader, -1)
    if type(event) is ReaderLost:
        return event.epoch < session.epochs.get(event.reader, -1)
    if type(event) is SplitsFinished:
        known = session.registrations.get(event.reader)
        return known is None or known.epoch != event.epoch
    return False


def check_harmless(event: Event, before: EnumeratorState, step: Step) -> None:
    """S13: a message that is stale changes nothing. Raises `Broken` if it does."""
    then, now = before.session, step.state.session
    known = (then.registrations, then.epochs, then.lost, then.removed)
    if step.state != before or step.effects or known != (now.registrations, now.epochs, now.lost, now.removed):
        raise Broken("S13", f"a message of an earlier epoch had an effect: {event}")
