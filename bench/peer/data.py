"""Records like real ones, the same for the same seed, and how they get into a topic."""

from __future__ import annotations

import random
import string
import zlib
from collections.abc import Callable
from functools import cache

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


def fill(bootstrap: str, topic: str, *, value_bytes: int, codec: str, rows: int, place: Callable[[int], int]) -> None:
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
    pool = records(value_bytes)
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
