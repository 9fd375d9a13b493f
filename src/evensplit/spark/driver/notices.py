"""Problems that a user should know of: unreachable clusters, missing topics, unreadable metadata, open transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, some
from evensplit.errors import ClusterError, ClusterUnreachable, EvenSplitError, SubscriptionError, line_of
from evensplit.spark.driver.agenda import Due
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.driver.silence import Silence
from evensplit.spark.driver.start_lookup import stops_that_differ
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.options.spec.query import UNREACHABLE_TIMEOUT
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult
from evensplit.times import time_of

log = logging.getLogger("evensplit")

_STANDS = "its known partitions keep their positions, and are not read"

SHOWN_MAX = 3

LATE_AGAIN_S = 60.0
"""How long, in s, until the log says again that a cluster is late: one may be slow now and then."""


class Notices:
    """Finds problems in the results of polls: raises them if the run cannot go on, and logs them once if it can."""

    def __init__(
        self,
        metadata: MetadataPoller,
        monitor: ClusterMonitor,
        options: SourceOptions,
        scheduler: Scheduler,
    ) -> None:
        self._metadata = metadata
        self._monitor = monitor
        limit_ms = options.unreachable_timeout_ms or UNREACHABLE_TIMEOUT.default
        self._transactions = OpenTransactions(limit_ms, scheduler.monotonic, scheduler.now_ms)
        self.silence = Silence(monitor, scheduler.monotonic)
        self._monotonic = scheduler.monotonic
        self._failed: dict[str, ClusterError] = {}
        self._away_since: dict[str, tuple[float, int]] = {}
        """Cluster -> since when it is unreachable, in s, and at which level that was logged."""
        self._late_due: dict[str, float] = {}
        self._pins = bool(options.pins)
        self._unreadable = 0
        self._compared: Sequence[ClusterOptions] | None = None
        self.left_out: tuple[str, ...] = ()
        """Clusters that a run to the end does without."""
        self.notices: tuple[str, ...] = ()
        """All other problems, a sentence each."""
        self.stops: tuple[str, ...] = ()
        """Partitions that do not stop where the options say, a sentence for each cluster."""

    def begin(self) -> None:
        """Begin a session: compare its stops anew."""
        self._compared = None

    @property
    def unreachable(self) -> dict[str, str]:
        """Cluster -> why it does not answer; late clusters, which may only be slow, are among them."""
        late = {
            name: ClusterUnreachable(name, f"it has not answered within {self._monitor.patience_s:g} s; {why}")
            for name, why in self._monitor.late.items()
        }
        return {name: str(error) for name, error in {**late, **self._failed}.items()}

    def check(self, answers: Mapping[str, PollResult], *, fresh: bool, complete: bool, bear: bool) -> None:
        """Take in the results of all clusters.

        Args:
            fresh: nothing has been read yet, so every topic and partition has to exist.
            complete: the ends are to be fixed, so every cluster has to answer.
            bear: clusters that do not answer are left out of the run instead.

        Raises:
            SubscriptionError, ClusterError: one of that is not so; with all problems of all clusters.
        """
        failed = {name: answer for name, answer in sorted(answers.items()) if isinstance(answer, ClusterError)}
        failed.update(
            (name, ClusterUnreachable(name, f"it has not answered yet; {why}"))
            for name, why in self._monitor.silent().items()
        )
        missing = list(self._metadata.missing)
        incomplete: list[str] = []
        leaders: list[str] = []
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot):
                missing.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.missing)
                incomplete.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.incomplete)
                lacking = len(answer.listing.partitions) - len(answer.latest)
                if lacking:
                    leaders.append(f"cluster {name!r}: the leaders of {counted(lacking, 'partition')} give no offsets")
        errors = list(failed.values()) if (fresh or complete) and not bear else []
        raise_all(errors, [*(missing if fresh else []), *(incomplete if fresh or complete else [])])
        self.left_out = tuple(failed) if bear else ()
        for name, error in failed.items():
            if name not in self._failed:
                what = "is left out of this run" if bear else "does not answer"
                log.warning("cluster %s %s; its partitions keep their positions: %s", name, what, line_of(error))
                self._note_away(name, logging.WARNING)
        self._failed = failed
        notices = (*(f"{one}; {_STANDS}" for one in (*missing, *incomplete, *leaders)), *self._monitor.notices())
        for notice in notices:
            if notice not in self.notices:
                log.warning(notice)
        self._transactions.look(answers, self._monitor.looked_at)
        # These have been logged where they were found.
        self.notices = (
            *notices,
            *([self._metadata.notice] if self._metadata.notice else []),
            *self._transactions.notices,
        )

    def say_outages(self, answers: Mapping[str, PollResult], late: Collection[str]) -> None:
        """Log which clusters are not read because they are `late`, and which ones answer again, once for each outage.

        `check` has logged those whose polls failed.
        """
        now_s = self._monotonic()
        for name in late:
            if name not in self._away_since and now_s >= self._late_due.get(name, now_s):
                self._late_due[name] = now_s + LATE_AGAIN_S
                reason = self._monitor.reason(name)
                level = logging.WARNING if reason else logging.INFO
                self._note_away(name, level)
                what = f"within {self._monitor.patience_s:g} s ({reason or self._monitor.late[name]})"
                log.log(level, "cluster %s has not answered %s; it is not read until it does", name, what)
        for name in sorted(self._away_since.keys() - {*late, *self._failed}):
            since_s, level = self._away_since.pop(name)
            # Otherwise the cluster is not to be read any more.
            if isinstance(answers.get(name), ClusterSnapshot):
                away_s = self._monitor.looked_until(name) - since_s
                log.log(level, "cluster %s answers again, after %.0f s", name, away_s)

    def _note_away(self, name: str, level: int) -> None:
        since_s, before = self._away_since.get(name, (self._monotonic() - self._monitor.away_ms(name) / 1000, 0))
        self._away_since[name] = since_s, max(before, level)

    def say_uncompared(self, state: EnumeratorState) -> None:
        """Log which clusters have not been polled since ranges of them were read."""
        for name in sorted(state.session.read):
            if state.clusters[name].removed_at_ms is None:
                log.warning(
                    "cluster %s: it could not be checked whether tasks skipped lost records; the logs of the tasks say",
                    name,
                )

    def say_unreadable(self, state: EnumeratorState) -> None:
        """Log which partitions no reader may read, when their number has changed."""
        if not self._pins:
            return
        unread = [split.id for split in state.load() if split.owner is None]
        if len(unread) != self._unreadable:
            self._unreadable = len(unread)
            log.warning("%s may be read by no reader (option pin): %s", counted(len(unread), "partition"), some(unread))

    def compare_stops(self, state: EnumeratorState, clusters: Sequence[ClusterOptions]) -> None:
        """Log which partitions do not stop where the options say, once for each change of the options."""
        if self._compared is clusters:
            return
        self._compared, before = clusters, self.stops
        self.stops = stops_that_differ(state, clusters)
        for notice in self.stops:
            if notice not in before:
                log.warning(notice)

    @property
    def dues(self) -> tuple[Due, ...]:
        """When time alone makes a problem of something."""
        return (*self._transactions.dues, *self.silence.dues)


def raise_all(errors: Sequence[EvenSplitError], problems: Sequence[str]) -> None:
    """Raise a single error as it is, and several as one that lists them all; return if there are none."""
    if len(errors) == 1 and not problems:
        # The calls inside the thread that polled the cluster tell a user nothing that the text does not.
        raise errors[0].with_traceback(None)
    if errors or problems:
        raise SubscriptionError([*map(str, errors), *problems])


@dataclass(frozen=True, slots=True)
class _Held:
    """A log whose last stable offset is held by an open transaction."""

    stable: int
    """The last stable offset."""
    end: int
    """The log end offset."""
    since_s: float
    """When `stable` was first seen, by the monotonic clock."""
    since_ms: int
    """The same in ms since 1970."""
    told: bool = False
    """It has been logged."""


class OpenTransactions:
    """Finds transactions that do not end: under read_committed, records after their beginning are not read.

    Offsets never go back, so a last stable offset that is the same in two polls was the same in between. The cost of a
    poll depends on how many partitions have open transactions.

    Args:
        limit_ms: a last stable offset that has not moved for so long, with records after it, is a problem.
    """

    def __init__(self, limit_ms: int, monotonic: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._limit_s = limit_ms / 1000
        self._monotonic = monotonic
        self._now_ms = now_ms
        self._held: dict[str, dict[TopicPartition, _Held]] = {}
        self._numbers: dict[str, int] = {}
        self._due_s: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self.notices: tuple[str, ...] = ()
        """A sentence for each cluster with such a transaction, as of its last poll."""

    def look(self, answers: Mapping[str, PollResult], looked_at: Callable[[str], float]) -> None:
        """Take in the results of all clusters; log what is new.

        Args:
            looked_at: cluster -> when its poll was sent, in s. It can be taken in long afterwards.
        """
        for name in self._numbers.keys() - answers.keys():
            for of in (self._held, self._numbers, self._due_s, self._said):
                of.pop(name, None)
        for name, answer in answers.items():
            if isinstance(answer, ClusterSnapshot) and self._numbers.get(name) != answer.number:
                self._numbers[name] = answer.number
                self._take(name, answer, looked_at(name))
        said = ((name, self._said[name]) for name in sorted(self._said))
        self.notices = tuple(sentence for name, sentence in said if isinstance(answers[name], ClusterSnapshot))

    @property
    def dues(self) -> Iterable[Due]:
        """When another poll may find such a transaction."""
        return (Due(due_s, name, self._numbers[name]) for name, due_s in self._due_s.items())

    def _take(self, name: str, view: ClusterSnapshot, seen_s: float) -> None:
        before = self._held.pop(name, {})
        self._said.pop(name, None)
        self._due_s.pop(name, None)
        if not view.log_ends:
            return
        seen_ms = self._now_ms() - int((self._monotonic() - seen_s) * 1000)
        held: dict[TopicPartition, _Held] = {}
        news: list[tuple[TopicPartition, _Held]] = []
        late: list[tuple[TopicPartition, _Held]] = []
        for key, end in view.log_ends.items():
            stable, known = view.latest.get(key), before.get(key)
            if stable is None:
                continue
            one = _Held(stable, end, seen_s, seen_ms)
            if known is not None and known.stable == stable:
                one = replace(known, end=end)
            if seen_s - one.since_s >= self._limit_s:
                late.append((key, one))
                if not one.told:
                    one = replace(one, told=True)
                    news.append((key, one))
            held[key] = one
        self._held[name] = held
        waiting = [one.since_s for one in held.values() if not one.told]
        if waiting:
            self._due_s[name] = min(waiting) + self._limit_s
        if late:
            self._said[name] = self._sentence(name, late)
        if news:
            log.warning(self._sentence(name, news))

    def _sentence(self, name: str, late: list[tuple[TopicPartition, _Held]]) -> str:
        (topic, partition), first = late[0]
        count = counted(len(late), "partition")
        where = "; ".join((*map(_shown, late[:SHOWN_MAX]), *(["…"] if len(late) > SHOWN_MAX else [])))
        return (
            f"cluster {name!r}: for more than {self._limit_s:g} s (unreachableTimeout) a transaction has been open in "
            f"{count}, and under read_committed nothing after its beginning is read: {where}. Let its producer end "
            f"it, or abort it: kafka-transactions.sh abort --topic {topic} --partition {partition} "
            f"--start-offset {first.stable}"
        )


def _shown(late: tuple[TopicPartition, _Held]) -> str:
    (topic, partition), one = late
    since = time_of(one.since_ms)
    return (
        f"topic {topic!r}, partition {partition} has its last stable offset at {one.stable} since {since} UTC, and its "
        f"log ends at {one.end}"
    )
