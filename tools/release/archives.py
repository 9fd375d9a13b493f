"""What must be in an sdist and in a wheel: all sources, nothing else, and one version everywhere."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from tools.release import elf

KERNEL = "evensplit/_kernel.abi3.so"
MANYLINUX = {"manylinux2014": (2, 17)}
# Names in one sentence.
SHOWN = 10


class BadArchive(Exception):
    """A file that cannot be read as what its name says; the message says why."""


@dataclass(frozen=True, slots=True)
class WheelName:
    """What the name of a wheel says."""

    version: str
    python: str
    abi: str
    platforms: tuple[str, ...]

    @property
    def machine(self) -> str:
        """The machine it is for, as the tags of Linux call it; the last part of the tag of another system."""
        match = re.search(r"(x86_64|[^_]+)$", self.platforms[0])
        return match[1] if match else ""

    @property
    def glibc(self) -> elf.Release | None:
        """The oldest glibc that it promises to work with; None if it promises nothing."""
        found = [release for one in self.platforms if (release := promised(one)) is not None]
        return min(found, default=None)


@dataclass(frozen=True, slots=True)
class Looked:
    """What looking into an archive has shown. `glibc`: the oldest that its kernel works with."""

    problems: tuple[str, ...]
    machine: str = "any"
    glibc: str = "-"


def wheel_name(path: Path) -> WheelName:
    """Raises `BadArchive`."""
    parts = path.name.removesuffix(".whl").split("-")
    if not path.name.endswith(".whl") or len(parts) != 5 or parts[0] != "evensplit":
        raise BadArchive(f"{path.name}: expected evensplit-VERSION-PYTHON-ABI-PLATFORM.whl")
    return WheelName(parts[1], parts[2], parts[3], tuple(parts[4].split(".")))


def sdist_version(path: Path) -> str:
    """What the name of an sdist says. Raises `BadArchive`."""
    match = re.fullmatch(r"evensplit-(.+)\.tar\.gz", path.name)
    if match is None:
        raise BadArchive(f"{path.name}: expected evensplit-VERSION.tar.gz")
    return match[1]


def promised(platform: str) -> elf.Release | None:
    """The glibc of a platform's tag (PEP 600, and the name that PEP 599 has for 2.17)."""
    if match := re.match(r"manylinux_(\d+)_(\d+)_", platform):
        return int(match[1]), int(match[2])
    return MANYLINUX.get(platform.split("_")[0])


def look_into_sdist(path: Path, version: str, sources: Sequence[str]) -> Looked:
    """Whether all of `sources`, paths in the checkout, are in it, and its metadata says `version`."""
    top = f"evensplit-{version}/"
    try:
        with tarfile.open(path) as archive:
            names = archive.getnames()
            member = archive.extractfile(f"{top}PKG-INFO")
            metadata = message_from_bytes(member.read() if member else b"")
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        return Looked((f"it cannot be read: {error}",))
    inside = {name.removeprefix(top) for name in names if name.startswith(top)}
    found = of_metadata(metadata, version)
    found += listed("not below its one directory", (name for name in names if not name.startswith(top)))
    # Tests and settings of rustfmt are for the checkout alone.
    needed = [name for name in sources if not name.startswith("native/") or re.search(r"/src/|/Cargo\.toml$", name)]
    found += listed("missing", sorted(set(needed) - inside))
    found += listed("not among the sources", sorted(inside - {*sources, "PKG-INFO"}))
    return Looked(tuple(found))


def look_into_wheel(path: Path, version: str, sources: Sequence[str], machine_paths: Sequence[str] = ()) -> Looked:
    """Whether a wheel holds what it should; `machine_paths` are those of this machine, which must not be in it."""
    name = wheel_name(path)
    info = f"evensplit-{version}.dist-info/"
    try:
        with zipfile.ZipFile(path) as archive:
            content = {one: archive.read(one) for one in archive.namelist() if not one.endswith("/")}
    except (zipfile.BadZipFile, OSError) as error:
        return Looked((f"it cannot be read: {error}",))
    found = [f"its name says {name.version}, expected {version}"] if name.version != version else []
    if (name.python, name.abi) != ("cp311", "abi3"):
        found.append(f"it is for {name.python}-{name.abi}, expected cp311-abi3: one for every Python from 3.11 on")
    expected = {one.removeprefix("src/") for one in sources if one.startswith("src/")} | {KERNEL}
    modules = {one for one in content if not one.startswith(info)}
    found += [
        f"{one} names {place}, which is of this machine"
        for one in content
        for place in machine_paths
        if place.encode() in content[one]
    ]
    found += listed("missing", sorted(expected - modules))
    found += listed("not among the sources", sorted(modules - expected))
    needed = [f"{info}{one}" for one in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")]
    if lacking := [one for one in needed if one not in content]:
        return Looked((*found, *listed("missing", lacking)), name.machine)
    found += of_metadata(message_from_bytes(content[f"{info}METADATA"]), version)
    found += of_tags(message_from_bytes(content[f"{info}WHEEL"]), name)
    found += of_record(content, f"{info}RECORD")
    if KERNEL not in content:
        return Looked(tuple(found), name.machine)
    return of_kernel(content[KERNEL], name, found)


def of_kernel(content: bytes, name: WheelName, found: list[str]) -> Looked:
    """The same with what the kernel of a wheel for Linux shows."""
    if "linux" not in name.platforms[0]:
        return Looked(tuple(found), name.machine)
    try:
        library = elf.read(content)
    except elf.NotElf as error:
        return Looked((*found, f"the kernel is no library: {error}"), name.machine)
    problems = elf.problems(library, name.machine, name.glibc)
    return Looked((*found, *problems), library.machine, elf.text(library.glibc) if library.glibc else "any")


def of_metadata(metadata: Message, version: str) -> list[str]:
    """What is wrong with the metadata of an sdist or a wheel."""
    expected = {"Name": "evensplit", "Version": version, "Requires-Python": ">=3.11", "License-File": "LICENSE"}
    return [
        f"its metadata says {field}: {metadata[field]}, expected {value}"
        for field, value in expected.items()
        if metadata[field] != value
    ]


def of_tags(wheel: Message, name: WheelName) -> list[str]:
    """What is wrong with the tags inside a wheel: they have to be those of its name."""
    inside = sorted(wheel.get_all("Tag") or [])
    outside = sorted(f"{name.python}-{name.abi}-{platform}" for platform in name.platforms)
    return [] if inside == outside else [f"its tags are {', '.join(inside)}, and its name says {', '.join(outside)}"]


def of_record(content: dict[str, bytes], record: str) -> list[str]:
    """What is wrong with the list of files and digests, which installers compare."""
    digests = {row[0]: row[1] for row in csv.reader(io.StringIO(content[record].decode())) if row}
    found = listed("in RECORD and not there", sorted(set(digests) - set(content)))
    found += listed("not in RECORD", sorted(set(content) - set(digests)))
    both = (set(digests) & set(content)) - {record}
    wrong = sorted(one for one in both if digests[one] != sha256(content[one]))
    return found + listed("with another digest than in RECORD", wrong)


def sha256(content: bytes) -> str:
    """The digest as RECORD has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def listed(what: str, names: Iterable[str]) -> list[str]:
    """One sentence for all of them, or none."""
    there = list(names)
    more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    return [f"{what}: {', '.join(there[:SHOWN])}{more}"] if there else []
