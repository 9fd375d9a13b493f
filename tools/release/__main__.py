"""Build the sdist and the wheels into dist, and check each; or check files that are there.

    python -m tools.release [--tag vX.Y.Z] [--out DIRECTORY] [--machine NAME ... | --native | --check FILE ...]

--tag: the tag that this must be the release of. --out: where to put them instead of dist. --machine: wheels for these
only. --native: only a wheel for machines like this one, with the linker and the glibc that are here. --check: nothing
is built; what is named is checked as if it had been.

Exit code 0 when all that was built is in dist and has passed every check; 1 when something failed, and then dist is as
it was before; 2 when something is missing on this machine, or the version is not the one that was asked for.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.environments import ROOT
from tools.release.building import TARGETS, Target, build_sdist, build_wheel, environment, missing, unpack
from tools.release.checking import check, table
from tools.release.fragments import unreleased
from tools.release.tree import export
from tools.release.version import NoVersion, Version, find, written
from tools.setup.display import Display
from tools.setup.running import Runner, StepFailed

DIST = ROOT / "dist"
LOG = ROOT / "build" / "release.log"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="tools.release", description="The sdist and the wheels, in dist, checked.")
    parser.add_argument("--tag", metavar="vX.Y.Z", help="the tag that this must be the release of")
    parser.add_argument("--out", type=Path, default=DIST, metavar="DIRECTORY", help="where to put them instead of dist")
    only = parser.add_mutually_exclusive_group()
    machines = [target.machine for target in TARGETS]
    only.add_argument("--machine", action="append", choices=machines, help="wheels for these only; again for another")
    only.add_argument("--native", action="store_true", help="only a wheel for machines like this one, without zig")
    only.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="check these files and build nothing")
    given = parser.parse_args(arguments)
    try:
        version = find(ROOT)
    except NoVersion as error:
        return refused([str(error)])
    print(f"Version {version.text}, by {version.because}.", flush=True)
    if problems := wrong(version, given.tag):
        return refused(problems)
    if given.check:
        return check_only(version.text, given.check)
    chosen = given.machine or machines
    targets = () if given.native else [target for target in TARGETS if target.machine in chosen]
    if targets and (lacking := missing(targets)):
        return refused(lacking)
    return release(version.text, targets, given.out)


def refused(problems: Sequence[str]) -> int:
    """Say why nothing was built. The exit code."""
    print("Nothing was built:", *(f"  {problem}" for problem in problems), sep="\n", file=sys.stderr)
    return 2


def wrong(version: Version, tag: str | None) -> list[str]:
    """Why this is not the release that was asked for. A release has its changelog, wherever it is made."""
    problems = []
    if tag is not None and tag != f"v{version.text}":
        problems.append(f"--tag {tag} was asked for, and this is {version.text}, by {version.because}.")
    if version.released:
        problems += unreleased(ROOT, version.text)
        if (said := written(ROOT)) != version.text:
            problems.append(
                f"Cargo.toml says {said}: an archive of {tag or 'this tag'} without git would be that. Write "
                f"{version.text} there, `cargo update --workspace` for the lock, commit, and tag that commit."
            )
    return problems


def release(version: str, targets: Sequence[Target], dist: Path) -> int:
    """Build, check, and put it into `dist`, where it takes the place of what was built before. The exit code."""
    display = Display.for_output()
    # Outside of the checkout: maturin and cargo leave out what a repository around them ignores.
    with tempfile.TemporaryDirectory(prefix="evensplit-release-") as name:
        # Compilers see the path without links.
        place = Path(name).resolve()
        tree = place / "sources"
        export(ROOT, tree, version)
        runner = Runner(tree, LOG, environment(), display)
        try:
            built = build(targets, place, runner, display)
        except StepFailed as failure:
            display.end("FAILED")
            print(f"\n{failure}. The end of its output:\n\n{runner.tail()}\n", file=sys.stderr)
            print(f"The whole output is in {LOG.relative_to(ROOT)}.", file=sys.stderr)
            return 1
        display.begin("Checking what was built")
        checked = [check(file, version, place, portable=bool(targets)) for file in built]
        failed = any(one.problems for one in checked)
        display.end("FAILED" if failed else "done")
        print("\n" + table(checked))
        if failed:
            print(f"\nNothing was put into {dist}.", file=sys.stderr)
            return 1
        dist.mkdir(parents=True, exist_ok=True)
        for old in [*dist.glob("evensplit-*.whl"), *dist.glob("evensplit-*.tar.gz")]:
            old.unlink()
        for file in built:
            shutil.copy(file, dist)
    return 0


def build(targets: Sequence[Target], place: Path, runner: Runner, display: Display) -> list[Path]:
    """The sdist and, from it, a wheel for each of `targets`; without any, one for this machine. Raises `StepFailed`."""
    out, again = place / "out", place / "again"
    display.begin("Building the sdist")
    sdist = build_sdist(runner, out)
    display.end()
    runner.root = unpack(sdist, place / "unpacked")
    built = []
    if targets:
        built.append(sdist)
        display.begin("Building the sdist from the sdist")
        second = build_sdist(runner, again)
        if second.name != sdist.name:
            raise StepFailed(f"the sdist that is built from {sdist.name} is another one, {second.name}")
        display.end()
    for target in targets or (None,):
        display.begin(f"Building the wheel for {target.machine if target else 'machines like this one'}")
        built.append(build_wheel(runner, out, target))
        display.end()
    return built


def check_only(version: str, files: Sequence[Path]) -> int:
    """Check files that are there. The exit code."""
    with tempfile.TemporaryDirectory(prefix="evensplit-release-") as name:
        checked = [check(file.resolve(), version, Path(name).resolve(), portable=True) for file in files]
    print("\n" + table(checked))
    return 1 if any(one.problems for one in checked) else 0


if __name__ == "__main__":
    sys.exit(main())
