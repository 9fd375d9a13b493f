"""Checks of an sdist or a wheel before it is published."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from tools.environments import BUILD, ROOT, UV, environment_for
from tools.matrix import NoSuchPython, newer_python
from tools.release.version import sources

KERNEL = "evensplit/_kernel.abi3.so"
# The oldest glibc that the standard library of Rust works with, and that of manylinux2014 (PEP 599).
GLIBC = (2, 17)
LOCK = "requirements/dev.txt"
PROBE = Path(__file__).with_name("probe.py")
SHOWN = 10


class Refused(Exception):
    """A file must not be published; the message says why."""


def check(file: Path, version: str, place: Path, machine_paths: Sequence[str], *, portable: bool) -> str:
    """Check an sdist or a wheel of `version`. Return what was checked. Raises `Refused`.

    `place`: environments are made in it. `machine_paths`: paths of this machine, which must not be in a wheel.
    `portable`: the wheel is for other machines, so it has to work with an old glibc.
    """
    try:
        if file.suffix == ".whl":
            return check_wheel(file, version, place, machine_paths, portable=portable)
        _, found = parse_sdist_filename(file.name)
        with tarfile.open(file) as archive:
            names = set(archive.getnames())
    except (InvalidWheelFilename, InvalidSdistFilename, tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise Refused(str(error)) from error
    expect("its version", str(found), version)
    # Tests and settings of rustfmt are for the checkout alone.
    wanted = {
        name for name in sources(ROOT) if not name.startswith("native/") or re.search(r"/src/|/Cargo\.toml$", name)
    }
    inside = {name.removeprefix(f"evensplit-{version}/") for name in names}
    compare(inside, wanted | {"PKG-INFO"}, allowed=sources(ROOT))
    return "sources"


def check_wheel(file: Path, version: str, place: Path, machine_paths: Sequence[str], *, portable: bool) -> str:
    """The same for a wheel."""
    _, found, _, tags = parse_wheel_filename(file.name)
    expect("its version", str(found), version)
    expect("what it is for", {f"{tag.interpreter}-{tag.abi}" for tag in tags}, {"cp311-abi3"})
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    packages = {name.removeprefix("src/") for name in sources(ROOT) if name.startswith("src/")} | {KERNEL}
    compare({name for name in content if not name.startswith(f"evensplit-{version}.dist-info/")}, packages)
    for name, bytes_ in content.items():
        if named := [path for path in machine_paths if path.encode() in bytes_]:
            raise Refused(f"{name} names {named[0]}, which is of this machine")
    done = ["sources", "tags", "no path of this machine"]
    if portable:
        done.append(f"glibc and libraries by auditwheel ({audited(file)})")
        machines = {tag.platform.removeprefix("manylinux2014_") for tag in tags if "2014" in tag.platform}
        if machines != {platform.machine()}:
            return "; ".join([*done, f"NOT run: this machine is {platform.machine()}"])
    own = "{}.{}".format(*sys.version_info)
    try:
        pythons = [sys.executable, *(newer_python(own, os.environ) or ())[:1]]
    except NoSuchPython as error:
        raise Refused(str(error)) from error
    ran = [try_out(file, version, python, place / f"{file.stem}-{number}") for number, python in enumerate(pythons)]
    return "; ".join([*done, f"installed and run, without cargo, on Python {', '.join(ran)}"])


def expect(what: str, found: object, expected: object) -> None:
    """Raises `Refused`."""
    if found != expected:
        raise Refused(f"{what} is {found}, expected {expected}")


def compare(inside: set[str], expected: set[str], allowed: Sequence[str] = ()) -> None:
    """Raises `Refused` where files of an archive are missing or strange."""
    for what, names in (("missing", expected - inside), ("not among the sources", inside - expected - set(allowed))):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise Refused(f"{what}: {', '.join(sorted(names)[:SHOWN])}{more}")


def audited(wheel: Path) -> str:
    """The oldest systems that a wheel works on, by what its kernel asks for. Raises `Refused` if they are too new."""
    said = json.loads(
        run([sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)], environment_for(ROOT / ".venv"))
    )
    tag = str(said["overall_tag"])
    match = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    if match is None or (int(match[1]), int(match[2])) > GLIBC:
        raise Refused(
            f"auditwheel says {tag}, expected glibc {GLIBC[0]}.{GLIBC[1]} or older: the kernel asks for "
            f"{json.dumps(said['versioned_symbols'])}, and for these libraries: {json.dumps(said['external_libs'])}"
        )
    return tag


def try_out(wheel: Path, version: str, python: str, place: Path) -> str:
    """Install a wheel into a new environment and run it there. Return the release of Python. Raises `Refused`."""
    run([*UV, "venv", "--quiet", "--python", python, str(place)], environment_for(place))
    interpreter = str(place / "bin" / "python")
    # On this PATH is only the environment itself: anything that had to be compiled fails.
    bare = {**environment_for(place), "PATH": str(place / "bin")}
    locks = ("--constraints", LOCK, "--build-constraints", BUILD)
    run([*UV, "pip", "install", "--python", interpreter, "--only-binary", ":all:", *locks, f"{wheel}[cli]"], bare)
    return run([interpreter, "-I", str(PROBE), version], bare).split()[-1]


def run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The output of a command. Raises `Refused` with the end of it if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise Refused(f"`{' '.join(command)}` ended with {done.returncode}: {done.stdout.strip()[-3000:]}")
    return done.stdout
