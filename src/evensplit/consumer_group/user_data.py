"""The partitions that a member of a group claims to own, as the user data of its subscription."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from evensplit.core.assign.input_errors import PARTITION_MAX
from evensplit.core.json_text import parse_json
from evensplit.core.model import SplitId

CLUSTER = ""
"""A consumer group belongs to one cluster, which needs no name here."""

USER_DATA_VERSION = 1
USER_DATA_HEAD = struct.Struct(">4sBI")  # MAGIC, version, CRC-32 of the JSON that follows
MAGIC = b"EVSP"


def encode_claim(owned: Sequence[SplitId], generation: int | None) -> bytes:
    """The user data with which a member claims these partitions since this generation. Empty without partitions."""
    if not owned:
        return b""
    by_topic: dict[str, list[int]] = {}
    for split in owned:
        by_topic.setdefault(split.topic, []).append(split.partition)
    body = json.dumps({"generation": generation, "owned": by_topic}, separators=(",", ":")).encode()
    return USER_DATA_HEAD.pack(MAGIC, USER_DATA_VERSION, zlib.crc32(body)) + body


def decode_claim(user_data: bytes | memoryview | None) -> tuple[tuple[SplitId, ...], int | None]:
    """The partitions and the generation in a member's user data; no partitions if it is empty.

    Raises ValueError if it is of another assignor, damaged, or of a newer version.
    """
    data = bytes(user_data or b"")
    if not data:
        return (), None
    if not data.startswith(MAGIC):
        raise ValueError("of another assignor")
    if len(data) < USER_DATA_HEAD.size:
        raise ValueError("cut off")
    _, version, checksum = USER_DATA_HEAD.unpack_from(data)
    if version != USER_DATA_VERSION:
        raise ValueError(f"of version {version}; expected {USER_DATA_VERSION}")
    body = data[USER_DATA_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("damaged: its checksum is wrong")
    try:
        found = parse_json(body)
    except ValueError as error:
        raise ValueError(f"damaged: {error}") from error
    match found:
        case {"generation": int() | None as generation, "owned": dict(by_topic)}:
            if all(map(_are_partitions, by_topic.values())):
                owned = (SplitId(CLUSTER, topic, number) for topic, numbers in by_topic.items() for number in numbers)
                return tuple(owned), generation
    raise ValueError("damaged: it has no partitions by topic")


def _are_partitions(found: Any) -> bool:
    return isinstance(found, list) and all(type(number) is int and 0 <= number <= PARTITION_MAX for number in found)
