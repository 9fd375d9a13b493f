"""Numbers as Avro and Protocol Buffers write them."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits in each byte, the lowest ones first."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))
