"""What a compiled library asks of the machine that loads it: its processor, its libraries, and how new a glibc.

Sources: the ELF gABI, the symbol versioning of the Linux Standard Base (Core, 10.7), and PEP 599 and 600 for what a
wheel with a manylinux tag may ask for.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

Release = tuple[int, int]

MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# Those of PEP 599 that a library of this kind has use for; each is a part of glibc or of gcc's run time.
LIBRARIES = frozenset(
    {
        "ld-linux-aarch64.so.1",
        "ld-linux-x86-64.so.2",
        "libc.so.6",
        "libdl.so.2",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
    }
)


class NotElf(Exception):
    """Bytes that are no compiled library of Linux; the message says why."""


@dataclass(frozen=True, slots=True)
class Library:
    """What a compiled library asks for. `symbols`: the functions that it takes from each release of glibc."""

    machine: str
    needed: tuple[str, ...]
    symbols: dict[Release, tuple[str, ...]]

    @property
    def glibc(self) -> Release | None:
        """The oldest glibc that can load it; None if it asks for none."""
        return max(self.symbols, default=None)


def read(content: bytes) -> Library:
    """Raises `NotElf`."""
    try:
        elf = ELFFile(io.BytesIO(content))
        machine = str(elf["e_machine"])
        needed = [
            str(tag.needed)
            for section in elf.iter_sections()
            if isinstance(section, DynamicSection)
            for tag in section.iter_tags("DT_NEEDED")
        ]
        return Library(MACHINES.get(machine, machine), tuple(needed), glibc_symbols(elf))
    except (ELFError, UnicodeDecodeError, AttributeError, KeyError) as error:
        raise NotElf(f"{type(error).__name__}: {error}") from error


def glibc_symbols(elf: ELFFile) -> dict[Release, tuple[str, ...]]:
    """The symbols by the release of glibc that they are bound to. A release may be asked for without any symbol."""
    releases: dict[int, Release] = {}
    names: dict[Release, list[str]] = {}
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, versions in section.iter_versions():
                for version in versions:
                    if match := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version.name):
                        release = int(match[1]), int(match[2])
                        releases[version["vna_other"]] = release
                        names.setdefault(release, [])
    for section in elf.iter_sections():
        if isinstance(section, GNUVerSymSection):
            for symbol in section.iter_symbols():
                if (index := symbol["ndx"]) in releases:
                    names[releases[index]].append(symbol.name)
    return {release: tuple(sorted(found)) for release, found in sorted(names.items())}


def problems(library: Library, machine: str, glibc: Release | None) -> list[str]:
    """Why the library is not one for `machine` with that glibc or any newer one; with None any glibc will do."""
    found = []
    if library.machine != machine:
        found.append(f"the kernel is for {library.machine}, expected {machine}")
    if glibc is not None:
        found += [
            f"the kernel asks for glibc {text(release)}, at most {text(glibc)} is expected: "
            f"{', '.join(names) or 'no symbol, but the version'}"
            for release, names in library.symbols.items()
            if release > glibc
        ]
        strange = [name for name in library.needed if name not in LIBRARIES]
        if strange:
            found.append(f"the kernel asks for libraries that not every Linux has: {', '.join(strange)}")
    return found


def text(release: Release) -> str:
    """`(2, 17)` as people write it."""
    return f"{release[0]}.{release[1]}"
