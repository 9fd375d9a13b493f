"""Find the tools that every command of the Makefile needs. Those that are missing are named all at once.

Prints the interpreter to make .venv with. Exit code 2 when a tool is missing or too old. It needs nothing but a Python,
which may itself be too old (3.8 on).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, NamedTuple, Tuple  # noqa: UP035  (read at run time, where Python may be old)


class Tool(NamedTuple):
    """A program, how it is asked for its version, and how to get it."""

    program: str
    title: str
    arguments: Tuple[str, ...]  # noqa: UP006
    version: str
    """Finds the version in its answer."""
    oldest: Tuple[int, ...]  # noqa: UP006
    how: Dict[str, str]  # noqa: UP006
    """System -> command."""


PYTHON = Tool(
    "python3",
    "Python 3.11 or later, with its venv module",
    ("-c", "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"),
    r"^(\d+)\.(\d+)$",
    (3, 11),
    {
        "Debian, Ubuntu": "apt-get install python3 python3-venv   (Debian 12, Ubuntu 24.04 or later)",
        "Fedora": "dnf install python3",
        "macOS": "brew install python@3.13",
    },
)
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")
OTHERS = (
    Tool(
        "java",
        "Java 17 or later",
        ("-version",),
        r'version "(?:1\.)?(\d+)',
        (17,),
        {
            "Debian, Ubuntu": "apt-get install openjdk-17-jre-headless   (a later one will do: 21, 25)",
            "Fedora": "dnf install java-21-openjdk-headless",
            "macOS": 'brew install openjdk@17; export JAVA_HOME="$(brew --prefix openjdk@17)"',
        },
    ),
    Tool(
        "cargo",
        "cargo (Rust) 1.85 or later",
        ("--version",),
        r"cargo (\d+)\.(\d+)",
        (1, 85),
        {
            "Debian, Ubuntu": "apt-get install rustup && rustup default stable   (no such package: see rustup.rs)",
            "Fedora": "dnf install cargo   (with clippy and rustfmt for `make check`)",
            "macOS": "brew install rustup && rustup default stable   (or see rustup.rs)",
        },
    ),
    Tool(
        "cc",
        "a C compiler",
        ("--version",),
        "()",
        (),
        {
            "Debian, Ubuntu": "apt-get install gcc libc6-dev",
            "Fedora": "dnf install gcc",
            "macOS": "xcode-select --install",
        },
    ),
)
ANSWER_TIMEOUT_S = 60.0


def main() -> int:
    """The exit code."""
    pythons = [sys.executable, *filter(shutil.which, NEWER_PYTHONS)]
    with ThreadPoolExecutor() as pool:
        others = pool.map(lambda tool: trouble(tool, program_of(tool)), OTHERS)
        # Those after the first one that will do are not asked.
        said = []
        while pythons and (found := trouble(PYTHON, pythons[0])):
            said.append(found)
            pythons.pop(0)
        missing = [(tool, found) for tool, found in zip(OTHERS, others) if found]  # noqa: B905  (3.8)
    if not pythons:
        missing.insert(0, (PYTHON, "; ".join(said)))
    if missing:
        print(describe(missing), file=sys.stderr)
        return 2
    print(shutil.which(pythons[0]))
    return 0


def program_of(tool: Tool) -> str:
    """The program as brokers and Spark look for it: that of JAVA_HOME comes before PATH."""
    home = os.environ.get("JAVA_HOME") if tool.program == "java" else None
    return os.path.join(home, "bin", "java") if home else tool.program  # noqa: PTH118


def trouble(tool: Tool, program: str) -> str:
    """Why `program` cannot be used as `tool`; empty if it can."""
    path = shutil.which(program)
    if path is None:
        where = "on PATH" if program == tool.program else "there (JAVA_HOME names it)"
        return f"no `{program}` {where}"
    code, output = answer([path, *tool.arguments])
    match = re.search(tool.version, output.strip())
    if code != 0 or match is None:
        command = " ".join([path, *tool.arguments])
        return f"`{command}` failed: {(output.strip() or 'it said nothing').splitlines()[-1]}"
    version = tuple(int(part) for part in match.groups() if part)
    return f"{path} has the version {'.'.join(map(str, version))}" if version < tool.oldest else ""


def answer(command: list[str]) -> tuple[int, str]:
    """Run a short command: its exit code (127 when it cannot be run or hangs) and its output."""
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


def describe(missing: list[tuple[Tool, str]]) -> str:
    """Each missing tool, what was found instead, and the commands that install it."""
    count = "1 tool is missing" if len(missing) == 1 else f"{len(missing)} tools are missing"
    lines = [f"{count} on this machine; nothing was started.", ""]
    for tool, found in missing:
        lines += [f"  {tool.title}", f"      found: {found}"]
        lines += [f"      {system + ':':<16}{command}" for system, command in tool.how.items()]
        lines.append("")
    lines.append("Install what is missing and run the same command again.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
