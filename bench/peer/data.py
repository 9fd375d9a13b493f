"""Records like real ones, the same for the same seed, and how they get into a topic."""

from __future__ import annotations

import io
import json
import random
import string
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Producer

POOL = 20_000
"""Records that differ; a topic repeats them. No codec looks back that far."""

SEED = 7
USERS = 50_000
SAMPLE_BYTES = 256 * 1024
FLUSH_TIMEOUT_S = 120.0
KINDS = ("click", "view", "basket", "checkout", "search", "login", "logout", "refund", "invoice", "payment")
CITIES = (
    "Amsterdam", "Berlin", "Bogota", "Chennai", "Dublin", "Hanoi", "Lagos", "Lima", "Madrid", "Nairobi", "Osaka",
    "Porto", "Quito", "Seoul", "Tunis", "Vienna",
)  # fmt: skip
CENTS = (0, 50, 95, 99)
ALPHABET = string.ascii_letters + string.digits


EVENTS, ORDERS, DAMAGED_ORDERS, AVRO_ORDERS = "events", "orders", "damaged orders", "orders in Avro"
CONTENTS = (EVENTS, ORDERS, DAMAGED_ORDERS, AVRO_ORDERS)
"""What values are: JSON of any size; orders of about 200 bytes in JSON; the same, of which 1 % are cut off; and in Avro
with the frame of a schema registry, about 100 bytes."""

ORDER_BYTES = 200
ORDER_SCHEMA = (
    "id BIGINT, customer STRING, amount DOUBLE, currency STRING, note STRING, paid BOOLEAN, items INT, "
    "address STRUCT<street: STRING, city: STRING, zip: STRING>"
)
ORDER_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "currency", "type": "string"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "paid", "type": "boolean"},
            {"name": "items", "type": "int"},
            {
                "name": "address",
                "type": {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": name, "type": "string"} for name in ("street", "city", "zip")],
                },
            },
        ],
    }
)
FRAME = b"\0\0\0\0\x07"
"""What Confluent's serializers put before a value: a zero byte, and the id of its schema."""
STREETS = ("Königstraße", "Rue Église", "Calle Peñón", "Main Street", "Plaça Reial", "Øster Allé")


def orders(
    count: int = POOL, seed: int = SEED, *, damaged: bool = False, avro: bool = False
) -> tuple[tuple[bytes, bytes], ...]:
    """`count` keys and values: orders in JSON or Avro, with names that are not ASCII, and a note in two of three."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        note = None if number % 3 == 0 else f"für {rng.choice(CITIES)}, {_token(rng, 6)}"
        address = {
            "street": f"{rng.choice(STREETS)} {rng.randrange(200)}",
            "city": rng.choice(CITIES),
            "zip": f"{rng.randrange(100_000):05d}",
        }
        order = {
            "id": 4_000_000_000 + number,
            "customer": f"user-{rng.randrange(USERS):05d}",
            "amount": round(rng.random() * 1000, 2),
            "currency": rng.choice(("EUR", "USD", "GBP")),
            "note": note,
            "paid": rng.random() < 0.8,
            "items": rng.randrange(1, 30),
            "address": address,
        }
        value = _in_avro(order) if avro else json.dumps(order, ensure_ascii=False, separators=(",", ":")).encode()
        made.append((b"user-%05d" % rng.randrange(USERS), value[:-20] if damaged and number % 100 == 0 else value))
    return tuple(made)


def _in_avro(order: dict[str, Any]) -> bytes:
    out = io.BytesIO(FRAME)
    out.seek(len(FRAME))
    fastavro.schemaless_writer(out, _avro_schema(), order)
    return out.getvalue()


@cache
def _avro_schema() -> Any:
    return fastavro.parse_schema(json.loads(ORDER_AVRO))


@cache
def contents(content: str, value_bytes: int) -> tuple[tuple[bytes, bytes], ...]:
    """Keys and values of one of CONTENTS, which a topic repeats."""
    if content == EVENTS:
        return records(value_bytes)
    return orders(damaged=content == DAMAGED_ORDERS, avro=content == AVRO_ORDERS)


@cache
def records(value_bytes: int, count: int = POOL, seed: int = SEED) -> tuple[tuple[bytes, bytes], ...]:
    """`count` keys and values: ids of users, and events in JSON of exactly `value_bytes` (100 or more) bytes."""
    rng = random.Random(seed)
    at_ms = 1_760_000_000_000
    made = []
    for _ in range(count):
        at_ms += rng.randrange(40)
        text = (
            f'{{"at":{at_ms},"kind":"{rng.choice(KINDS)}","city":"{rng.choice(CITIES)}",'
            f'"amount":{_price(rng, 200)},"id":"{_token(rng, 8)}"'
        )
        while len(text) < value_bytes - 1:
            text += f',"kind":"{rng.choice(KINDS)}","from":"{rng.choice(CITIES)}"'
            text += f',"sku":"{_token(rng, 9)}","price":{_price(rng, 100)}'
        made.append((b"user-%05d" % rng.randrange(USERS), f"{text[: value_bytes - 1]}}}".encode()))
    return tuple(made)


def compression(value_bytes: int) -> dict[str, float]:
    """How many times smaller each codec makes a batch of 256 KiB of these values and their keys."""
    sample = records(value_bytes, SAMPLE_BYTES // value_bytes)
    batch = b"".join(key + value for key, value in sample)
    sizes = {
        "zlib": len(zlib.compress(batch)),
        **{name: pa.Codec(name).compress(batch).size for name in ("lz4", "zstd")},
    }
    return {name: len(batch) / size for name, size in sizes.items()}


def evenly(partitions: int) -> Callable[[int], int]:
    """Record number -> partition: one after the other."""
    return lambda number: number % partitions


def mostly_first(partitions: int) -> Callable[[int], int]:
    """Record number -> partition: 80 % in partition 0, the others share the rest."""
    return lambda number: 0 if number % 5 else 1 + number // 5 % (partitions - 1)


def fill(
    bootstrap: str,
    topic: str,
    *,
    value_bytes: int,
    codec: str,
    rows: int,
    place: Callable[[int], int],
    content: str = EVENTS,
) -> None:
    """Write `rows` records; `place` says which partition each goes to. Raises RuntimeError unless all are taken."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    pool = contents(content, value_bytes)
    for number in range(rows):
        key, value = pool[number % len(pool)]
        while True:
            try:
                producer.produce(topic, value, key, place(number))
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if left:
        raise RuntimeError(f"{left:,} of {rows:,} records could not be written to {topic} at {bootstrap}")


def _token(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(ALPHABET, k=length))


def _price(rng: random.Random, below: int) -> str:
    return f"{rng.randrange(below)}.{rng.choice(CENTS):02d}"
