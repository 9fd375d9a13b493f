"""Wheels of this checkout without a compiler, and environments that have one, or lack it."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.1.0"

_OWN = ("evensplit", "pyspark_evensplit", "__editable__")


def wheel(directory: Path, version: str = VERSION) -> Path:
    """The packages of this checkout and the kernel that it has, as a wheel with a version of one's choice."""
    name = f"evensplit-{version}-cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl"
    directory.mkdir(parents=True, exist_ok=True)
    record: list[str] = []
    with zipfile.ZipFile(directory / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in _contents(version):
            archive.writestr(path, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}")
        listed = f"evensplit-{version}.dist-info/RECORD"
        archive.writestr(listed, "\n".join([*record, f"{listed},,", ""]))
    return directory / name


def _contents(version: str) -> Iterator[tuple[str, bytes]]:
    source = ROOT / "src"
    for package in ("evensplit", "pyspark_evensplit"):
        for path in sorted((source / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(source)), path.read_bytes()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = "".join(f"Requires-Dist: {one}\n" for one in project["dependencies"])
    about = f"Metadata-Version: 2.1\nName: evensplit\nVersion: {version}\n"
    about += f"Requires-Python: {project['requires-python']}\n{needs}"
    tag = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    place = f"evensplit-{version}.dist-info"
    yield f"{place}/METADATA", about.encode()
    yield f"{place}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()


def environment(directory: Path, like: Path, *, wheel: Path | None = None) -> Path:
    """A virtual environment with the packages of the directory `like`, but of evensplit only what `wheel` has.

    The packages are links, so it takes no time. Returns its Python.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    site = directory / like.relative_to(like.parents[2])
    for entry in like.iterdir():
        if not entry.name.startswith(_OWN):
            (site / entry.name).symlink_to(entry)
    if wheel is not None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return directory / "bin" / "python"


def site_packages(environment: Path) -> Path:
    """Where the packages of a virtual environment are."""
    return environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def stand_in(program: Path, python: Path) -> None:
    """Have `program` run that Python."""
    text = f'#!/bin/sh\nexec "{python}" "$@"\n'
    made = program.with_suffix(".new")
    made.write_text(text)
    made.chmod(0o755)
    shutil.move(made, program)
