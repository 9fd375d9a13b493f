"""Finds the leader of each partition that is read, and decides when a partition or its records are lost.

That one broker does not know a partition does not make it lost: others are asked, until the time for the read is over,
or each broker itself has denied it again and again for `GONE_AFTER_S`, and each time knew another topic, or the new one
of that name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterUnreachable, DataLossError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.cluster_session import UNKNOWN_TOPIC_GRACE_S, Broker, Leaders
from evensplit.kafka.deadline import Clock
from evensplit.kafka.fetch import problems
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.leader import PATIENCE_MIN_S
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.fetch.second_opinion import Search, is_informed
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.wire.error_codes import (
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
    describe_code,
    is_retriable,
)

GONE_AFTER_S = 5.0
"""A partition that each broker denies for so long, while it knows other topics, is gone. Until the time for the read is
over, the rest of the batch would wait for nothing, and so would other batches for the task's place."""

WITNESSES_MAX = 3
"""So many other topics are asked for along with one that seems to be gone: a broker that starts knows of none yet."""


class Waiting:
    """A clock that runs only while the reader waits for brokers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.now_s = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Let it run."""
        begun_s = self._clock.now_s()
        try:
            yield
        finally:
            self.now_s += self._clock.now_s() - begun_s


class Routing:
    """Finds a leader for each read in `unassigned`, and raises or passes over losses.

    `due`: when, on the network's clock, leaders are looked up again.
    `named`: by cluster and topic, the brokers that gave records by the topic's name although its id is given, each with
    one of the reads that it gave records of. `handed_out`: those of them whose records became rows.
    """

    def __init__(
        self,
        reads: Sequence[PartitionRead],
        clusters: Mapping[str, ClientSettings],
        pool: Pool,
        waiting: Waiting,
        *,
        topic_ids: Mapping[tuple[str, str], str],
        cluster_ids: Mapping[str, str],
        skip_lost: bool,
    ) -> None:
        self.unassigned = list(reads)
        self._keys = {(read.split.cluster, read.split.topic): read.key for read in reads}
        self.due = 0.0
        self._settings = clusters
        self._pool = pool
        self._clock = pool.network.clock
        self._waiting = waiting
        self._topic_ids = topic_ids
        self._cluster_ids = defaultdict(str, cluster_ids)
        self._skip_lost = skip_lost
        # Clusters whose cached metadata may be older than the topic ids of the ranges, or from another cluster.
        self._unseen = {cluster for (cluster, _), topic_id in topic_ids.items() if topic_id}
        self._unseen |= {cluster for cluster, cluster_id in cluster_ids.items() if cluster_id}
        self.named: defaultdict[tuple[str, str], dict[Address, PartitionRead]] = defaultdict(dict)
        self.handed_out: set[tuple[str, str, Address]] = set()
        self._failures = 0

    def resolve_leaders(self) -> list[tuple[PartitionRead, Broker]]:
        """Return the reads in `unassigned` that have a leader now, with the leader. The others stay there."""
        found: list[tuple[PartitionRead, Broker]] = []
        if not self.unassigned or self._clock.now_s() < self.due:
            return found
        by_cluster: defaultdict[str, list[PartitionRead]] = defaultdict(list)
        for read in self.unassigned:
            self.raise_if_overdue(read)
            if not read.finished:
                by_cluster[read.split.cluster].append(read)
        self.unassigned = []
        for cluster, reads in by_cluster.items():
            try:
                leaders = self._leaders(cluster, reads)
            except ClusterUnreachable as error:
                # A read whose time is over raises; the others get another attempt.
                for read in reads:
                    # What is not in the metadata is gone. But what a leader said of its log may not hold any more, and
                    # what it says afterwards is looked into anew.
                    if read.search is None or not read.search.denied:
                        read.search = None
                        read.trouble = read.trouble if isinstance(read.trouble, BrokerError) else error
                    self.raise_if_overdue(read)
                    if not read.finished:
                        self.unassigned.append(read)
                continue
            for read in reads:
                broker = self._leader_of(read, leaders)
                # That it has no leader does not mean that it is gone.
                denied = broker is None and isinstance(read.trouble, DataLossError)
                if read.search is not None and read.search.denied and not denied:
                    problems.take_back(read, self._waiting.now_s)
                if read.search is None and isinstance(read.trouble, DataLossError):
                    read.search = Search(self._waiting.now_s)
                if read.search is not None:
                    informed = is_informed(leaders, read.split.topic)
                    read.search.hear(leaders, self._waiting.now_s, denied=denied, informed=informed)
                if broker is None:
                    self.unassigned.append(read)
                else:
                    found.append((read, broker))
        if self.unassigned:
            self.rest(self.unassigned[0].split.cluster)
        return found

    def rest(self, cluster: str) -> None:
        """Pause before leaders are looked up again: longer each time, as long as no read makes progress."""
        settings = self._settings[cluster]
        pause_s = pause_after(settings, self._failures)
        self._failures += 1
        searched = next((read for read in self.unassigned if read.search is not None), None)
        if searched is not None and searched.search is not None:
            # There must be time to ask every broker, and one of them twice.
            pause_s = min(pause_s, self._sought_s(searched) / (2 * len(searched.search.unheard()) + 2))
        self.due = self._clock.now_s() + max(pause_s, settings.retry_backoff_ms / 4000, 0.001)

    def note_progress(self) -> None:
        """Make the next pause short again, since a read made progress."""
        self._failures = 0

    def note_named(
        self, reads: Iterable[PartitionRead], broker: Address, handed_out: Iterable[PartitionRead] = ()
    ) -> None:
        """Note that `broker` gave these by their topics' names, and rows of `handed_out`, for `compare_names`."""
        for read in reads:
            if self._topic_ids.get(read.split[:2]):
                self.named[read.split[:2]].setdefault(broker, read)
        self.handed_out.update((read.split.cluster, read.split.topic, broker) for read in handed_out)

    def compare_names(self) -> None:
        """Check, after reading, the ids of all topics that were read by name.

        Each broker that gave records is asked itself: it knows which topic it had then, and others may be out of date.

        Raises:
            DataLossError: such a broker reports another id, and still does at the deadline; or it gave rows, and denies
                the topic for `GONE_AFTER_S`, so it may have had another one of that name in between.
            ClusterUnreachable: such a broker could not be asked until then.
        """
        for cluster in sorted({cluster for cluster, _ in self.named}):
            self._compare(cluster, {topic: givers for (of, topic), givers in self.named.items() if of == cluster})
        self.named.clear()
        self.handed_out.clear()

    def _compare(self, cluster: str, unsure: dict[str, dict[Address, PartitionRead]]) -> None:
        """`unsure`: by topic, the brokers that gave its records. They are asked one after the other."""
        settings = self._settings[cluster]
        until_s = self._waiting.now_s + settings.progress_timeout_ms / 1000
        others: dict[tuple[str, Address], tuple[PartitionRead, str, str]] = {}
        denied_s: dict[tuple[str, Address], float] = {}
        failures = 0
        while True:
            left = {giver: any(giver == other for _, other in others) for givers in unsure.values() for giver in givers}
            with self._waiting():
                leaders = self._client(cluster).leaders(
                    [next(iter(givers.values())).key for givers in unsure.values()],
                    refresh=True,
                    timeout_s=max(until_s - self._waiting.now_s, PATIENCE_MIN_S),
                    cluster_id=self._cluster_ids[cluster],
                    prefer=sorted(left, key=lambda giver: (left[giver], giver)),
                )
            failures += 1
            for topic, givers in unsure.items():
                expected, found = self._topic_ids[cluster, topic], leaders.topic_ids[topic]
                denied = leaders.unknown.get(next(iter(givers.values())).key) == UNKNOWN_TOPIC_OR_PARTITION
                for giver in list(givers):
                    if found and found != expected:
                        if giver == leaders.answered:
                            others[topic, giver] = givers[giver], expected, found
                    elif not found and (topic, giver) in others:
                        # The topic is gone by now, which does not undo that it had another id.
                        continue
                    elif giver != leaders.answered and giver in leaders.brokers:
                        continue
                    elif denied and (cluster, topic, giver) in self.handed_out:
                        now_s = self._waiting.now_s
                        if now_s - denied_s.setdefault((topic, giver), now_s) >= GONE_AFTER_S:
                            raise problems.vanished(givers[giver])
                    else:
                        # A broker that does not list the topic any more has seen all that happened to it before.
                        del givers[giver]
                        others.pop((topic, giver), None)
                        denied_s.pop((topic, giver), None)
                        failures = 0
            unsure = {topic: givers for topic, givers in unsure.items() if givers}
            if not unsure:
                return
            if self._waiting.now_s > until_s:
                break
            if failures:
                with self._waiting():
                    self._clock.sleep(pause_after(settings, failures - 1))
        if others:
            raise problems.mixed(*next(iter(others.values())))
        if denied_s:
            topic, giver = next(iter(denied_s))
            raise problems.vanished(unsure[topic][giver])
        givers = next(iter(unsure.values()))
        raise problems.unsure(next(iter(givers.values())), sorted(givers), settings.progress_timeout_ms)

    def _client(self, cluster: str) -> ClusterClient:
        return self._pool.client(cluster, self._settings[cluster])

    def _leaders(self, cluster: str, reads: Sequence[PartitionRead]) -> Leaders:
        # After a failure another broker is asked, since wrong metadata of this one may be the cause.
        failed = any(read.trouble is not None for read in reads)
        # A partition that seems to be gone needs the answer of every broker, also of those that lead nothing here.
        unheard = {broker for read in reads if read.search is not None for broker in read.search.unheard()}
        keys = [read.key for read in reads]
        if any(read.search is not None for read in reads):
            asked = {topic for topic, _ in keys}
            others = [key for (of, topic), key in self._keys.items() if of == cluster and topic not in asked]
            keys += others[:WITNESSES_MAX]
        with self._waiting():
            leaders = self._client(cluster).leaders(
                keys,
                refresh=failed or cluster in self._unseen,
                timeout_s=max(min(map(self._sought_s, reads)), PATIENCE_MIN_S),
                cluster_id=self._cluster_ids[cluster],
                turn=failed,
                prefer=sorted(unheard),
            )
        self._unseen.discard(cluster)
        return leaders

    def _leader_of(self, read: PartitionRead, leaders: Leaders) -> Broker | None:
        """The leader of `read`, by the metadata of one broker; None if it has none: `read.trouble` then says why."""
        broker, topic_id = leaders.known.get(read.key), leaders.topic_ids[read.split.topic]
        expected = self._topic_ids.get(read.split[:2]) or (read.topic_id if read.begun else "")
        if expected and topic_id and topic_id != expected:
            read.trouble = problems.created_anew(read, expected, topic_id)
            return None
        if broker is None:
            self._note_no_leader(read, leaders.unknown[read.key])
            return None
        epoch = leaders.epochs[read.split.topic][read.split.partition]
        # Epochs never go back while a topic keeps its id: a leader with an earlier one was cut off from the others.
        known = max(read.epoch_seen, read.epoch, read.epoch_last)
        if not (expected or topic_id) and read.epoch_refused_by == broker.address and 0 <= epoch < known:
            # Or, where topics have no ids, it is another topic. If so, all brokers say so.
            read.trouble = problems.begun_anew(read, known, epoch)
            return None
        read.follows, read.empty_responses, read.topic_id, read.leader = False, 0, topic_id, broker.address
        read.leader_epoch = max(epoch, known) if epoch >= 0 else epoch
        if topic_id and epoch >= 0:
            read.epoch_seen = read.leader_epoch
        return broker

    def _note_no_leader(self, read: PartitionRead, code: int) -> None:
        """Remember why `read` has no leader; raises if that is final."""
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            read.trouble = problems.absent(read)
            return
        read.trouble = BrokerError(read.split.cluster, f"{read}: its leader is not known: {describe_code(code)}", code)
        if not is_retriable(code):
            raise read.trouble

    def look(self, read: PartitionRead, look: Callable[[PartitionRead], bool | None]) -> bool | None:
        """The result of `look`, which asks the leader; None if that did not answer in time or lost the partition.

        The metadata then tells which broker has it.
        """
        try:
            return look(read)
        except BrokerError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
            read.trouble = error
        except ClusterUnreachable as error:
            read.trouble = error
        return None

    def check_loss(self, read: PartitionRead) -> bool:
        """Whether the offset that the leader does not have is lost; raises if losses may not be passed over.

        If not, the leader has it after all, or another broker may, and it is requested again.
        """
        first, behind = (self._offset(read, which) for which in (EARLIEST, LATEST))
        if read.position < first:
            # The start of a log only grows, so this is true even if the broker is out of date.
            self.lose(read, problems.starts_later(read, first, behind), first)
            # The log may belong to another topic by now, so its leader and id are looked up again.
            self._unseen.add(read.split.cluster)
            return True
        if read.position > behind:
            read.trouble = problems.ends_before(read, first, behind)
            return False
        detail = f"{read}: the broker does not find the offset, although its log now has {first} to {behind - 1}"
        read.trouble = BrokerError(read.split.cluster, detail, OFFSET_OUT_OF_RANGE)
        # A broker that does not know the last epoch answers like this. Records are compared with it all the same.
        read.epoch_behind = -1
        return False

    def _offset(self, read: PartitionRead, which: int) -> int:
        left_s = max(self.left_s(read), PATIENCE_MIN_S)
        with self._waiting():
            found = self._client(read.split.cluster).list_offsets(
                {read.key: which},
                undecided=True,
                timeout_s=left_s,
                cluster_id=self._cluster_ids[read.split.cluster],
            )
        return found[read.key]

    def settle(self, read: PartitionRead) -> bool | None:
        """Pass over the range's rest, of which the broker has nothing, unless it is remote. None: another one leads."""
        left_s = max(self.left_s(read), PATIENCE_MIN_S)
        client, cluster_id = self._client(read.split.cluster), self._cluster_ids[read.split.cluster]
        with self._waiting():
            # Looked up after the empty responses, since the first local offset only grows.
            local = client.earliest_local(read.key, timeout_s=left_s, cluster_id=cluster_id)
            leaders = client.leaders([read.key], timeout_s=left_s, cluster_id=cluster_id)
        # This look-up is by the topic's name, even if the records were requested by id.
        for broker in leaders.known.values():
            self.note_named([read], broker.address)
        if 0 <= read.leader_epoch < (epoch := leaders.epochs.get(read.split.topic, {}).get(read.split.partition, -1)):
            # The log of another leader says nothing about responses of the one before.
            read.empty_responses, read.trouble = 0, problems.led_anew(read, epoch)
            return None
        if read.position >= local:
            read.advance(read.end, self._waiting.now_s)
            return True
        read.remote, read.empty_responses, read.trouble = True, 0, problems.remote(read, local)
        return False

    def lose(self, read: PartitionRead, error: DataLossError, behind: int = problems.EVERYTHING) -> None:
        """Raise `error`, or if losses may be skipped, pass over everything before offset `behind`."""
        if not self._skip_lost:
            raise error
        problems.pass_over(read, error, behind, self._waiting.now_s)

    def left_s(self, read: PartitionRead) -> float:
        """How long `read` may still wait for brokers without progress; negative if its time is over."""
        return self._settings[read.split.cluster].progress_timeout_ms / 1000 - (self._waiting.now_s - read.stamp_s)

    def _sought_s(self, read: PartitionRead) -> float:
        """As `left_s`; a read that seems to be gone is looked for at least until its `Search` ends."""
        left_s = self.left_s(read)
        if read.search is None:
            return left_s
        return max(left_s, read.search.until_s(self._grace_s(read)) - self._waiting.now_s)

    def _grace_s(self, read: PartitionRead) -> float:
        return min(UNKNOWN_TOPIC_GRACE_S, self._settings[read.split.cluster].progress_timeout_ms / 2000)

    def raise_if_overdue(self, read: PartitionRead) -> None:
        """Raise the trouble of `read` if it has lasted too long; a loss may be passed over instead."""
        trouble, search = read.trouble, read.search
        if isinstance(trouble, DataLossError) and search is not None and search.denied_s() >= GONE_AFTER_S:
            self.lose(read, trouble)
            return
        if trouble is None or self.left_s(read) > 0:
            return
        timeout_ms = self._settings[read.split.cluster].progress_timeout_ms
        if not isinstance(trouble, DataLossError):
            raise problems.overdue(read, trouble, timeout_ms)
        # If something else took up the time, the partition has not been looked for yet.
        if search is None or self._sought_s(read) > 0:
            return
        brokers = search.unsure(self._grace_s(read))
        if brokers:
            raise problems.unheard(read, trouble, brokers, timeout_ms)
        self.lose(read, trouble)


def pause_after(settings: ClientSettings, failures: int) -> float:
    """The pause after so many earlier failures: it doubles up to a maximum, and is never 0."""
    return max(min(settings.retry_backoff_ms << min(failures, 16), settings.retry_backoff_max_ms), 1) / 1000
