"""Messages of Protocol Buffers, from a broker to the columns that are wanted."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from evensplit.errors import UndecodableRecord
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.testing import LocalKafka
from evensplit.typed.decoding import Decodings
from evensplit.typed.protobuf.descriptors import from_set
from tests.support.from_protobuf import decoding, descriptor_set
from tests.support.lanes import SMALL, settings_of, whole
from tests.support.protobuf_facts import inside
from tests.support.records import Draft, produce

pytestmark = pytest.mark.kafka


def test_rows_are_the_same_in_small_parts_and_a_fault_names_its_record(
    kafka: LocalKafka, topic: str, pool: Pool
) -> None:
    file = FileDescriptorProto(name="orders.proto", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="number", number=1, label=1, type=13)
    order.field.add(name="names", number=2, label=3, type=9)
    order.field.add(name="note", number=3, label=1, type=9)
    how = decoding(from_set(descriptor_set(file)), "Order", "number", "names")
    kafka.create_topic(topic)
    messages = [bytes([8, number % 100 + 1]) + inside(2, b"n%d" % number) * 2 for number in range(500)]
    produce(kafka.bootstrap_servers, topic, (Draft(one + inside(3, b"." * 90)) for one in messages))
    produce(kafka.bootstrap_servers, topic, [Draft(b"\x08")])

    def rows(end: int) -> list[tuple[int, int, list[str]]]:
        batches = read_ranges(
            whole(topic, end),
            settings_of(kafka),
            columns=("value", "offset"),
            decodings=Decodings(value=how),
            limits=SMALL,
            pool=pool,
        )
        found = [row for batch in batches for row in batch.to_pylist()]
        return [(row["offset"], row["value"]["number"], row["value"]["names"]) for row in found]

    assert rows(500) == [(at, at % 100 + 1, [f"n{at}"] * 2) for at in range(500)]
    with pytest.raises(UndecodableRecord, match=r"offset 500: its value cannot be decoded: number: byte 1: expected a"):
        rows(501)
