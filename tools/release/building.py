"""How the sdist and the wheels are made: by maturin, and the wheels with zig as the linker, for an old glibc.

Zig brings the symbols of every glibc, so the result does not depend on the machine that it is built on; it comes as a
package with a lock of its own. The wheels are built from the unpacked sdist, so that one that lacks something is
found out.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.environments import ROOT, Environment
from tools.release.elf import Release
from tools.release.version import ask_git
from tools.setup.needs import answer
from tools.setup.running import Runner, environment_for

ZIG = Environment(ROOT / "build" / "zig", "requirements/release.txt")
# The oldest that the standard library of Rust works with, and what PEP 599 promises.
GLIBC: Release = (2, 17)
COMPATIBILITY = "manylinux2014"


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that wheels are built for: its name in the tags of wheels, and Rust's for it."""

    machine: str
    triple: str


TARGETS = (Target("x86_64", "x86_64-unknown-linux-gnu"), Target("aarch64", "aarch64-unknown-linux-gnu"))


def own_machine() -> str:
    """This machine, as the tags of wheels call it; no target's name where this is not Linux."""
    return platform.machine() if sys.platform == "linux" else sys.platform


def missing(targets: Sequence[Target]) -> list[str]:
    """What `targets` cannot be built without and is not there, each with how to get it. Makes zig's environment."""
    found = []
    for target in targets:
        code, said = answer(["rustc", "--print", "target-libdir", "--target", target.triple])
        libraries = Path(said.strip())
        if code != 0:
            found.append(f"`rustc --print target-libdir --target {target.triple}` failed: {said.strip()}")
        elif not any(libraries.glob("libstd-*.rlib")):
            found.append(
                f"Rust's standard library for {target.triple} is missing (looked for in {libraries}). "
                f"`rustup target add {target.triple}` gets it; a Rust that did not come from rustup has it in a "
                "package of its own, or not at all (then: rustup.rs)."
            )
    if not ZIG.is_there and (failed := ZIG.make()):
        found.append(f"zig, from {ZIG.lock}: `{failed}` failed. Is there a network?")
    elif (zig := answer([ZIG.python, "-m", "ziglang", "version"]))[0] != 0:
        found.append(
            f"zig does not run on this machine: `{ZIG.python} -m ziglang version` says: {zig[1].strip()}. "
            f"`rm -r {ZIG.place}` and the same command again make it anew."
        )
    return found


def crates() -> str:
    """Where cargo keeps what it has fetched."""
    return os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")


def environment() -> dict[str, str]:
    """What maturin and cargo run in. No path of this machine gets into the kernel."""
    code, epoch_s, _ = ask_git(ROOT, "log", "-1", "--format=%ct")
    # The same commit gives the same archives.
    when = {"SOURCE_DATE_EPOCH": epoch_s.strip()} if code == 0 and "SOURCE_DATE_EPOCH" not in os.environ else {}
    return {
        **environment_for(ROOT / ".venv"),
        **when,
        # Those of crates, which messages of panics name; paths of the sources are relative. Nothing that changes from
        # run to run may be here, or all crates are compiled each time.
        "CARGO_ENCODED_RUSTFLAGS": f"--remap-path-prefix={crates()}=/crates",
        # Not `target`: what is compiled there in the checkout has the same names.
        "CARGO_TARGET_DIR": str(ROOT / "build" / "release-target"),
        "CARGO_ZIGBUILD_PYTHON_PATH": ZIG.python,
        "CARGO_ZIGBUILD_CACHE_DIR": str(ROOT / "build" / "zig-wrappers"),
        "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig-cache"),
    }


def build_sdist(runner: Runner, out: Path) -> Path:
    """The sdist of the sources that `runner` runs in. Raises `StepFailed`."""
    return made(runner, [*MATURIN, "sdist"], out, "*.tar.gz")


def build_wheel(runner: Runner, out: Path, target: Target | None) -> Path:
    """The wheel of the sources that `runner` runs in: for `target`, with zig; else for machines like this one.

    Raises `StepFailed`.
    """
    command = [*MATURIN, "build", "--release", "--locked"]
    if target is not None:
        command += ["--zig", "--target", target.triple, "--compatibility", COMPATIBILITY]
    return made(runner, command, out, "*.whl")


MATURIN = (sys.executable, "-m", "maturin")


def made(runner: Runner, command: list[str], out: Path, pattern: str) -> Path:
    """The one new file in `out` once `command` has run."""
    before = set(out.glob(pattern))
    runner.run([*command, "--out", str(out)])
    (path,) = set(out.glob(pattern)) - before
    return path


def unpack(sdist: Path, place: Path) -> Path:
    """Unpack it into `place`; the directory that it holds."""
    shutil.unpack_archive(sdist, place)
    (directory,) = place.iterdir()
    return directory
