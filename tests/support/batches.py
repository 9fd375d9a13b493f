"""Batches of a source, one after another, as a test wants them: no Spark, no Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evensplit.core.model import Cause, ClusterState, Loss, Split, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.recorder import Recorder
from evensplit.observe.source_view import Batch, Source, View, advance


class Script:
    """A source, and what happens to it until the next batch. Owners are dealt by turns."""

    def __init__(
        self, *, query: str = "query-1", name: str | None = "orders", number: int = 0, readers: int = 2
    ) -> None:
        self.source = Source(query, number, name)
        self.run_id = "run-1"
        self.number = 0
        self.at_ms = 1_000_000
        self.unreachable: dict[str, str] = {}
        self._readers = readers
        self._clusters: dict[str, ClusterState] = {}
        self._splits: dict[SplitId, Split] = {}
        self._losses: list[Loss] = []
        self._generation = 0
        self._turn = 0
        self._ends: dict[SplitId, int] = {}
        self._last = EnumeratorState()

    def discover(self, cluster: str, topic: str, partitions: int, *, first: int = 0) -> None:
        """More partitions of a topic, empty so far."""
        self._clusters.setdefault(cluster, ClusterState(cluster, ("host:1",), False, True))
        known = sum(key[:2] == (cluster, topic) for key in self._splits)
        for number in range(known, known + partitions):
            key = SplitId(cluster, topic, number)
            self._splits[key] = Split(key, "id", first, first)
            self._ends[key] = first

    def rescale(self, readers: int) -> None:
        """Another number of readers."""
        self._readers = readers

    def shuffle(self) -> None:
        """Owners change for no good reason."""
        self._turn += 1

    def write(self, offsets: int, cluster: str | None = None) -> None:
        """So many records in each partition."""
        for key in self._ends:
            if cluster in (None, key.cluster):
                self._ends[key] += offsets

    def read(self, offsets: int | None = None) -> None:
        """So many offsets of each partition of a cluster that answers, or all that there are."""
        for key, split in self._splits.items():
            position = split.position or 0
            if split.active and key.cluster not in self.unreachable:
                end = self._ends[key] if offsets is None else min(self._ends[key], position + offsets)
                self._splits[key] = split._replace(position=max(position, end))

    def lose(self, key: SplitId, offsets: int | None) -> None:
        """Some records were gone before they were read."""
        position = self._splits[key].position or 0
        self._losses.append(Loss(key, Cause.AGED_OUT, position, position + (offsets or 0), offsets))

    def retain(self, cluster: str) -> None:
        """A cluster is not to be read any more."""
        self._mark(cluster, 7)

    def restore(self, cluster: str) -> None:
        """It is again."""
        self._mark(cluster, None)

    def forget(self, cluster: str) -> None:
        """It is gone for good."""
        del self._clusters[cluster]
        self._splits = {key: split for key, split in self._splits.items() if key.cluster != cluster}
        self._ends = {key: end for key, end in self._ends.items() if key.cluster != cluster}

    def restart(self) -> None:
        """The query is started again."""
        self.run_id = f"run-{int(self.run_id.rpartition('-')[2]) + 1}"

    def batch(self, *, reported: bool = True, seconds: float = 10.0, rows: int | None = 1) -> Batch:
        """All that has happened since the last one. `reported`: with what is known of the world."""
        self.at_ms += round(seconds * 1000)
        self._deal()
        end = EnumeratorState(
            self._readers,
            dict(sorted(self._clusters.items())),
            dict(sorted(self._splits.items())),
            generation=self._generation,
            begun=True,
            assigned_readers=tuple(range(self._readers)),
            losses=tuple(self._losses),
        )
        latest = {key: one for key, one in sorted(self._ends.items()) if key.cluster not in self.unreachable}
        report = Report(latest, dict(self.unreachable)) if reported else Report()
        made = Batch(self.source, self.number, self._last, end, report, self.at_ms, self.run_id, rows, 500)
        self.number += 1
        self._last = end
        self._losses = []
        self._splits = {key: split._replace(first=None) for key, split in self._splits.items()}
        return made

    def _mark(self, cluster: str, removed_at_ms: int | None) -> None:
        for key, split in self._splits.items():
            if key.cluster == cluster:
                # Splits that are no longer read were not read in this batch either.
                known = self._last.splits.get(key)
                unread = split.first if known is None else known.position
                position = unread if removed_at_ms is not None else split.position
                self._splits[key] = split._replace(removed_at_ms=removed_at_ms, owner=None, position=position)
        self._clusters[cluster] = replace(self._clusters[cluster], removed_at_ms=removed_at_ms)

    def _deal(self) -> None:
        before = {key: split.owner for key, split in self._splits.items()}
        active = [key for key, split in sorted(self._splits.items()) if split.active]
        for place, key in enumerate(active):
            self._splits[key] = self._splits[key]._replace(owner=(place + self._turn) % self._readers)
        self._generation += before != {key: split.owner for key, split in self._splits.items()}


def taken(recorder: Recorder, batches: Iterable[Batch]) -> None:
    """Have a recorder take in these batches, as a listener would."""
    for batch in batches:
        heard_ms = batch.at_ms if batch.at_ms is None else batch.at_ms + 400
        recorder.add(batch, encode(batch.end), heard_ms=heard_ms)


def orders(clusters: Mapping[str, int], **options: int) -> Script:
    """A source with so many partitions of the topic orders on each cluster."""
    script = Script(**options)  # type: ignore[arg-type]
    for cluster, partitions in clusters.items():
        script.discover(cluster, "orders", partitions)
    return script


def viewed(*batches: Batch) -> View:
    """The view after all of them."""
    view: View | None = None
    for batch in batches:
        view = advance(view, batch)
    assert view is not None
    return view


def eventful() -> Recorder:
    """Two clusters: one has moved, lost and read records, the other does not answer."""
    recorder, script = Recorder(), orders({"east": 4, "west": 1})
    first = script.batch(rows=None)
    script.write(100)
    script.unreachable["west"] = "refused"
    script.read(60)
    script.rescale(3)
    script.lose(SplitId("east", "orders", 1), 7)
    taken(recorder, [first, script.batch(rows=240)])
    return recorder
