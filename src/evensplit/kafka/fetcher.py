"""The lane's way to the brokers: who is asked when, and what happens when one does not answer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from evensplit._kernel import FetchedResponse, KernelError, parse_fetch_response
from evensplit.core.starting import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable, DataLossError
from evensplit.kafka import lost
from evensplit.kafka.answer import OFFSET_OUT_OF_RANGE, Answer, Span, sort_out
from evensplit.kafka.api import FETCH, error_name, is_retriable
from evensplit.kafka.connection import BODY_BEGIN, Frame
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch import FETCH_BYTES_MIN, PartitionRead, choose, fetch_request
from evensplit.kafka.leader import Leader, wait_for_answers
from evensplit.kafka.pool import Pool
from evensplit.kafka.port import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.kafka.session import UNKNOWN_TOPIC_GRACE_S
from evensplit.kafka.settings import Address, ClientSettings, join_address

PATIENCE_MIN_S = 0.2
"""A leader always has at least so long to answer."""


class Fetcher:
    """Fetches `reads` to their ends. `responses` does it; `close` has to be called afterwards, whatever happened.

    All times named `..._s` that are compared with `_waited_s` are of its own clock, which runs only while it waits.
    """

    def __init__(
        self,
        reads: Sequence[PartitionRead],
        clusters: Mapping[str, ClientSettings],
        pool: Pool,
        *,
        topic_ids: Mapping[tuple[str, str], str],
        cluster_ids: Mapping[str, str],
        skip_lost: bool,
        response_bytes_max: int,
        buffer_bytes_max: int,
        batch_bytes_max: int,
    ) -> None:
        self._settings = clusters
        self._pool = pool
        self._topic_ids = topic_ids
        self._cluster_ids = defaultdict(str, cluster_ids)
        self._skip_lost = skip_lost
        # What is known already of these may be from before their topic was created anew, or from another cluster.
        self._unseen = {cluster for (cluster, _), topic_id in topic_ids.items() if topic_id}
        self._unseen |= {cluster for cluster, cluster_id in cluster_ids.items() if cluster_id}
        self._response_bytes_max = response_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._leaders: dict[tuple[str, Address], Leader] = {}
        self._homeless = list(reads)
        self._frames: list[Frame] = []
        self._waited_s = 0.0
        self._failures = 0
        self._homes_due = 0.0
        self._answers = 0

    def responses(self) -> Iterator[tuple[bytearray, list[Span]]]:
        """Each response's frame, with what is to be decoded from it before the next one is taken.

        The next request is on its way by then; what answers it waits in the socket, since the frame is used again.
        """
        while True:
            self._find_homes()
            for leader in list(self._leaders.values()):
                if not leader.asked:
                    self._ask(leader)
            if not self._homeless and not any(leader.asked or leader.queue for leader in self._leaders.values()):
                return
            answering = self._next_to_answer()
            answer = self._receive(answering) if answering is not None else None
            if answering is None or answer is None:
                continue
            if all(span.position is not None for span in answer.spans):
                self._ask(answering)
            yield answering.frame.data, answer.spans

    def advance(self, read: PartitionRead, position: int) -> None:
        """Tell where to go on with a read whose span had no position."""
        if position > read.position:
            read.advance(position, self._waited_s)

    def close(self) -> None:
        """Give the connections that owe nothing back to the pool, and close the others."""
        for leader in self._leaders.values():
            if leader.connection is not None:
                self._pool.give_back(leader.connection, self._settings[leader.cluster])
        self._leaders.clear()

    def _find_homes(self) -> None:
        """Give every read that has none a leader, as far as there is one."""
        if not self._homeless or time.monotonic() < self._homes_due:
            return
        by_cluster: defaultdict[str, list[PartitionRead]] = defaultdict(list)
        for read in self._homeless:
            self._raise_if_overdue(read)
            if not read.finished:
                by_cluster[read.split.cluster].append(read)
        self._homeless = []
        for cluster, reads in by_cluster.items():
            client = self._pool.client(cluster, self._settings[cluster])
            with self._waiting():
                found = client.leaders(
                    [read.key for read in reads],
                    refresh=cluster in self._unseen or any(read.trouble is not None for read in reads),
                    timeout_s=max(min(map(self._left_s, reads)), PATIENCE_MIN_S),
                    cluster_id=self._cluster_ids[cluster],
                )
            self._unseen.discard(cluster)
            for read in reads:
                broker = found.known.get(read.key)
                if self._is_another_topic(read, found.topic_ids[read.split.topic]):
                    self._homeless.append(read)
                elif broker is None:
                    self._note_no_leader(read, found.unknown[read.key])
                    self._homeless.append(read)
                else:
                    read.absent_s, read.follows, read.empties = None, False, 0
                    self._leader(cluster, broker.address).queue.append(read)
        self._homeless = [read for read in self._homeless if not read.finished]
        if self._homeless:
            self._rest_from_failure(self._homeless[0].split.cluster)

    def _leader(self, cluster: str, address: Address) -> Leader:
        found = self._leaders.get((cluster, address))
        if found is None:
            frame = self._frames.pop() if self._frames else Frame()
            found = self._leaders[cluster, address] = Leader(cluster, address, frame)
        return found

    def _ask(self, leader: Leader) -> None:
        """Send the next request, if there is something to ask for."""
        if time.monotonic() < leader.rests_until:
            return
        settings = self._settings[leader.cluster]
        share = max(FETCH_BYTES_MIN, self._buffer_bytes_max // len(self._leaders))
        leader.response_bytes_max = min(self._response_bytes_max, settings.fetch_max_bytes, share)
        leader.asked = choose(leader.queue, leader.response_bytes_max)
        if not leader.asked:
            return
        for read in leader.asked:
            if read.trouble is None:
                # So far it waited for its turn only.
                read.stamp_s = self._waited_s
        # Half of the time is for another attempt, should this leader have stopped and another one taken over.
        left_s = min(*map(self._left_s, leader.asked), settings.request_timeout_ms / 1000)
        leader.patience_s = max(left_s / 2, PATIENCE_MIN_S)
        leader.asked_at_s = self._waited_s
        deadline = Deadline.after(leader.patience_s)
        wait_ms = min(settings.fetch_max_wait_ms, int(leader.patience_s * 500))
        if leader.asked[0].doubtful and not leader.asked[0].remote:
            # Whether there is something is all that is to be known.
            wait_ms = 0
        build = partial(fetch_request, leader.asked, settings, leader.response_bytes_max, wait_ms)
        try:
            with self._waiting():
                leader.drop_spent()
                if leader.connection is None:
                    leader.connection = self._pool.take(leader.cluster, settings, leader.address, deadline)
                if leader.connection.muted_until > time.monotonic():
                    leader.rest(leader.connection.muted_until)
                    return
                leader.version = leader.connection.send(FETCH, build, deadline)
        except ClusterUnreachable as error:
            self._lose(leader, error)

    def _next_to_answer(self) -> Leader | None:
        """Wait for a leader to answer. None: something else is due, or one took too long."""
        asked = [leader for leader in self._leaders.values() if leader.asked]
        due = [leader.rests_until for leader in self._leaders.values() if not leader.asked and leader.queue]
        if self._homeless:
            due.append(self._homes_due)
        if len(asked) == 1 and not due:
            return asked[0]
        waits = [moment - time.monotonic() for moment in due]
        waits.extend(leader.asked_at_s + leader.patience_s - self._waited_s for leader in asked)
        with self._waiting():
            ready = wait_for_answers(asked, min(waits))
        if ready:
            return min(ready, key=lambda leader: leader.answered)
        for leader in asked:
            if leader.asked_at_s + leader.patience_s <= self._waited_s:
                where = join_address(leader.address)
                self._lose(leader, ClusterUnreachable(leader.cluster, f"{where}: no answer to Fetch in time"))
        return None

    def _receive(self, leader: Leader) -> Answer | None:
        """The answer of `leader`, into its frame; None if the connection broke."""
        connection, frame = leader.connection, leader.frame
        assert connection is not None
        left_s = leader.asked_at_s + leader.patience_s - self._waited_s
        try:
            with self._waiting():
                length = connection.receive_into(frame, Deadline.after(max(left_s, 0.001)))
            response = parse_fetch_response(frame.data, BODY_BEGIN, length, leader.version)
        except ClusterUnreachable as error:
            self._lose(leader, error)
            return None
        except KernelError as error:
            what = f"{join_address(leader.address)}: its answer to Fetch cannot be decoded ({error.args[2]})"
            self._lose(leader, ClusterUnreachable(leader.cluster, f"{what}; the connection was damaged on the way"))
            return None
        self._answers += 1
        leader.answered = self._answers
        return self._take(leader, response, frame)

    def _take(self, leader: Leader, response: FetchedResponse, frame: Frame) -> Answer | None:
        if response.error_code:
            code = response.error_code
            what = f"{join_address(leader.address)}: it refused Fetch: {error_name(code)} ({code})"
            self._lose(leader, BrokerError(leader.cluster, what, code))
            return None
        if leader.throttle(response):
            return None
        asked, leader.asked = leader.asked, []
        settings = self._settings[leader.cluster]
        answer = sort_out(
            asked,
            response,
            frame.data,
            self._waited_s,
            partition_bytes_max=settings.max_partition_fetch_bytes,
            response_bytes_max=leader.response_bytes_max,
            batch_bytes_max=self._batch_bytes_max,
            read_committed=settings.read_committed,
        )
        leader.queue.extendleft(reversed(answer.starved))
        leader.queue.extend(read for read in answer.served if not read.finished)
        self._homeless.extend(answer.moved)
        for read, node_id in answer.redirected:
            self._redirect(leader, read, node_id)
        failed = bool(answer.moved)
        for read in answer.gaps:
            settled = self._look(read, self._settle)
            answer.progressed |= bool(settled)
            if settled is None:
                failed = True
                self._homeless.append(read)
            elif not read.finished:
                leader.queue.append(read)
        for read in answer.out_of_range:
            failed |= not self._look(read, self._check_loss)
            self._homeless.append(read)
        # Of some it is known only when they are decoded that they got on.
        unknown = [span.read for span in answer.spans if span.position is None]
        for read in asked:
            if not read.finished and read not in unknown:
                self._raise_if_overdue(read)
        if failed:
            self._rest_from_failure(leader.cluster)
        if answer.progressed:
            self._failures = 0
        elif not answer.spans:
            leader.rest(time.monotonic() + self._settings[leader.cluster].retry_backoff_ms / 1000)
        return answer

    def _redirect(self, leader: Leader, read: PartitionRead, node_id: int) -> None:
        """Ask another replica from now on, one that is closer (KIP-392)."""
        broker = self._pool.client(leader.cluster, self._settings[leader.cluster]).broker(node_id)
        if broker is None or broker.address == leader.address:
            read.leader_only = True
            leader.queue.append(read)
        else:
            read.follows = True
            self._leader(leader.cluster, broker.address).queue.append(read)

    def _lose(self, leader: Leader, error: ClusterError) -> None:
        """Look for new leaders of all that `leader` had; it did not do its part."""
        if leader.connection is not None:
            leader.connection.close()
        del self._leaders[leader.cluster, leader.address]
        self._frames.append(leader.frame)
        for read in (*leader.asked, *leader.queue):
            read.trouble = error
            read.leader_only = read.leader_only or read.follows
            self._homeless.append(read)
        self._rest_from_failure(leader.cluster)

    def _rest_from_failure(self, cluster: str) -> None:
        """Do not look for leaders again at once; longer each time, as long as nothing gets on."""
        settings = self._settings[cluster]
        pause_ms = min(settings.retry_backoff_ms << min(self._failures, 16), settings.retry_backoff_max_ms)
        self._failures += 1
        self._homes_due = time.monotonic() + max(pause_ms, 1) / 1000

    def _note_no_leader(self, read: PartitionRead, code: int) -> None:
        """Remember why `read` has no leader; raises if that is final."""
        if code != UNKNOWN_TOPIC_OR_PARTITION:
            read.absent_s = None
            detail = f"{read}: it has no leader: {error_name(code)} ({code})"
            read.trouble = BrokerError(read.split.cluster, detail, code)
            if not is_retriable(code):
                raise read.trouble
            return
        self._note_absent(read, lost.absent(read))

    def _is_another_topic(self, read: PartitionRead, found: str) -> bool:
        """Whether what has the topic's name now, with the id `found`, is another topic; raises if that is final."""
        expected = self._topic_ids.get((read.split.cluster, read.split.topic))
        if not expected or not found or found == expected:
            return False
        self._note_absent(read, lost.created_anew(read, expected, found))
        return True

    def _note_absent(self, read: PartitionRead, error: DataLossError) -> None:
        """Remember that the metadata does not have what is to be read; raises if it is no broker's lagging behind."""
        read.trouble = error
        if read.absent_s is None:
            read.absent_s = self._waited_s
        if self._waited_s - read.absent_s >= UNKNOWN_TOPIC_GRACE_S:
            self._lost(read, error)

    def _look(self, read: PartitionRead, look: Callable[[PartitionRead], bool]) -> bool | None:
        """What `look` has the leader say; None if the partition is not there any more, which is for the metadata."""
        try:
            return look(read)
        except BrokerError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
            read.trouble = error
            return None

    def _check_loss(self, read: PartitionRead) -> bool:
        """The leader says that there is no such offset. Whether it is lost, which raises if it may not be passed over.

        Otherwise it is there after all, and asked for again.
        """
        client = self._pool.client(read.split.cluster, self._settings[read.split.cluster])
        look = partial(client.list_offsets, undecided=True, cluster_id=self._cluster_ids[read.split.cluster])
        with self._waiting():
            first, behind = look({read.key: EARLIEST})[read.key], look({read.key: LATEST})[read.key]
        if read.position < first:
            self._lost(read, lost.starts_later(read, first, behind), first)
        elif read.position > behind:
            self._lost(read, lost.ends_before(read, first, behind))
        else:
            detail = f"{read}: the broker does not find the offset, although its log now has {first} to {behind - 1}"
            read.trouble = BrokerError(read.split.cluster, detail, OFFSET_OUT_OF_RANGE)
            return False
        # What there is may be another topic's, so who leads it, and its id, is asked for anew.
        self._unseen.add(read.split.cluster)
        return True

    def _lost(self, read: PartitionRead, error: DataLossError, behind: int = lost.EVERYTHING) -> None:
        """Raise that what is before offset `behind` is lost, or pass over it."""
        if not self._skip_lost:
            raise error
        lost.pass_over(read, error, behind, self._waited_s)

    def _settle(self, read: PartitionRead) -> bool:
        """Pass over what `read` seems not to have up to the end of its range, unless that is in remote storage."""
        cluster_id, left_s = self._cluster_ids[read.split.cluster], max(self._left_s(read), PATIENCE_MIN_S)
        client = self._pool.client(read.split.cluster, self._settings[read.split.cluster])
        with self._waiting():
            # Asked for after the answers: the first local offset only ever grows.
            local = client.earliest_local(read.key, timeout_s=left_s, cluster_id=cluster_id)
        if read.position >= local:
            read.advance(read.end, self._waited_s)
            return True
        read.remote, read.empties = True, 0
        detail = (
            f"{read}: the broker gave no records. They are in remote storage (all before offset {local} are), and did "
            "not come from there in time; see the broker's log and its remote.fetch.max.wait.ms"
        )
        read.trouble = ClusterUnreachable(read.split.cluster, detail)
        return False

    def _left_s(self, read: PartitionRead) -> float:
        """How long `read` may wait for brokers until it has to get on; negative if that is over."""
        return self._settings[read.split.cluster].progress_timeout_ms / 1000 - (self._waited_s - read.stamp_s)

    def _raise_if_overdue(self, read: PartitionRead) -> None:
        """Raise what has kept `read` from getting on for too long; what is lost may be passed over instead."""
        trouble = read.trouble
        if trouble is None or self._left_s(read) > 0:
            return
        if not isinstance(trouble, DataLossError):
            raise lost.overdue(read, trouble, self._settings[read.split.cluster].progress_timeout_ms)
        self._lost(read, trouble)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - begun
