"""A state in the making: an event's changes are collected in a transaction, which becomes a state when it is done.

A transaction belongs to one `step`. It is thrown away if the event is impossible, so half a change is never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from evensplit.core.loss_text import CURE, describe_loss, extent
from evensplit.core.machine.effects import Effect, Forget, ReportLoss
from evensplit.core.machine.events import NOW, Asked
from evensplit.core.model import ClusterState, Loss, Readable, Split, SplitId, split_called
from evensplit.core.state.settings import FAIL
from evensplit.core.state.state import EnumeratorState

Key = TypeVar("Key", SplitId, str)


class Transaction:
    """Collects the changes to the state `before`, whose attributes it has; `splits` change by `put` and `forget`."""

    def __init__(self, before: EnumeratorState) -> None:
        self.before = before
        self.readers = before.readers
        self.clusters: dict[str, ClusterState] = dict(before.clusters)
        self.settings = before.settings
        self.eligible: Mapping[int, tuple[Readable, ...]] = before.eligible
        self.begun = before.begun
        self.assigned_readers = before.assigned_readers
        self.revision = before.revision
        self.losses: list[Loss] = list(before.losses)
        self.reached_ms = before.reached_ms
        self.held = before.held
        self.rated_ms = before.rated_ms
        self.rate_moves = before.rate_moves
        self.edits = before.edits
        self.session = before.session
        self.effects: list[Effect] = []
        """The orders so far."""
        self.due = False
        """Owners have to be decided anew, since readers or settings have changed."""
        self.load_changed = False
        """Owners have to be decided anew, since other splits are to be read."""
        self.rates_due = False
        """Owners have to be looked at, since rates have changed or splits may move again."""
        self.fresh: tuple[int, ...] = ()
        """Readers that registered with this event and have no orders yet."""
        self.read: tuple[SplitId, ...] = ()
        """The splits that the batch which is planned with this event reads."""
        self.changed: dict[SplitId, Split | None] = {}
        """Splits that were put, or forgotten (None), in the order in which that happened."""
        self.noticed: list[Loss] = []
        """Losses by this event, to be declared."""
        self.ended: list[SplitId] = []
        """Splits whose incarnation has ended, as far as known: earlier observations of their logs mean nothing now."""
        self.declared: list[SplitId] = []
        """Splits that are gone and whose unread records are declared lost, up to the end that was seen."""
        self.removed: list[SplitId] = []
        """Splits that are not to be read any more: they cannot be missing, or truncated."""
        self.renamed: dict[str, str] = {}
        """Former names of clusters -> the names that they have now."""
        self._splits: dict[SplitId, Split] | None = None
        self._in_order = True
        self._owners_changed = False

    @property
    def splits(self) -> Mapping[SplitId, Split]:
        """The splits as they are now, in the order of their ids."""
        if self._splits is None:
            return self.before.splits
        if not self._in_order:
            self._splits = {key: self._splits[key] for key in sorted(self._splits)}
            self._in_order = True
        return self._splits

    @property
    def now_ms(self) -> int:
        """The time in ms since 1970; 0 if it was never told."""
        return self.session.now_ms or 0

    def get(self, key: SplitId) -> Split | None:
        """Return a split as it is now; None if it is not known."""
        return (self.before.splits if self._splits is None else self._splits).get(key)

    def put(self, split: Split) -> None:
        """Add or change a split. If it has reached its stop it is finished; if it is past it, it stops where it is."""
        if split.stop is not None and split.position is not None and split.position >= split.stop:
            split = split._replace(stop=split.position)
            if split.active:
                split = split._replace(finished=True, owner=None)
        known = self.get(split.id)
        if known == split:
            return
        if self._splits is None:
            self._splits = _copied(self.before.splits)
        self._in_order = self._in_order and known is not None
        self._splits[split.id] = split
        self.changed[split.id] = split
        self._owners_changed = self._owners_changed or split.owner != (known.owner if known else None)
        self.load_changed = self.load_changed or _is_load(known) != _is_load(split)

    def started(self, split: Split, position: int) -> Split:
        """Return a split that begins at `position` with the batch that is planned next, for the first time or anew."""
        since = self.before.revision + 1
        return split._replace(position=position, first=position, since=since, initial=False, epoch=None, read_from=None)

    def start(self, split: Split, position: int) -> None:
        """Let reading of a split begin there."""
        self.put(self.started(split, position))

    def retain(self, split: Split) -> None:
        """Stop reading a split, and keep its position for as long as the settings say."""
        self.removed.append(split.id)
        if self.settings.retention_ms == 0:
            self.forget(split)
        else:
            self.put(split._replace(owner=None, removed_at_ms=self.now_ms))

    def forget(self, split: Split) -> None:
        """Drop a split: seen again, it is a new one."""
        self.drop(split)
        self.effects.append(Forget(split.id))
        self.ended.append(split.id)

    def drop(self, split: Split) -> None:
        """Take a split out under its present id; its observations may go on under another one."""
        if self._splits is None:
            self._splits = _copied(self.before.splits)
        self._splits.pop(split.id, None)
        self.changed[split.id] = None
        self._owners_changed = self._owners_changed or split.owner is not None
        self.load_changed = self.load_changed or _is_load(split)

    def lose(self, loss: Loss, detail: str = "", *, never_fatal: bool = False) -> bool:
        """Report `loss`. Return whether reading goes on; then the state has it.

        Args:
            detail: why, if there is more to say than the loss itself has.
            never_fatal: reading goes on whatever the settings say.
        """
        fatal = self.session.loss == FAIL and not never_fatal
        sentence = f"{detail or describe_loss(loss)}. {extent(loss)}"
        cure = f". To go on without them, {CURE}" if fatal else ""
        self.effects.append(ReportLoss(loss, f"{sentence}{cure}", fatal))
        if not fatal:
            self.losses.append(loss)
            self.noticed.append(loss)
        return not fatal

    def asked_ms(self, asked: Asked) -> int:
        """Return when a poll was sent, in ms; never later than now."""
        return self.now_ms if asked.at_ms is None else min(asked.at_ms, self.now_ms)

    def missed(self, keys: Sequence[Key], asked: Asked = NOW) -> list[Key]:
        """Take in that a complete listing lacks `keys`. Return those that are gone, since an earlier one lacked them.

        That has to be at least a discovery interval ago, and another broker has to have been asked.
        """
        if self.session.now_ms is None or not keys:
            return []
        gone, since = self.missing_twice(self.session.missing_since, keys, asked)
        self.tell(missing_since=since)
        return gone

    def missing_twice(
        self, before: Mapping[Any, int], keys: Sequence[Key], asked: Asked
    ) -> tuple[list[Key], dict[Any, int]]:
        """Return the keys that are gone, as `missed` does, and since when the others are missing, with `before`."""
        at_ms = self.asked_ms(asked)
        since: dict[Any, int] = {**dict.fromkeys(keys, at_ms), **before}
        interval_ms = self.session.discovery_interval_ms
        gone = [key for key in keys if asked.turned and key in before and at_ms - since[key] >= interval_ms]
        for key in gone:
            del since[key]
        return gone, since

    def present(self, *keys: SplitId | str) -> None:
        """Take in that none of `keys` is missing, or that it does not matter any more."""
        if not self.session.missing_since:
            return
        seen = frozenset(keys)
        left = {key: since for key, since in self.session.missing_since.items() if key not in seen}
        if len(left) < len(self.session.missing_since):
            self.tell(missing_since=left)

    def tell(self, **known: Any) -> None:
        """Set fields of the session."""
        self.session = replace(self.session, **known)

    def note(self) -> None:
        """Write down in the session which losses and ends this event brought."""
        session = self.session
        self._note_taken()
        if self.noticed:
            self.tell(undeclared=(*session.undeclared, *self.noticed))
        if not self.ended and not self.removed and not self.declared:
            return
        ended, gone = frozenset(self.ended), frozenset((*self.ended, *self.removed))
        said = ended.union(self.declared)
        session = self.session
        self.tell(
            ends={
                name: {key: end for key, end in ends.items() if key not in said} for name, ends in session.ends.items()
            },
            truncation_observations={
                key: seen for key, seen in session.truncation_observations.items() if key not in gone
            },
            missing_since={key: since for key, since in session.missing_since.items() if key not in gone},
            leader_epochs={
                name: {key: table for key, table in tables.items() if key not in ended}
                for name, tables in session.leader_epochs.items()
            },
        )

    def _note_taken(self) -> None:
        """Keep the previous owners of splits that have none now: in an open batch, or since their readers are gone."""
        earlier = self.before.splits
        taken: dict[SplitId, int] = {}
        for key in self.changed:
            known = earlier.get(key)
            if known is None or known.owner is None or not (self.session.open or known.owner >= self.readers):
                continue
            key = split_called(key, self.renamed)
            split = self.get(key)
            if split is None or split.owner is None:
                taken[key] = known.owner
        if taken:
            self.tell(previous_owners={**taken, **self.session.previous_owners})

    def state(self) -> EnumeratorState:
        """Return the state with the changes so far. The generation goes up if the owner of any split has changed."""
        earlier = self.before.splits
        moved = self._owners_changed and any(
            (split.owner if split else None) != (earlier[key].owner if key in earlier else None)
            for key, split in self.changed.items()
        )
        return EnumeratorState(
            self.readers,
            MappingProxyType({name: self.clusters[name] for name in sorted(self.clusters)}),
            MappingProxyType(self.splits) if self.changed else self.before.splits,
            self.settings,
            self.before.generation + moved,
            self.begun,
            self.assigned_readers,
            tuple(self.losses),
            MappingProxyType(dict(self.eligible)),
            self.revision,
            self.reached_ms,
            self.held,
            self.rated_ms,
            self.rate_moves,
            self.edits,
            session=self.session,
        )


def _copied(splits: Mapping[SplitId, Split]) -> dict[SplitId, Split]:
    # Much quicker than dict() for a proxy.
    return splits.copy() if isinstance(splits, MappingProxyType) else dict(splits)


def _is_load(split: Split | None) -> bool:
    return split is not None and split.position is not None and split.active
