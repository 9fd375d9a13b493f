"""Several checkpoints that are followed at once, for the page of all queries: found anew as they come."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evensplit.checkpoint.finding import (
    FOUND_MAX,
    UNREADABLE_SHOWN_MAX,
    at_once,
    checkpoints_below,
    is_checkpoint,
    nothing_found,
    resolved,
    why_not_ours,
)
from evensplit.checkpoint.history import CheckpointHistory, query_id_of
from evensplit.checkpoint.places.place import Place
from evensplit.errors import CheckpointError
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import Recorder

FIND_S = 10.0
"""How often folders are looked through for new checkpoints."""

BATCHES = 12
"""How many of the last batches of each checkpoint are read at first."""

REST_TIMES = 4
"""After a round, so many times as long as it took is rested: one core is a fifth busy at most."""


class Asking(Protocol):
    """What asks clusters for the ends of logs."""

    def ask(self, ones: Sequence[Followed]) -> None:
        """Ask for those of all."""

    def tell(self, one: Followed) -> Sequence[str]:
        """Give what is known to the views of one. Return why its lag, or some of it, is not known, a sentence each."""


class Shown(Protocol):
    """What shows them: a `Dashboard`."""

    def watch(self, recorder: Recorder) -> None:
        """Show what `recorder` hears as well."""

    def note(
        self,
        notes: Sequence[str],
        query_id: str | None = None,
        passing: Sequence[str] = (),
        *,
        awaited: bool = False,
    ) -> None:
        """Say these sentences of a query, or of all. `passing`: what is as it should be.

        `awaited`: as in `Followed`.
        """

    def unreadable(self, ones: Sequence[Unreadable]) -> None:
        """Say that these cannot be shown."""


@dataclass(slots=True)
class Followed:
    """One checkpoint."""

    kept: CheckpointHistory
    recorder: Recorder
    problem: Unreadable | None = None
    """Why it cannot be shown; None if it can."""
    awaited: bool = False
    """Whether clusters were asked for its lag, and have not answered yet."""

    @property
    def name(self) -> str:
        """What it is called: each of a `Fleet` otherwise."""
        return self.kept.name

    @property
    def id(self) -> str:
        """The id under which it is recorded, which no other one has."""
        return self.kept.recorded_as

    def look(self, batches: int | None) -> Sequence[str]:
        """Read what is new. Return notes about it, a sentence each."""
        try:
            self.kept.look(latest_max=batches)
        except (CheckpointError, OSError) as error:
            if self.kept.views:
                return [f"not up to date: {error}"]
            other = why_not_ours(self.kept.path)
            self.problem = Unreadable(self.name, other or str(error), bool(other))
            return ()
        self.problem = None
        return self.kept.notes

    @property
    def passing(self) -> Sequence[str]:
        """What is as it should be, but may be worth a word."""
        done = self.kept.committed or self.kept.last < 0
        return () if done else [f"batch {self.kept.last:,} is planned, but Spark has not committed it yet"]


@dataclass(slots=True)
class Fleet:
    """All checkpoints at `places`: checkpoints, and folders that have some."""

    places: Sequence[Place]
    batches: int | None = BATCHES
    """How many batches of each are read at first; None: all."""
    ones: list[Followed] = field(default_factory=list)
    """In the order in which they were found."""
    notes: tuple[str, ...] = ()
    """What to say of folders."""
    _known: set[Place] = field(default_factory=set)
    _resolved: set[Place] = field(default_factory=set)
    _ids: set[str] = field(default_factory=set)
    _empty: tuple[CheckpointError, ...] = ()
    _found_s: float | None = None
    _none: Recorder = field(default_factory=Recorder)

    @property
    def shown_first(self) -> Recorder:
        """The recorder of the first of them; an empty one as long as there is none."""
        return self.ones[0].recorder if self.ones else self._none

    def find(self) -> None:
        """Look through the folders again. Checkpoints that are gone stay, with what was known of them."""
        self._found_s = time.monotonic()
        notes: list[str] = []
        empty: list[CheckpointError] = []
        labels = labels_of(self.places)
        for place in self.places:
            # What is known to be one stays one: it is not asked for again.
            if place in self._known or is_checkpoint(place):
                notes += self._add({str(place): place})
                continue
            found = checkpoints_below(place, self._known)
            # By the folder they are in, if there are several.
            before = "" if len(self.places) == 1 else f"{labels[place]}/"
            notes += self._add({f"{before}{below}": path for below, path in found.checkpoints.items()})
            empty += [] if found.checkpoints else [nothing_found(place, found)]
            shown = found.unreadable[:UNREADABLE_SHOWN_MAX]
            left = len(found.unreadable) - len(shown)
            notes += [f"not looked through: {one}" for one in shown]
            notes += [f"… and {left:,} more folders cannot be read"] if left else []
            notes += [f"{place}: {found.left_out}"] if found.left else []
            notes += [f"{place} has more than {FOUND_MAX} checkpoints: not all are shown"] if found.more else []
        self.notes, self._empty = tuple(notes), tuple(empty)

    def check(self) -> None:
        """Look through the folders. Raise CheckpointError if there is nothing to show yet at some place."""
        self.find()
        for error in self._empty[:1]:
            raise error

    def round(self, shown: Shown, asking: Asking) -> float:
        """Read what is new of all, show it, and return how many seconds to rest."""
        began_s = time.monotonic()
        if self._found_s is None or began_s - self._found_s >= FIND_S:
            self.find()
        nameless: list[str] = []
        for read, one in enumerate(self.ones):
            is_new = one.kept.last < 0 and one.problem is None
            if is_new:
                shown.note((*self.notes, f"reading: {read:,} of {len(self.ones):,} checkpoints are read"))
                shown.watch(one.recorder)
            said = [*one.look(self.batches), *asking.tell(one)]
            for view in one.kept.views.values():
                shown.note(said, view.source.query_id, one.passing, awaited=one.awaited)
            # A checkpoint in which nothing is known of a whole batch has no page of its own.
            nameless += [] if one.kept.views else [f"{one.name}: {note}" for note in said]
            if is_new:
                shown.unreadable(self._problems())
        asking.ask(self.ones)
        shown.note((*self.notes, *nameless))
        shown.unreadable(self._problems())
        return REST_TIMES * (time.monotonic() - began_s)

    def _problems(self) -> list[Unreadable]:
        return [one.problem for one in self.ones if one.problem is not None]

    def _add(self, found: Mapping[str, Place]) -> Sequence[str]:
        """Follow those that are new, by their names, and once what several paths lead to.

        Return why some are not followed yet, a sentence each.
        """
        new: dict[Place, str] = {}
        for name, path in found.items():
            if path not in self._known and (real := resolved(path)) not in self._resolved:
                self._resolved.add(real)
                new[path] = name
        problems: list[str] = []
        for (path, name), query_id in zip(new.items(), at_once(_query_id_of, list(new)), strict=True):
            if isinstance(query_id, CheckpointError):
                self._resolved.discard(resolved(path))
                problems.append(f"{path} is not looked at yet: {query_id}")
                continue
            self._known.add(path)
            recorder = Recorder()
            # Copies of a checkpoint have one id, and partial ones none.
            own = query_id if query_id and query_id not in self._ids else _id_of(path, query_id)
            self._ids.add(own)
            if any(one.name == name for one in self.ones):
                name = str(path.absolute() if isinstance(path, Path) else path)
            self.ones.append(Followed(CheckpointHistory(path, recorder, name=name, recorded_as=own), recorder))
        return problems


def _query_id_of(path: Place) -> str | CheckpointError:
    try:
        return query_id_of(path)
    except CheckpointError as error:
        return error


def labels_of(places: Iterable[Place]) -> Mapping[Place, str]:
    """What to call folders: the last part of the path of each or, where others have the same, as many as differ."""
    parts = {place: [part for part in str(place).split("/") if part] for place in places}
    found: dict[Place, str] = {}
    for place, own in parts.items():
        others = [other for one, other in parts.items() if one != place]
        enough = (count for count in range(1, len(own)) if all(own[-count:] != other[-count:] for other in others))
        count = next(enough, len(own))
        found[place] = "/".join(own[-count:]) or str(place)
    return found


def _id_of(path: Place, query_id: str) -> str:
    """An id for a checkpoint that has none of its own."""
    digest = hashlib.blake2s(str(path).encode(errors="surrogatepass"), digest_size=6).hexdigest()
    return f"{query_id or 'checkpoint'}-{digest}"
