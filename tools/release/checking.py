"""Checks of what is released, file by file, and the table that says what was checked and what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.environments import ROOT
from tools.release import elf
from tools.release.archives import BadArchive, WheelName, look_into_sdist, look_into_wheel, wheel_name
from tools.release.building import GLIBC, crates, own_machine
from tools.release.installing import DoesNotWork, install_and_run, pythons
from tools.release.tree import sources


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a file. `done`: what was checked and what was not; `problems`: why it must not be used."""

    file: Path
    machine: str
    glibc: str
    done: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def size_kb(self) -> float:
        """In thousands of bytes; 0 if there is no such file."""
        return self.file.stat().st_size / 1000 if self.file.is_file() else 0.0


def check(file: Path, version: str, place: Path, *, portable: bool) -> Checked:
    """Check an sdist or a wheel of `version`; environments are made in `place`.

    `portable`: it is for other machines, so a wheel has to work with an old glibc.
    """
    if not file.is_file():
        return Checked(file, "-", "-", (), ("there is no such file",))
    if file.suffix != ".whl":
        looked = look_into_sdist(file, version, sources(ROOT))
        return Checked(file, looked.machine, looked.glibc, ("sources", "metadata"), looked.problems)
    try:
        name = wheel_name(file)
    except BadArchive as error:
        return Checked(file, "-", "-", (), (str(error),))
    looked = look_into_wheel(file, version, sources(ROOT), (crates(), str(place), str(ROOT / "build")))
    problems = [*looked.problems, *(too_new(name) if portable else [])]
    done = ["contents", "metadata", "RECORD", "the kernel's machine, libraries and symbols"]
    if problems:
        done.append("NOT run, because of that")
    elif portable and name.machine != own_machine():
        done.append(f"NOT run: it is for {name.machine}, and this machine is {own_machine()}")
    else:
        try:
            ran = [
                install_and_run(file, version, python, place / f"{file.stem}-{number}")
                for number, python in enumerate(pythons())
            ]
            done.append(f"installed and run, without cargo, on Python {', '.join(ran)}")
        except DoesNotWork as error:
            problems.append(str(error))
    return Checked(file, looked.machine, looked.glibc, tuple(done), tuple(problems))


def too_new(name: WheelName) -> list[str]:
    """Why a wheel with that name is not for Linux as old as this project promises."""
    if name.glibc is not None and name.glibc <= GLIBC:
        return []
    found = elf.text(name.glibc) if name.glibc else f"none, its platform is {'.'.join(name.platforms)}"
    return [f"its name promises to work from a glibc on, expected {elf.text(GLIBC)} or older, found {found}"]


def table(checked: Sequence[Checked]) -> str:
    """One line for each file, and below it what was checked."""
    width = max([len(one.file.name) for one in checked], default=0)
    lines = [f"{'file':<{width}} {'size':>8}  {'machine':<8} {'glibc':<6}"]
    for one in checked:
        lines.append(f"{one.file.name:<{width}} {one.size_kb:>5.0f} kB  {one.machine:<8} {one.glibc:<6}".rstrip())
        lines.append(f"    checked: {'; '.join(one.done) or 'nothing'}")
        lines += [f"    FAILED: {problem}" for problem in one.problems]
    return "\n".join(line.rstrip() for line in lines)
