"""Build the sdist and the wheels into dist, and check each; or check files that are there.

    python -m tools.release [--tag vX.Y.Z] [--out DIRECTORY] [--machine NAME ... | --native | --check FILE ...]

Wheels are made by maturin from the unpacked sdist, so a file that it lacks is found out. Zig is the linker: it brings
the symbols of every glibc, so the result does not depend on the machine that it is built on.

Exit code 0 when all that was built is in dist and has passed every check; 1 when something failed, and then dist is as
it was before; 2 when the version is not the one that was asked for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.environments import ROOT, Environment, environment_for
from tools.release.checks import Refused, check
from tools.release.version import NoVersion, export, find, wrong

TOOLS = Environment(ROOT / "build" / "release-tools", "requirements/release.txt")
DIST = ROOT / "dist"
# Machine, as the tags of wheels call it -> Rust's name for it.
TARGETS = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
MATURIN = (sys.executable, "-m", "maturin")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="tools.release", description="The sdist and the wheels, in dist, checked.")
    parser.add_argument("--tag", metavar="vX.Y.Z", help="the tag that this must be the release of")
    parser.add_argument("--out", type=Path, default=DIST, metavar="DIRECTORY", help="where to put them instead of dist")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--machine", action="append", choices=TARGETS, help="wheels for these only; again for another")
    only.add_argument("--native", action="store_true", help="only a wheel for machines like this one, without zig")
    only.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="check these files and build nothing")
    given = parser.parse_args(arguments)
    try:
        version = find(ROOT)
    except NoVersion as error:
        print(f"Nothing was built: {error}", file=sys.stderr)
        return 2
    print(f"Version {version.text}, by {version.because}.", flush=True)
    if problems := wrong(ROOT, version, given.tag):
        print("Nothing was built:", *(f"  {problem}" for problem in problems), sep="\n", file=sys.stderr)
        return 2
    if not given.native and not TOOLS.is_there and (failed := TOOLS.make()):
        print(f"`{failed}` failed. Is there a network? It fetches zig and twine.", file=sys.stderr)
        return 1
    # Outside of the checkout: maturin and cargo leave out what a repository around them ignores. Compilers see the path
    # without links.
    with tempfile.TemporaryDirectory(prefix="evensplit-release-") as name:
        place = Path(name).resolve()
        try:
            machines = () if given.native else given.machine or tuple(TARGETS)
            files = [file.resolve() for file in given.check or build(version.text, machines, place)]
            if not given.native:
                command(TOOLS.python, "-m", "twine", "check", "--strict", *map(str, files))
            for file in files:
                done = check(file, version.text, place, (crates(), str(place)), portable=not given.native)
                print(f"{file.name}, {file.stat().st_size // 1000} kB. Checked: {done}", flush=True)
        except (Refused, subprocess.CalledProcessError) as error:
            print(f"FAILED: {error}\nNothing was put into {given.out}.", file=sys.stderr)
            return 1
        if not given.check:
            put(files, given.out)
    return 0


def build(version: str, machines: Sequence[str], place: Path) -> list[Path]:
    """The sdist and, from it, a wheel for each of `machines`; without any, only one wheel for this machine."""
    tree, out, unpacked = (place / name for name in ("sources", "out", "unpacked"))
    export(ROOT, tree, version)
    command(*MATURIN, "sdist", "--out", str(out), at=tree)
    (sdist,) = out.iterdir()
    shutil.unpack_archive(sdist, unpacked)
    (tree,) = unpacked.iterdir()
    wheel = (*MATURIN, "build", "--release", "--locked", "--out", str(out))
    for machine in machines:
        command(*wheel, "--zig", "--target", TARGETS[machine], "--compatibility", "manylinux2014", at=tree)
    if not machines:
        sdist.unlink()
        command(*wheel, at=tree)
    return sorted(out.iterdir())


def command(*words: str, at: Path = ROOT) -> None:
    """Run what makes or checks files, without a path of this machine getting into the kernel."""
    print("$", *words, flush=True)
    log = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    epoch_s = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    environment = {
        # The same commit gives the same archives.
        **({"SOURCE_DATE_EPOCH": epoch_s} if epoch_s else {}),
        **environment_for(ROOT / ".venv"),
        # Messages of panics name the crates' files. Nothing that changes from run to run may be here, or all crates are
        # compiled each time.
        "CARGO_ENCODED_RUSTFLAGS": f"--remap-path-prefix={crates()}=/crates",
        # Not `target`: what is compiled there in the checkout has the same names.
        "CARGO_TARGET_DIR": str(ROOT / "build" / "release-target"),
        "CARGO_ZIGBUILD_PYTHON_PATH": TOOLS.python,
        "CARGO_ZIGBUILD_CACHE_DIR": str(ROOT / "build" / "zig-wrappers"),
        "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig-cache"),
    }
    subprocess.run(words, cwd=at, env=environment, check=True)


def crates() -> str:
    """Where cargo keeps the sources of crates."""
    return os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")


def put(files: Sequence[Path], dist: Path) -> None:
    """Copy `files` to `dist`, in the place of those that were built before."""
    dist.mkdir(parents=True, exist_ok=True)
    for old in [*dist.glob("evensplit-*.whl"), *dist.glob("evensplit-*.tar.gz")]:
        old.unlink()
    for file in files:
        shutil.copy(file, dist)


if __name__ == "__main__":
    sys.exit(main())
