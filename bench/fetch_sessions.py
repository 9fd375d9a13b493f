"""What a Fetch request costs outside of fetch sessions and within one (KIP-227), on both sides.

Three kinds of request over 200 and 1,000 partitions with one small record batch each: all partitions have something
new, none has, ten have. Prints for each the round trip and the processor time of this process and of the broker, per
request. Run `python -m bench.fetch_sessions`; Linux only, for the broker's time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from evensplit._kernel import FetchedResponse, parse_fetch_response
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import FETCH
from evensplit.kafka.wire.frames import BODY_BEGIN, Frame
from evensplit.testing import LocalKafka
from evensplit.testing.messages import request_class

REQUESTS = 200
WARM_UP = 100
TIMEOUT_S = 30.0


def fetch(topic: str, partitions: Sequence[int], offset: int, session: tuple[int, int], version: int) -> bytearray:
    """A request that the broker answers at once. `session`: its id and epoch."""
    request = request_class(FETCH)
    topic_class = request.FetchTopic
    listed = [
        topic_class.FetchPartition(version=version, partition=one, fetch_offset=offset, partition_max_bytes=1 << 16)
        for one in partitions
    ]
    message = request(
        version=version,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=4 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic_class(version=version, topic=topic, partitions=listed)] if listed else [],
        forgotten_topics_data=[],
        rack_id="",
    )
    return bytearray(message.encode(version=version))


class Client:
    """A connection, with a session over all partitions at their ends, or without a session."""

    def __init__(self, kafka: LocalKafka, topic: str, partitions: int, *, session: bool) -> None:
        settings = ClientSettings((kafka.bootstrap_servers,))
        self._connection = Connection("bench", settings.addresses[0], settings, Deadline.after(TIMEOUT_S))
        self._frame = Frame()
        self._topic = topic
        self._session, self._epoch = 0, -1
        if session:
            self._epoch = 0
            self._session = self.ask(range(partitions), 2).session_id
            assert self._session

    def ask(self, partitions: Sequence[int], offset: int) -> FetchedResponse:
        """Send a request and read its response."""
        build = partial(fetch, self._topic, partitions, offset, (self._session, self._epoch))
        version = self._connection.send(FETCH, build, Deadline.after(TIMEOUT_S))
        length = self._connection.receive_into(self._frame, Deadline.after(TIMEOUT_S))
        response = parse_fetch_response(self._frame.data, BODY_BEGIN, length, version)
        assert not response.error_code
        self._epoch += self._epoch >= 0
        return response

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def processor_s(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kafka: LocalKafka, topic: str, partitions: int, new: int, *, session: bool) -> str:
    """The line for requests in which `new` partitions have something new.

    Without a session, only partitions with something new are requested, as tasks do; or all, if there are none.
    """
    client = Client(kafka, topic, partitions, session=session)
    asked = range(new) if new or session else range(partitions)

    def ask(number: int) -> None:
        # Positions that change from one request to the next are what makes a partition a part of it in a session.
        client.ask(asked, number % 2 if new else 2)

    for number in range(WARM_UP):
        ask(number)
    pid = kafka.broker(0).pid
    assert pid is not None
    before = processor_s(pid), time.process_time(), time.perf_counter()
    for number in range(REQUESTS):
        ask(number)
    after = processor_s(pid), time.process_time(), time.perf_counter()
    client.close()
    broker, own, clock = ((end - begin) * 1000 / REQUESTS for begin, end in zip(before, after, strict=True))
    kind = "session" if session else "full"
    return f"{partitions:>10,} {new:>6,} {kind:>8} {clock:>10.2f} {own:>8.2f} {broker:>8.2f}"


def main() -> None:
    """Print the table, in milliseconds."""
    print(f"{'partitions':>10} {'new':>6} {'request':>8} {'round trip':>10} {'client':>8} {'broker':>8}")
    with LocalKafka(jvm_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 100})
        for partitions in (200, 1_000):
            topic = f"topic-{partitions}"
            kafka.create_topic(topic, partitions, timeout_s=120)
            for _ in range(2):
                for one in range(partitions):
                    producer.produce(topic, b"x" * 500, partition=one)
                assert producer.flush(60) == 0
            for new in (partitions, 0, 10):
                for session in (False, True):
                    print(measure(kafka, topic, partitions, new, session=session), flush=True)


if __name__ == "__main__":
    main()
