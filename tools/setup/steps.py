"""The four steps of the set-up: what each depends on, does and leaves behind, and what to do when it fails."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable  # noqa: UP035  (read at run time, where Python may be old)

from tools.setup.needs import answer
from tools.setup.running import Runner, StepFailed
from tools.setup.stamps import Results, digest_of

# Raised when a step does something else than before with the same inputs.
LAYOUT = "1"
KERNEL_INPUTS = ("native", "Cargo.toml", "Cargo.lock", "pyproject.toml")
KERNEL = "src/evensplit/_kernel.abi3.so"
JAR_INPUTS = ("src/evensplit/testing/process/jars.py", "tools/kafka_jars.py")
# Whoever changes one of these means other jars, or another cache.
JAR_VARIABLES = ("EVENSPLIT_KAFKA_LIBS", "XDG_CACHE_HOME", "HOME")
VENV_PROBE = "import sys, uv; print('%d.%d' % sys.version_info[:2], sys.prefix)"

NETWORK = (
    "Is there a network? Behind a proxy set HTTPS_PROXY; with a mirror of your own set PIP_INDEX_URL and "
    "UV_DEFAULT_INDEX; with a certificate authority of your own set SSL_CERT_FILE."
)


@dataclass(frozen=True)
class Place:
    """Where the set-up happens: the checkout, and the interpreter that makes its environment."""

    root: Path
    base_python: str

    @property
    def venv(self) -> Path:
        """The virtual environment."""
        return self.root / ".venv"

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.venv / "bin" / "python")

    def inputs(self, *names: str) -> list[Path]:
        """Paths in the checkout."""
        return [self.root / name for name in names]


@dataclass(frozen=True)
class Step:
    """One step. `key` digests its inputs, `run` does the work and names its results, `advice` helps when it fails."""

    name: str
    title: str
    advice: str
    key: Callable[[Place], str]
    run: Callable[[Place, Runner], Results]


def venv_key(place: Place) -> str:
    """Environments hold absolute paths, so a checkout that was moved needs a new one; a broken one has no version."""
    code, output = answer([place.python, "-c", VENV_PROBE])
    version = output.strip() if code == 0 else "broken"
    return digest_of(place.inputs("requirements/uv.txt"), place.root, LAYOUT, str(place.root), version)


def make_venv(place: Place, runner: Runner) -> Results:
    """A new environment, whatever was there, with uv in it."""
    if place.venv.is_symlink():
        place.venv.unlink()
    elif place.venv.exists():
        shutil.rmtree(str(place.venv))
    runner.run([place.base_python, "-m", "venv", str(place.venv)])
    uv = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", "requirements/uv.txt"]
    runner.run([place.python, "-m", "pip", "install", "--progress-bar", "off", *uv])
    return {".venv/bin/python": None, ".venv/bin/uv": None}


def packages_key(place: Place) -> str:
    """The locks are all that decides which packages there are."""
    return digest_of(place.inputs("requirements/dev.txt", "requirements/sdist.txt"), place.root)


def install_packages(place: Place, runner: Runner) -> Results:
    """Exactly the packages of the lock, each with the hash that it has there."""
    locked = ["--require-hashes", "requirements/dev.txt", "--build-constraints", "requirements/sdist.txt"]
    runner.run([place.python, "-m", "uv", "pip", "sync", "--python", place.python, *locked])
    return dict.fromkeys(installed(place))


def kernel_key(place: Place) -> str:
    """The Rust sources and whatever says how they are built."""
    return digest_of(place.inputs(*KERNEL_INPUTS), place.root)


def build_kernel(place: Place, runner: Runner) -> Results:
    """The Rust kernel, next to the Python sources, and the package itself installed so that it is edited in place."""
    tree = ["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    listed = runner.run(["cargo", "tree", "--locked", "--package", "evensplit-binding", *tree], lambda _: FETCHING)
    crates = {line for line in listed.splitlines() if re.fullmatch(r"[\w-]+ v\d.*", line)}
    build = ["develop", "--uv", "--release", "--locked"]
    runner.run([place.python, "-m", "maturin", *build], CrateCount(len(crates)))
    own = [name for name in installed(place) if Path(name).name.startswith("evensplit-")]
    if not own:
        raise StepFailed("maturin ended well, and yet the package is not installed in .venv")
    return {KERNEL: digest_of(place.inputs(KERNEL), place.root), **dict.fromkeys(own)}


FETCHING = (0, 0, "fetching the crates of Cargo.lock")


class CrateCount:
    """Counts the crates that cargo says it compiles, of `total`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen = 0
        self._doing = "starting cargo"

    def __call__(self, line: str) -> tuple[int, int, str]:
        match = re.match(r"\s*Compiling (\S+) v", line)
        if match:
            self._seen = min(self._seen + 1, self._total)
            self._doing = match[1]
        return self._seen, self._total, self._doing


def jars_key(place: Place) -> str:
    """Which jars, and where they are kept."""
    places = [f"{name}={os.environ.get(name)}" for name in JAR_VARIABLES]
    return digest_of(place.inputs(*JAR_INPUTS), place.root, *places)


def resolve_jars(place: Place, runner: Runner) -> Results:
    """Kafka's jars in the user's cache, which all checkouts share."""
    lines = runner.run([place.python, "-m", "tools.kafka_jars"], jar_progress).splitlines()
    libs = Path(lines[-1][len("in ") :]) if lines and lines[-1].startswith("in ") else None
    if libs is None or not libs.is_dir():
        raise StepFailed("the jars were resolved, but it was not said where they are")
    return {str(jar): None for jar in sorted(libs.glob("*.jar"))}


def jar_progress(line: str) -> tuple[int, int, str]:
    """What a line of tools.kafka_jars says."""
    match = re.match(r"(\d+) (\d+) (.*)", line)
    return (int(match[1]), int(match[2]), match[3]) if match else (0, 0, line.strip())


def installed(place: Place) -> list[str]:
    """The metadata directories of what is installed in the environment, relative to the checkout."""
    found = place.venv.glob("lib/python*/site-packages/*.dist-info")
    return sorted(str(path.relative_to(place.root)) for path in found)


STEPS = (
    Step("venv", "Making .venv, with uv in it", NETWORK, venv_key, make_venv),
    Step("packages", "Installing the locked packages", NETWORK, packages_key, install_packages),
    Step(
        "kernel",
        "Compiling the Rust kernel",
        "If a crate could not be fetched: is there a network? A proxy or mirror of your own goes into cargo's config. "
        "If it did not compile: is `rustc --version` as new as `cargo --version`, and does `cc` compile a C program?",
        kernel_key,
        build_kernel,
    ),
    Step(
        "jars",
        "Fetching Kafka's jars",
        "Without a Maven repository in reach, set EVENSPLIT_KAFKA_LIBS to a directory that holds Kafka's jars.",
        jars_key,
        resolve_jars,
    ),
)
