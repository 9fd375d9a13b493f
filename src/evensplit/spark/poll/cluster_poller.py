"""Polls one cluster in the background, one poll at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from evensplit.core.model import ListedPartition, Subscription, TopicPattern, Topics
from evensplit.core.state.offset_strategies import Found, Lookups, TopicPartition
from evensplit.errors import BrokerError, ClusterError
from evensplit.kafka.admin.protocol import ClusterPort, EndsAndEpochs, Listing, are_two_clusters
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.spark.options.parse import ClusterOptions
from evensplit.spark.poll.agreement import Unbelieved, Withheld, Witnesses, joined
from evensplit.spark.poll.log_bounds import LeaderEpochs, LogStarts, undecided_ends
from evensplit.spark.poll.look_ups import LookUps
from evensplit.spark.poll.pace import Pace
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

REFRESH_INTERVAL_S = 0.1
"""A cluster is asked at most this often: when idle, Spark asks for the next batch every 10 ms."""

REST_FACTOR = 4
"""After a look, a cluster is left in peace for so many times the processor time that the look took."""

REST_MAX_S = 1.0
"""But no longer than that: what was written meanwhile is to be read."""

DELETIONS_MAX = 5
"""How often a topic may be deleted between a listing and the look at its logs. Each look has its own deadlines."""

UNBELIEVED_PAUSE_S = 0.1
"""How long after ends that cannot be believed those who need all of them look again."""


class _Question(NamedTuple):
    """What a cluster is asked, how and of whom.

    `before`: the ends by its last answer. `compare`: two brokers are asked what there is.
    """

    port: ClusterPort
    wanted: Subscription
    before: Mapping[TopicPartition, int]
    number: int
    committed: bool
    complete: bool
    discover: bool
    turn: bool
    compare: bool


class ClusterPoller:
    """Asks one cluster, one question at a time, and keeps its last answer.

    `answer`: the last one, or the error that came instead; None before there was any. `options`: how it is reached and
    what is wanted of it. `answered`: it has ever answered; `proofs`: how many settings have led to it.
    `looked_at`, `looked_until`: when the last view was asked for, and when it was there. `heard_s`: for how long the
    cluster has been polled with success. `refused`: why other options than these were not taken; empty if they were.
    """

    def __init__(
        self,
        options: ClusterOptions,
        connect: Callable[[ClusterOptions], ClusterPort],
        scheduler: Scheduler,
        *,
        discovery_interval_s: float,
        watch_starts: bool,
    ) -> None:
        self.options = options
        self.answer: PollResult | None = None
        self.refused = ""
        self.answered = False
        self.proofs = 0
        self.asked_at = 0.0
        self.looked_at = self.looked_until = 0.0
        self.heard_s = 0.0
        self.away_since: float | None = None
        self.look_ups = LookUps(options.id, scheduler)
        self._failed_at = 0.0
        self._connect = connect
        self._scheduler = scheduler
        self._pace = Pace(scheduler)
        self._withheld = Withheld()
        self._discovery_interval_s = discovery_interval_s
        self._port = connect(options)
        self._kafka_id = ""
        self._proven: tuple[ClusterOptions, ClusterPort] | None = None
        self._asked: Future[ClusterSnapshot] | None = None
        self._listed_at: float | None = None
        self._discover = False
        self._turn = False
        self._compare = False
        self._turned_at = 0.0
        self._epochs = LeaderEpochs()
        self._known: dict[TopicPartition, str] = {}
        self._log_starts = LogStarts(watched=watch_starts)
        self._witnesses = Witnesses()
        self._rejected: ClientSettings | None = None

    @property
    def under_way(self) -> Future[ClusterSnapshot] | None:
        """The question that is not answered yet."""
        return self._asked

    @property
    def reached(self) -> ClusterOptions | None:
        """The options, with settings that have led to the right cluster; None before any have."""
        if self._proven is not None:
            return replace(self.options, settings=self._proven[0].settings)
        return self.options if self.answered else None

    def change(self, options: ClusterOptions) -> None:
        """Take other options from now on. They are given up again if they lead to another Kafka cluster."""
        if self._rejected is not None and options.settings == self._rejected:
            options = replace(options, settings=self.options.settings)
        else:
            self._rejected, self.refused = None, ""
        if options == self.options:
            return
        if (options.starting, options.ending) != (self.options.starting, self.options.ending):
            self.look_ups.forget()
        if options.settings == self.options.settings:
            known, self.options = self.options, options
            if options.subscription == known.subscription:
                return
        else:
            if self._proven is None and self.answered:
                self._proven = self.options, self._port
            else:
                self._port.close()
            self.options, self._port = options, self._connect(options)
            self._witnesses = Witnesses()
        # What is under way was asked by the options before.
        self._asked = None
        self._listed_at = None

    def settle(self, kafka_id: str) -> bool:
        """Whether an answer of a cluster that calls itself `kafka_id` is one of the right cluster."""
        if self._proven is None:
            return True
        proven, port = self._proven
        before, self._proven = self._kafka_id, None
        if are_two_clusters(before, kafka_id):
            where = f" ({self.options.where})" if self.options.where else ""
            self.refused = (
                f"cluster {proven.id!r}: the bootstrap servers {', '.join(self.options.settings.bootstrap_servers)}"
                f"{where} lead to another Kafka cluster: expected cluster id {before}, found {kafka_id}. The servers "
                "from before stay in use; correct the metadata, or give the new cluster an id of its own"
            )
            self._port.close()
            self._rejected = self.options.settings
            self.options, self._port = replace(self.options, settings=proven.settings), port
            return False
        port.close()
        self.proofs += 1
        return True

    def discover(self) -> None:
        """With the next question, look for all that is wanted, even if that was done a moment ago."""
        self._discover = True

    def turn(self) -> None:
        """With the next question, ask another broker, if there is one."""
        self._turn = True

    def compare(self) -> None:
        """With the next question, ask two brokers what there is: one may not know all of it yet."""
        self._compare = True

    def ask(self, number: int, *, complete: bool) -> None:
        """Ask in the background, unless something is under way.

        `complete`: an offset that is not to be had is an error.
        """
        if self._asked is not None:
            return
        now = self._scheduler.monotonic()
        due = self._listed_at is None or (
            self._discovery_interval_s > 0 and now - self._listed_at >= self._discovery_interval_s
        )
        self.asked_at = now
        before = self.answer.latest if isinstance(self.answer, ClusterSnapshot) else {}
        committed = self.options.settings.read_committed
        discover = due or self._discover
        # The broker that was asked last may be cut off from the others, and not know what is new.
        turn = discover or self._turn or 0 < self._discovery_interval_s <= now - self._turned_at
        if turn:
            self._turned_at = now
        wanted = self.options.subscription
        question = _Question(self._port, wanted, before, number, committed, complete, discover, turn, self._compare)
        look = partial(self._look, question)
        self._discover = self._turn = self._compare = False
        self._asked = self._scheduler.start(self._pace.timed(look), f"evensplit-{self.options.id}-look")

    def is_due(self) -> bool:
        """Whether it was left in peace for long enough."""
        return self._asked is None and self.due_in_s <= 0

    @property
    def due_in_s(self) -> float:
        """For how long it is still to be left in peace."""
        return self._pace.due_in_s(REFRESH_INTERVAL_S, REST_FACTOR, REST_MAX_S)

    def is_from(self, asked: int) -> bool:
        """Whether the last answer is one to the first `asked` questions of all, and no other is on its way."""
        return isinstance(self.answer, ClusterSnapshot) and self.answer.number <= asked and self._asked is None

    def take(self, gap_max_s: float) -> PollResult | None:
        """The answer to what is under way; None as long as there is none.

        Of the time since the answer before, at most `gap_max_s` counts as `heard_s`.
        """
        asked = self._asked
        if asked is None or not asked.done():
            return None
        self._asked = None
        error = asked.exception()
        if error is None:
            view = asked.result()
            if not self.settle(view.listing.cluster_id):
                return None
            self.proofs += not self.answered
            self._kafka_id, self.answered = view.listing.cluster_id, True
            asked_s, until_s = self.asked_at, self._pace.ended_at
            self.heard_s += min(max(0.0, asked_s - self.looked_until), gap_max_s) + max(0.0, until_s - asked_s)
            self.looked_at, self.looked_until = asked_s, until_s
            view = replace(view, words=self._witnesses.hear(view.listing))
            if view.whole:
                self._listed_at = self.asked_at
            return view
        if not isinstance(error, ClusterError):
            raise error
        return error

    def note_failure(self, gap_max_s: float) -> float:
        """An answer that failed was taken; for how long the cluster had been away when it failed, in s.

        Of the time between two questions at most `gap_max_s` counts: the cluster may well have been there.
        """
        if self.away_since is None:
            self.away_since = self.asked_at
        else:
            self.away_since += max(0.0, self.asked_at - self._failed_at - gap_max_s)
        self._failed_at = self._pace.ended_at
        return self._failed_at - self.away_since

    @property
    def reason(self) -> str:
        """Why what is under way is not answered yet; empty as long as nothing is known."""
        return self._port.trouble

    @property
    def trouble(self) -> str:
        """The same; as long as nothing is known, where it was asked."""
        return self.reason or f"asked at {', '.join(self.options.settings.bootstrap_servers)}"

    def look_up(
        self, purpose: str, wanted: Lookups, partitions: Iterable[ListedPartition], *, patient: bool
    ) -> Found | None:
        """See `LookUps.find`."""
        port = self._port if self._proven is None else self._proven[1]
        return self.look_ups.find(port, purpose, wanted, partitions, patient=patient)

    def close(self) -> None:
        """Drop all connections."""
        self._port.close()
        if self._proven is not None:
            self._proven[1].close()

    def _look(self, asked: _Question) -> ClusterSnapshot:
        """A look; where all offsets are wanted, other ones until all of them can be believed, or the deadline."""
        deadline_s = self._scheduler.monotonic() + self.options.settings.request_timeout_ms / 1000
        if asked.turn:
            asked.port.turn()
        while True:
            try:
                return self._look_once(asked)
            except Unbelieved as error:
                if self._scheduler.monotonic() >= deadline_s:
                    advice = "retried in vain for kafka.request.timeout.ms; see whether the brokers agree about it"
                    raise ClusterError(error.cluster, f"{error.detail}; {advice}") from None
            self._scheduler.sleep(UNBELIEVED_PAUSE_S)
            asked.port.turn()

    def _look_once(self, asked: _Question) -> ClusterSnapshot:
        """One look; where all offsets are wanted and a topic was deleted meanwhile, another one without it."""
        listing, discovered = self._list(asked)
        for _ in range(DELETIONS_MAX):
            try:
                return self._measure(asked, listing, discovered=discovered)
            except BrokerError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                ids = listing.topic_ids
                listing, discovered = self._list(asked)
                if ids.items() <= listing.topic_ids.items():
                    # All of it is still listed: brokers do not agree, or it may not be seen.
                    if asked.compare:
                        raise Unbelieved(error.cluster, error.detail) from error
                    raise
        return self._measure(asked, listing, discovered=discovered)

    def _list(self, asked: _Question) -> tuple[Listing, bool]:
        """The partitions that are looked at, and whether that was a discovery."""
        listing, discovered = self._list_of_one(asked)
        if asked.compare:
            asked.port.turn()
            listing = joined(self.options.id, listing, other := self._list_of_one(asked)[0])
            if listing is not other:
                # What it does not know, it cannot say the leaders of.
                asked.port.turn()
        return listing, discovered

    def _list_of_one(self, asked: _Question) -> tuple[Listing, bool]:
        """The same, as one broker has it."""
        port, wanted, discover = asked.port, asked.wanted, asked.discover
        listing = port.list_partitions(wanted if discover or not isinstance(wanted, TopicPattern) else self._topics())
        if not discover and isinstance(wanted, TopicPattern) and len(listing.partitions) < len(self._known):
            # Something is missing from what is known: whether there is more to it, only a discovery can say.
            discover = self._discovery_interval_s > 0
            listing = port.list_partitions(wanted) if discover else replace(listing, missing=())
        if discover and isinstance(wanted, TopicPattern):
            listing = self._withheld.complete(port, wanted, listing, {topic for topic, _ in self._known})
        if not discover and self._discovery_interval_s <= 0:
            # Discovery is off: only what is known already may be looked at again.
            known = tuple(one for one in listing.partitions if (one.topic, one.partition) in self._known)
            listing = replace(listing, partitions=known)
        return listing, discover

    def _measure(self, asked: _Question, listing: Listing, *, discovered: bool) -> ClusterSnapshot:
        """Where the logs of what is listed begin and end."""
        port, complete, ids = asked.port, asked.complete, listing.topic_ids
        ends = port.list_ends(ids, complete=complete) if ids else EndsAndEpochs({}, {})
        latest, leader_epochs = dict(ends.offsets), ends.epochs
        undecided = undecided_ends(port, latest, complete=complete) if asked.committed and latest else {}
        self._drop_replaced(asked, ids, latest)
        starts = self._log_starts.find(port, ids, complete=complete)
        if len(latest) < len(leader_epochs):
            leader_epochs = {key: leader_epochs[key] for key in latest}
        epochs, refused = self._epochs.check(port, ids, leader_epochs, starts)
        if refused and complete:
            (topic, partition), why = min(refused.items())
            raise Unbelieved(self.options.id, f"topic {topic!r}, partition {partition}: {why}")
        for key in refused:
            del latest[key]
            undecided.pop(key, None)
        if discovered:
            self._known = ids
        fully = not listing.incomplete and ids.keys() <= latest.keys() and ids.keys() <= starts.keys()
        # For topics that are named, every look is a discovery.
        named = not isinstance(asked.wanted, TopicPattern) and self._discovery_interval_s > 0
        whole = fully and (discovered or named)
        discovery = asked.number if whole else 0
        return ClusterSnapshot(listing, whole, starts, latest, asked.number, undecided, discovery, epochs, asked.turn)

    def _topics(self) -> Topics:
        return Topics(tuple(sorted({topic for topic, _ in self._known} | self._withheld.topics)))

    def _drop_replaced(
        self, asked: _Question, ids: Mapping[TopicPartition, str], latest: dict[TopicPartition, int]
    ) -> None:
        """Leave out the offsets of topics that were created anew between the listing and the look at their logs.

        Otherwise the end of the new log would pass for new records of the old one.
        """
        grown = {key[0] for key, end in latest.items() if ids[key] and end > asked.before.get(key, 0)}
        if not grown:
            return
        if asked.complete:
            # There may be no later look that would correct what one broker says.
            asked.port.turn()
        now = asked.port.list_partitions(Topics(tuple(sorted(grown)))).topic_ids
        for key in [key for key in latest if key[0] in grown and now.get(key) not in (ids[key], "")]:
            if not asked.complete:
                del latest[key]
            elif key in now:
                # Not to know it would be another matter: that broker may lag behind.
                raise Unbelieved.two_ids(self.options.id, f"topic {key[0]!r}, partition {key[1]}", ids[key], now[key])
