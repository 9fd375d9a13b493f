"""Compiled libraries of Linux, made byte by byte: as much of one as says what it asks of the machine that loads it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

X86_64 = 62
AARCH64 = 183
# Names and their numbers in the ELF gABI: type of a section, size of one entry.
STRTAB, DYNSYM, DYNAMIC, VERNEED, VERSYM = 3, 11, 6, 0x6FFFFFFE, 0x6FFFFFFF
NEEDED = 1


def shared_object(machine: int, symbols: Mapping[str, str], libraries: Sequence[str] = ("libc.so.6",)) -> bytes:
    """A library that needs `libraries`, and of the first of them `symbols`, each in the version that is named."""
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text) - 1

    versions = {name: index for index, name in enumerate(dict.fromkeys(symbols.values()), start=2)}
    table = bytes(24) + b"".join(struct.pack("<IBBHQQ", string(name), 0x12, 0, 0, 0, 0) for name in symbols)
    indexes = struct.pack(f"<{len(symbols) + 1}H", 0, *(versions[version] for version in symbols.values()))
    needs = struct.pack("<HHIII", 1, len(versions), string(libraries[0]), 16, 0)
    for number, (name, index) in enumerate(versions.items(), start=1):
        needs += struct.pack("<IHHII", 0, 0, index, string(name), 16 if number < len(versions) else 0)
    dynamic = b"".join(struct.pack("<qQ", NEEDED, string(name)) for name in libraries) + bytes(16)
    # Name, type, linked section, information, content, size of an entry.
    sections = [
        (".dynstr", STRTAB, 0, 0, bytes(strings), 0),
        (".dynsym", DYNSYM, 1, 1, table, 24),
        (".gnu.version", VERSYM, 2, 0, indexes, 2),
        (".gnu.version_r", VERNEED, 1, 1 if versions else 0, needs if versions else b"", 0),
        (".dynamic", DYNAMIC, 1, 0, dynamic, 16),
    ]
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", STRTAB, 0, 0, names, 0))
    body, headers = b"", bytes(64)
    for name, kind, link, info, content, entry in sections:
        where = names.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack("<IIQQQQIIQQ", where, kind, 0, 0, 64 + len(body), len(content), link, info, 1, entry)
        body += content + bytes(-len(content) % 8)
    counts = (64, 56, 0, 64, len(sections) + 1, len(sections))
    start = b"\x7fELF\x02\x01\x01" + bytes(9)
    return start + struct.pack("<HHIQQQI6H", 3, machine, 1, 0, 0, 64 + len(body), 0, *counts) + body + headers
