"""The tools that must be on the machine: all of them looked for, and all that are missing told at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OLDEST_PYTHON = (3, 11)
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")
OLDEST_JAVA = 17
OLDEST_CARGO = (1, 85)
ANSWER_TIMEOUT_S = 60.0

PYTHON_PROBE = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True)
class Missing:
    """A tool that is not there or cannot be used: `what` was needed, what was `found`, `how` to get it by system."""

    what: str
    found: str
    how: dict[str, str]


@dataclass(frozen=True)
class Found:
    """All tools are there. `python` is the interpreter that makes the virtual environment."""

    python: str


HOW_PYTHON = {
    "Debian, Ubuntu": "apt-get install python3 python3-venv   (Debian 12, Ubuntu 24.04 or later)",
    "Fedora": "dnf install python3",
    "macOS": "brew install python@3.13",
}
HOW_JAVA = {
    "Debian, Ubuntu": "apt-get install openjdk-17-jre-headless   (a later one will do: 21, 25)",
    "Fedora": "dnf install java-21-openjdk-headless",
    "macOS": 'brew install openjdk@17; export JAVA_HOME="$(brew --prefix openjdk@17)"',
}
HOW_CARGO = {
    "Debian, Ubuntu": "apt-get install rustup && rustup default stable   (no such package: see rustup.rs)",
    "Fedora": "dnf install cargo   (with clippy and rustfmt for `make check`)",
    "macOS": "brew install rustup && rustup default stable   (or see rustup.rs)",
}
HOW_COMPILER = {
    "Debian, Ubuntu": "apt-get install gcc libc6-dev",
    "Fedora": "dnf install gcc",
    "macOS": "xcode-select --install",
}


def find_all() -> Found | list[Missing]:
    """Look for every tool. Either all are there, or the list of those that are not, in the order they are needed."""
    with ThreadPoolExecutor() as pool:
        python = pool.submit(find_python)
        others = [pool.submit(check) for check in (check_java, check_cargo, check_compiler)]
        found = python.result()
        missing = [result for result in (other.result() for other in others) if result is not None]
    if isinstance(found, Missing):
        return [found, *missing]
    return missing or Found(found)


def find_python() -> str | Missing:
    """The interpreter that runs this, or a newer one from PATH when it is too old or cannot make environments."""
    what = f"Python {version_text(OLDEST_PYTHON)} or later, with its venv module"
    said = []
    for name in (sys.executable, *NEWER_PYTHONS):
        path = shutil.which(name)
        if path is None:
            continue
        code, output = (0, own_version()) if name == sys.executable else answer([path, "-c", PYTHON_PROBE])
        version = parse_version(output) if code == 0 else None
        if version is not None and version >= OLDEST_PYTHON:
            return path
        if version is not None:
            said.append(f"{path} is Python {version_text(version)}")
        else:
            said.append(f"{path} cannot make virtual environments ({last_line(output)})")
    return Missing(what, "; ".join(said), HOW_PYTHON)


def own_version() -> str:
    """What the probe says of the interpreter that runs this, without the time that starting it again takes."""
    lacking = [module for module in ("ensurepip", "venv") if find_spec(module) is None]
    return f"no module named {' and '.join(lacking)}" if lacking else version_text(sys.version_info[:2])


def check_java() -> Missing | None:
    """Java, as the brokers and Spark will look for it: that of JAVA_HOME, else the first on PATH."""
    what = f"Java {OLDEST_JAVA} or later"
    home = os.environ.get("JAVA_HOME")
    if home:
        path: str | None = str(Path(home) / "bin" / "java")
        if not os.access(str(path), os.X_OK):
            return Missing(what, f"JAVA_HOME is {home}, and there is no program {path}", HOW_JAVA)
    else:
        path = shutil.which("java")
    if path is None:
        return Missing(what, "no `java` on PATH, and JAVA_HOME is not set", HOW_JAVA)
    code, output = answer([path, "-version"])
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if code != 0 or match is None:
        return Missing(what, f"`{path} -version` failed: {last_line(output)}", HOW_JAVA)
    release = int(match[2]) if match[1] == "1" and match[2] else int(match[1])
    if release < OLDEST_JAVA:
        because = " (JAVA_HOME names it)" if home else ""
        return Missing(what, f"{path} is Java {release}{because}", HOW_JAVA)
    return None


def check_cargo() -> Missing | None:
    """Rust's build tool, recent enough for the crates in Cargo.lock."""
    what = f"cargo (Rust) {version_text(OLDEST_CARGO)} or later"
    path = shutil.which("cargo")
    if path is None:
        return Missing(what, "no `cargo` on PATH", HOW_CARGO)
    code, output = answer([path, "--version"])
    version = parse_version(output) if code == 0 else None
    if version is None:
        return Missing(what, f"`{path} --version` failed: {last_line(output)}", HOW_CARGO)
    if version < OLDEST_CARGO:
        return Missing(what, f"{path} is cargo {version_text(version)}", HOW_CARGO)
    return None


def check_compiler() -> Missing | None:
    """A C compiler named `cc`: Rust links with it, and the zstd library is built with it."""
    what = "a C compiler"
    path = shutil.which("cc")
    if path is None:
        return Missing(what, "no `cc` on PATH", HOW_COMPILER)
    code, output = answer([path, "--version"])
    if code != 0:
        return Missing(what, f"`{path} --version` failed: {last_line(output)}", HOW_COMPILER)
    return None


def describe(missing: list[Missing]) -> str:
    """What a person needs to read: each missing tool, what was found in its place, and the command that brings it."""
    count = "1 tool is missing" if len(missing) == 1 else f"{len(missing)} tools are missing"
    lines = [f"{count} on this machine; nothing was started.", ""]
    for one in missing:
        lines += [f"  {one.what}", f"      found: {one.found}"]
        lines += [f"      {system + ':':<16}{command}" for system, command in one.how.items()]
        lines.append("")
    lines.append("Install what is missing and run the same command again.")
    return "\n".join(lines)


def answer(command: list[str]) -> tuple[int, str]:
    """Run a short command: its exit code (127 when it cannot be run or hangs) and all that it said."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def parse_version(text: str) -> tuple[int, int] | None:
    """The first `major.minor` in `text`, None when there is none."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def version_text(version: tuple[int, int]) -> str:
    """`(3, 11)` as people write it."""
    return f"{version[0]}.{version[1]}"


def last_line(text: str) -> str:
    """The last line that is not blank, or words that say there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
