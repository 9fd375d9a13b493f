"""Run the core tests on every Python and every Spark that is supported, each pair in an environment of its own.

    python -m tools.matrix [--only py3.11-spark4.2 ...] [-- arguments of pytest]

The Pythons are the one of .venv and a newer one: that of the variable PYTHON_NEWER, else the newest that is found
on PATH, among those of uv, or among those of pyenv. Without one, its half of the matrix is left out, and that is
said. The environments are in build/matrix, made of locks with hashes; what is there already is used again.

Exit code 0 when all that ran has passed, 1 when something failed, 2 when PYTHON_NEWER or --only names what is not
there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.environments import ROOT, UV, Environment, environment_for
from tools.needs import answer

PLACE = ROOT / "build" / "matrix"
# By their releases, oldest first. The last one is what everything is developed with.
SPARKS: Mapping[str, str] = {"4.2": "requirements/spark-4.2.txt", "4.3": "requirements/dev.txt"}
# Those that PySpark 4.2 and 4.3 name in their metadata beyond the oldest, newest first.
NEWER = ("3.14", "3.13", "3.12")
CORE = (
    "tests/spark/test_batch.py",
    "tests/spark/test_connect.py",
    "tests/spark/test_session.py",
    "tests/spark/test_standalone.py",
    "tests/spark/test_stream.py",
)
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
VERSIONS = "import platform, pyspark; print(platform.python_version(), pyspark.__version__)"
HOW = "`uv python install 3.13` gets one, as do pyenv and most systems; PYTHON_NEWER=/path/to/python names it."


@dataclass(frozen=True, slots=True)
class Cell:
    """One Python and one Spark. `python` is the interpreter, `version` its release."""

    python: str
    version: str
    spark: str

    @property
    def name(self) -> str:
        """What --only calls it."""
        return f"py{self.version}-spark{self.spark}"

    @property
    def environment(self) -> Environment:
        """Where it is tested."""
        return Environment(PLACE / self.name, SPARKS[self.spark], self.python)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell. Versions are those that the tests ran with; `problem`: why they did not all pass."""

    cell: Cell
    python: str = ""
    pyspark: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    problem: str = ""


class NoSuchPython(Exception):
    """PYTHON_NEWER names nothing that can be used; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="tools.matrix", description="The core tests on every Python and Spark.")
    parser.add_argument("--only", action="append", metavar="CELL", help="this cell; may be given several times")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args(arguments)
    own = "{}.{}".format(*sys.version_info)
    try:
        newer = newer_python(own, os.environ)
    except NoSuchPython as error:
        print(error, file=sys.stderr)
        return 2
    pythons = [(sys.executable, own), *([newer] if newer else [])]
    cells = [Cell(python, version, spark) for python, version in pythons for spark in SPARKS]
    unknown = sorted(set(given.only or ()) - {cell.name for cell in cells})
    if unknown:
        there = ", ".join(cell.name for cell in cells)
        print(f"--only names {', '.join(unknown)}; there is {there}. {HOW}", file=sys.stderr)
        return 2
    chosen = [cell for cell in cells if not given.only or cell.name in given.only]
    outcomes = []
    for number, cell in enumerate(chosen, start=1):
        print(f"\n[{number}/{len(chosen)}] {cell.name}", flush=True)
        outcomes.append(run(cell, given.pytest))
    print("\n" + table(outcomes))
    if newer is None:
        print(f"Left out: no Python newer than {own} found. {HOW}")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def newer_python(own: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """An interpreter beside the one of release `own`, and its release; None where there is none.

    Raises `NoSuchPython` when PYTHON_NEWER names one that does not run, or is of another release than those of NEWER.
    """
    named = environ.get("PYTHON_NEWER")
    if named:
        path = shutil.which(named)
        version = release(path) if path else None
        if path is None or version not in NEWER:
            found = "there is no such program" if path is None else f"it says that it is {version or 'no Python'}"
            raise NoSuchPython(f"PYTHON_NEWER={named}: expected Python {', '.join(NEWER)}, and {found}.")
        return path, version
    for version in NEWER:
        for path in installed(version, environ):
            if version != own and release(path) == version:
                return path, version
    return None


def installed(version: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Interpreters that may be of that release: those that uv finds, then pyenv's."""
    code, output = answer([*UV, "python", "find", "--system", "--no-project", "--no-python-downloads", version])
    if code == 0:
        yield output.strip().splitlines()[-1]
    pyenv = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True))


def release(python: str) -> str | None:
    """What an interpreter says that it is; None if it does not run."""
    code, output = answer([python, "-c", VERSION])
    return output.strip() if code == 0 else None


def run(cell: Cell, arguments: Sequence[str]) -> Outcome:
    """Make the environment of a cell if need be, and run the core tests in it."""
    environment = cell.environment
    if not environment.is_there:
        print(f"Making {environment.place.relative_to(ROOT)} from {environment.lock} ...", flush=True)
        if failed := environment.make():
            return Outcome(cell, problem=f"`{failed}` failed; is there a network?")
    _, versions = answer([environment.python, "-c", VERSIONS])
    python, pyspark = [*versions.split(), "?", "?"][:2]
    report = PLACE / f"{cell.name}.xml"
    report.unlink(missing_ok=True)
    command = [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    own = {"PYSPARK_PYTHON": environment.python, "PYSPARK_DRIVER_PYTHON": environment.python}
    began_s = time.monotonic()
    code = subprocess.run(
        [*command, *CORE, *arguments], cwd=ROOT, env={**environment_for(environment.place), **own}, check=False
    ).returncode
    seconds = time.monotonic() - began_s
    problem = "" if code == 0 else f"pytest ended with {code}"
    if not pyspark.startswith(cell.spark):
        problem = f"PySpark is {pyspark}, expected {cell.spark}"
    return Outcome(cell, python, pyspark, *counted(report), seconds, problem)


def counted(report: Path) -> tuple[int, int, int]:
    """How many tests passed, failed and were skipped, by what pytest wrote; nothing if it did not come to that."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failures - errors - skipped, failures + errors, skipped


def table(outcomes: Sequence[Outcome]) -> str:
    """One line for each cell."""
    lines = [f"{'cell':<18} {'Python':<9} {'PySpark':<9} {'passed':>6} {'failed':>6} {'skipped':>7} {'time':>6}"]
    for one in outcomes:
        counts = f"{one.passed:>6} {one.failed:>6} {one.skipped:>7} {one.seconds:>4.0f} s"
        lines.append(f"{one.cell.name:<18} {one.python:<9} {one.pyspark:<9} {counts}  {one.problem}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
