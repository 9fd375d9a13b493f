"""What became of transactions, by the logs that they wrote to.

A partition's leader is asked, under read_committed, for the record batch with the last record that a transaction wrote
there. Its answer lists the aborted transactions that overlap the batch, which the broker keeps beside the log. So one
short request tells, however far away the marker is:

- The log is stable beyond the batch, and the producer is in that list: aborted. Transactions of one producer do not
  overlap, so it can be no other one, whatever epoch the marker has (KIP-890 raises it).
- It is stable beyond the batch, the batch is there with records of the producer, and the producer is not in the list:
  committed.
- It is not stable yet: open, or another producer's transaction holds it up; that is waited for.
- The batch is gone, by retention or compaction or with its topic: this partition says nothing. Compaction drops the
  records of aborted transactions, and then what is known of these.

A transaction ends in all its partitions alike, so one that tells is enough.

Sources: KIP-98 (aborted transactions in Fetch); Kafka's `UnifiedLog`, `TransactionIndex` and `LogCleaner`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import NamedTuple

from evensplit._kernel import FetchedPartition, KernelError, parse_fetch_response
from evensplit.core.delivery.orders import Fate
from evensplit.core.delivery.terms import Transaction
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import AuthenticationError, ClusterError
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import Address
from evensplit.kafka.wire.api import FETCH, FETCH_BY_NAME_VERSION
from evensplit.kafka.wire.error_codes import OFFSET_OUT_OF_RANGE, describe_code
from evensplit.kafka.wire.frames import BODY_BEGIN, Frame
from evensplit.kafka.wire.requests import FetchPartition, write_fetch

PLACES_MAX = 16
"""In so many partitions of a transaction at most it is looked."""

_READ_COMMITTED = 1
_NO_EPOCH = -1
_ONE_BATCH = 1
"""The most bytes of records: a broker sends the first record batch whole, however long it is (KIP-74)."""

_TRANSACTIONAL = 0x10
# Base offset; length, leader epoch, format, checksum; attributes, last offset's distance; times; producer; records.
_BATCH = Struct(">q 13x hi 16x q 6x i")

log = logging.getLogger("evensplit")


class _Place(NamedTuple):
    """A record that a transaction wrote."""

    key: TopicPartition
    offset: int


@dataclass(slots=True)
class _Search:
    """Where to look for one transaction, and what was found. `open`: a log there was not stable when it was asked."""

    one: Transaction
    places: list[_Place]
    fate: Fate | None = None
    open: bool = False

    @property
    def found(self) -> Fate:
        return self.fate or (Fate.OPEN if self.open and self.places else Fate.UNKNOWN)


def find_fates(session: Session, transactions: Sequence[Transaction], deadline: Deadline) -> dict[Transaction, Fate]:
    """The fate of each transaction. One that is open, or whose logs cannot be read, is waited for.

    Raises:
        AuthenticationError: a broker does not let us in.
    """
    searches = [_Search(one, _places(one)) for one in transactions]
    backoff = Backoff(session.settings)
    refresh = False
    while pending := [search for search in searches if search.fate is None and search.places]:
        try:
            _look(session, pending, deadline, refresh=refresh)
        except AuthenticationError:
            raise
        except ClusterError as error:
            log.info("it is not known yet what became of transactions: %s", error)
        if all(search.fate is not None or not search.places for search in pending):
            break
        backoff.pause(deadline)
        if deadline.passed:
            break
        refresh = True
    return {search.one: search.found for search in searches}


def _places(one: Transaction) -> list[_Place]:
    """The last record in each partition before the first ones, which compaction is more likely to have removed."""
    some = one.written[:PLACES_MAX]
    last = [_Place((each.topic, each.partition), each.offset_last) for each in some]
    first = [_Place((each.topic, each.partition), each.offset_first) for each in some]
    return [*dict.fromkeys((*last, *first))]


def _look(session: Session, searches: Sequence[_Search], deadline: Deadline, *, refresh: bool) -> None:
    """One round: each place of each search is asked about, until one tells."""
    keys = list(dict.fromkeys(place.key for search in searches for place in search.places))
    leaders = session.find_leaders(keys, deadline, refresh=refresh)
    addresses = {key: broker.address for key, broker in leaders.known.items()}
    unreachable: set[Address] = set()
    frame = Frame()
    for search in searches:
        gone: set[_Place] = set()
        for place in search.places:
            address = addresses.get(place.key)
            if address is None or address in unreachable:
                continue
            try:
                fetched = _fetch(
                    session, address, place, frame, deadline.within(max(ATTEMPT_S, deadline.remaining_s / 4))
                )
            except AuthenticationError:
                raise
            except ClusterError as error:
                log.info("it is not known yet what became of a transaction: %s", error)
                unreachable.add(address)
                continue
            if fetched is not None and _judge(search, place, fetched, frame, gone):
                break
        search.places = [place for place in search.places if place not in gone]


def _fetch(
    session: Session, address: Address, place: _Place, frame: Frame, deadline: Deadline
) -> FetchedPartition | None:
    (topic, number), offset = place
    asked = [FetchPartition(number, _NO_EPOCH, offset, _NO_EPOCH, _ONE_BATCH)]
    build = partial(
        write_fetch,
        {(topic, ""): asked},
        max_wait_ms=0,
        max_bytes=_ONE_BATCH,
        isolation_level=_READ_COMMITTED,
        rack_id="",
    )
    connection = session.connection(address, deadline)
    version = connection.send(FETCH, build, deadline, highest=FETCH_BY_NAME_VERSION)
    length = connection.receive_into(frame, deadline)
    try:
        response = parse_fetch_response(frame.data, BODY_BEGIN, length, version)
    except KernelError as error:
        connection.close()
        raise ClusterError(session.cluster, f"an answer to Fetch cannot be decoded: {error.args[-1]}") from None
    found = (one for one in response.partitions if (one.topic, one.partition) == place.key)
    return next(found, None)


def _judge(search: _Search, place: _Place, fetched: FetchedPartition, frame: Frame, gone: set[_Place]) -> bool:
    """Whether a partition's answer tells the fate. `gone`: takes the place if it will never tell."""
    if fetched.error_code == OFFSET_OUT_OF_RANGE:
        gone.add(place)
    if fetched.error_code:
        (topic, number), _ = place
        what = f"transactional id {search.one.transactional_id!r}: topic {topic!r}, partition {number}"
        log.info("%s does not say what became of it: %s", what, describe_code(fetched.error_code))
        return False
    if fetched.last_stable_offset <= place.offset:
        search.open = True
        return False
    if any(producer == search.one.producer_id and first <= place.offset for producer, first in fetched.aborted):
        search.fate = Fate.ABORTED
        return True
    if _has_records(search.one.producer_id, place.offset, fetched, frame.data):
        search.fate = Fate.COMMITTED
        return True
    gone.add(place)
    return False


def _has_records(producer_id: int, offset: int, fetched: FetchedPartition, data: bytearray) -> bool:
    """Whether the first record batch has the offset, and records that the producer wrote in a transaction."""
    if fetched.records_end - fetched.records_begin < _BATCH.size:
        return False
    base, attributes, last_delta, producer, records = _BATCH.unpack_from(data, fetched.records_begin)
    covers = base <= offset <= base + last_delta
    return bool(covers and producer == producer_id and attributes & _TRANSACTIONAL and records > 0)
