"""Sends Fetch requests and receives responses: which broker is asked when, and what happens if it does not answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from evensplit._kernel import FetchedResponse, KernelError, parse_fetch_response
from evensplit.errors import AnswerRefused, BrokerError, ClusterError, ClusterUnreachable, DataLossError
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.leader import PATIENCE_MIN_S, Leader, wait_for_answers
from evensplit.kafka.fetch.oversized import raise_if_batch_too_long
from evensplit.kafka.fetch.problems import stands_still
from evensplit.kafka.fetch.request import FETCH_BYTES_MIN, PartitionRead, answer_bytes_max, choose, fetch_request
from evensplit.kafka.fetch.response import Answer, Span, apply_response
from evensplit.kafka.fetch.routing import Routing, Waiting
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.wire.api import FETCH, FETCH_BY_NAME_VERSION
from evensplit.kafka.wire.error_codes import describe_code
from evensplit.kafka.wire.frames import BODY_BEGIN, AnswerTooLong, Frame


class Fetcher:
    """Fetches `reads` to their ends, in `responses`. `close` must be called afterwards, whatever happened.

    Times that are compared with `_waiting.now_s` are on its clock, which runs only while it waits.
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
        self._response_bytes_max = response_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._leaders: dict[tuple[str, Address], Leader] = {}
        self._frames: list[Frame] = []
        self._clock = pool.network.clock
        self._waiting = Waiting(self._clock)
        self._routing = Routing(
            reads, clusters, pool, self._waiting, topic_ids=topic_ids, cluster_ids=cluster_ids, skip_lost=skip_lost
        )
        self._answers = 0

    def responses(self) -> Iterator[tuple[bytearray, list[Span]]]:
        """The frame of each response, with the spans to decode from it before the next one is taken.

        By then the next request is sent. Its response waits in the socket, since the frame is used again.
        """
        while True:
            for read, broker in self._routing.resolve_leaders():
                self._leader(read.split.cluster, broker.address).queue.append(read)
            for leader in list(self._leaders.values()):
                if not leader.asked:
                    self._ask(leader)
            if not self._routing.unassigned and not any(
                leader.asked or leader.queue for leader in self._leaders.values()
            ):
                return
            answering = self._next_to_answer()
            answer = self._receive(answering) if answering is not None else None
            if answering is None or answer is None:
                continue
            if all(span.position is not None for span in answer.spans):
                self._ask(answering)
            yield answering.frame.data, answer.spans

    def advance(self, read: PartitionRead, position: int) -> None:
        """Set where a read continues whose span had no position."""
        if position > read.position:
            # At the end of the range there may be a gap before the position.
            read.epoch_behind = position if position < read.end else -1
            read.advance(position, self._waiting.now_s)
        else:
            read.trouble = stands_still(read)
            self._routing.raise_if_overdue(read)

    def compare_names(self, *, if_done: bool = False) -> None:
        """Call `Routing.compare_names` when everything is read. `if_done`: do nothing if it is not."""
        if self._routing.named and not (if_done and self._is_to_go_on()):
            self._routing.compare_names()

    def _is_to_go_on(self) -> bool:
        queues = [self._routing.unassigned, *(leader.queue for leader in self._leaders.values())]
        asked = any(leader.asked for leader in self._leaders.values())
        return asked or any(not read.finished for queue in queues for read in queue)

    def close(self) -> None:
        """Give connections without an outstanding response back to the pool, and close the others."""
        for leader in self._leaders.values():
            if leader.connection is not None:
                self._pool.give_back(leader.connection, self._settings[leader.cluster])
        self._leaders.clear()

    def _leader(self, cluster: str, address: Address) -> Leader:
        found = self._leaders.get((cluster, address))
        if found is None:
            frame = self._frames.pop() if self._frames else Frame()
            found = self._leaders[cluster, address] = Leader(cluster, address, frame)
        return found

    def _ask(self, leader: Leader) -> None:
        """Send the next request, if there is something to ask for."""
        if self._clock.now_s() < leader.rests_until:
            return
        settings = self._settings[leader.cluster]
        share = max(FETCH_BYTES_MIN, self._buffer_bytes_max // len(self._leaders))
        leader.response_bytes_max = min(self._response_bytes_max, settings.fetch_max_bytes, share)
        leader.asked = choose(leader.queue, leader.response_bytes_max)
        if not leader.asked:
            return
        for read in leader.asked:
            if read.trouble is None:
                # Until now it has only waited for its turn.
                read.stamp_s = self._waiting.now_s
        # Half of the time is left for another attempt, in case this leader has stopped and another one has taken over.
        left_s = min(*map(self._routing.left_s, leader.asked), settings.request_timeout_ms / 1000)
        leader.patience_s = max(left_s / 2, PATIENCE_MIN_S)
        leader.asked_at_s = self._waiting.now_s
        deadline = Deadline.after(leader.patience_s, self._clock)
        wait_ms = min(settings.fetch_max_wait_ms, int(leader.patience_s * 500))
        if leader.asked[0].probing and not leader.asked[0].remote:
            # A probe only asks whether there is something, so the broker need not wait.
            wait_ms = 0
        build = partial(fetch_request, leader.asked, settings, leader.response_bytes_max, wait_ms)
        try:
            with self._waiting():
                leader.drop_spent()
                if leader.connection is None:
                    leader.connection = self._pool.take(leader.cluster, settings, leader.address, deadline)
                if leader.connection.muted_until > self._clock.now_s():
                    leader.rest(leader.connection.muted_until)
                    return
                highest = None if all(read.topic_id for read in leader.asked) else FETCH_BY_NAME_VERSION
                longest = answer_bytes_max(leader.asked, leader.response_bytes_max, self._batch_bytes_max)
                leader.version = leader.connection.send(
                    FETCH, build, deadline, highest=highest, answer_bytes_max=longest
                )
        except ClusterUnreachable as error:
            self._lose(leader, error)

    def _next_to_answer(self) -> Leader | None:
        """Wait for a leader to answer. None: something else is due, or one took too long."""
        asked = [leader for leader in self._leaders.values() if leader.asked]
        due = [leader.rests_until for leader in self._leaders.values() if not leader.asked and leader.queue]
        if self._routing.unassigned:
            due.append(self._routing.due)
        if len(asked) == 1 and not due:
            return asked[0]
        waits = [moment - self._clock.now_s() for moment in due]
        waits.extend(leader.asked_at_s + leader.patience_s - self._waiting.now_s for leader in asked)
        with self._waiting():
            ready = wait_for_answers(asked, min(waits), self._pool.network.poll())
        if ready:
            return min(ready, key=lambda leader: leader.answered)
        for leader in asked:
            if leader.asked_at_s + leader.patience_s <= self._waiting.now_s:
                where = join_address(leader.address)
                self._lose(leader, ClusterUnreachable(leader.cluster, f"{where}: no answer to Fetch in time"))
        return None

    def _receive(self, leader: Leader) -> Answer | None:
        """The answer of `leader`, into its frame; None if the connection broke."""
        connection, frame = leader.connection, leader.frame
        assert connection is not None
        left_s = leader.asked_at_s + leader.patience_s - self._waiting.now_s
        try:
            with self._waiting():
                length = connection.receive_into(frame, Deadline.after(max(left_s, 0.001), self._clock))
            response = parse_fetch_response(frame.data, BODY_BEGIN, length, leader.version)
        except ClusterUnreachable as error:
            if isinstance(error, AnswerTooLong):
                # The error keeps the variables of this call, and a buffer cannot grow while there is a view of it.
                with memoryview(frame.data) as whole, whole[BODY_BEGIN : error.received] as head:
                    raise_if_batch_too_long(leader.asked, head, leader.version, self._batch_bytes_max)
            self._lose(leader, error)
            return None
        except KernelError as error:
            what = f"{join_address(leader.address)}: its answer to Fetch cannot be decoded ({error.args[2]})"
            self._lose(leader, AnswerRefused(leader.cluster, f"{what}; the connection was damaged on the way"))
            return None
        self._answers += 1
        leader.answered = self._answers
        return self._take(leader, response, frame)

    def _take(self, leader: Leader, response: FetchedResponse, frame: Frame) -> Answer | None:
        if response.error_code:
            code = response.error_code
            what = f"{join_address(leader.address)}: it refused Fetch: {describe_code(code)}"
            self._lose(leader, BrokerError(leader.cluster, what, code))
            return None
        if leader.throttle(response, self._clock.now_s()):
            for read in leader.queue:
                self._routing.raise_if_overdue(read)
            return None
        asked, leader.asked = leader.asked, []
        settings = self._settings[leader.cluster]
        answer = apply_response(
            asked,
            response,
            frame.data,
            self._waiting.now_s,
            partition_bytes_max=settings.max_partition_fetch_bytes,
            response_bytes_max=leader.response_bytes_max,
            batch_bytes_max=self._batch_bytes_max,
            read_committed=settings.read_committed,
            by_id=leader.version > FETCH_BY_NAME_VERSION,
        )
        if answer.progressed or answer.spans:
            leader.throttled_s = 0.0
        if leader.version <= FETCH_BY_NAME_VERSION:
            self._routing.note_named(asked, leader.address, [span.read for span in answer.spans])
        leader.queue.extendleft(reversed(answer.starved))
        leader.queue.extend(read for read in answer.served if not read.finished)
        self._routing.unassigned.extend(answer.moved)
        for read, node_id in answer.redirected:
            self._redirect(leader, read, node_id)
        for read in answer.replaced:
            assert isinstance(read.trouble, DataLossError)
            self._routing.lose(read, read.trouble)
        failed = bool(answer.moved)
        for read in answer.gaps:
            settled = self._routing.look(read, self._routing.settle)
            answer.progressed |= bool(settled)
            if settled is None:
                failed = True
                self._routing.unassigned.append(read)
            elif not read.finished:
                leader.queue.append(read)
        for read in answer.out_of_range:
            failed |= not self._routing.look(read, self._routing.check_loss)
            self._routing.unassigned.append(read)
        # Some make progress only when they are decoded.
        unknown = [span.read for span in answer.spans if span.position is None]
        for read in asked:
            if not read.finished and read not in unknown:
                self._routing.raise_if_overdue(read)
        if failed:
            self._routing.rest(leader.cluster)
        if answer.progressed:
            self._routing.note_progress()
        elif not answer.spans:
            leader.rest(self._clock.now_s() + self._settings[leader.cluster].retry_backoff_ms / 1000)
        return answer

    def _redirect(self, leader: Leader, read: PartitionRead, node_id: int) -> None:
        """Read from a closer replica from now on (KIP-392)."""
        broker = self._pool.client(leader.cluster, self._settings[leader.cluster]).broker(node_id)
        if broker is None or broker.address == leader.address:
            read.leader_only = True
            leader.queue.append(read)
        else:
            read.follows = True
            self._leader(leader.cluster, broker.address).queue.append(read)

    def _lose(self, leader: Leader, error: ClusterError) -> None:
        """Drop a broker that failed, and look up new leaders for all of its reads."""
        if leader.connection is not None:
            leader.connection.close()
        del self._leaders[leader.cluster, leader.address]
        self._frames.append(leader.frame)
        for read in (*leader.asked, *leader.queue):
            read.trouble, read.search = error, None
            read.leader_only = read.leader_only or read.follows
            self._routing.unassigned.append(read)
        self._routing.rest(leader.cluster)
