"""Which Java runs the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import LocalKafkaError

OLDEST_JAVA = 17
VERSION_TIMEOUT_S = 30.0

HOW_TO_INSTALL = (
    f"Install Java {OLDEST_JAVA} or later (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`; Fedora: "
    f"`dnf install java-17-openjdk-headless`; macOS: `brew install openjdk@17`; or adoptium.net) and put it on PATH, "
    f"or set JAVA_HOME to the directory that it is in"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` that can run the broker: its path, its feature release (17, 21, …), the output of `java -version`."""

    path: Path
    release: int
    banner: str


def find_java(needs: str = "a Kafka broker needs Java") -> Java:
    """The Java of JAVA_HOME, else the first `java` on PATH. `needs`: how an error begins.

    Raises `LocalKafkaError` if there is none, if it does not run, or if it is older than Java 17; the error says what
    was found and how to install one.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        where = f"JAVA_HOME is {home}"
        if not os.access(path, os.X_OK):
            raise LocalKafkaError(f"{needs}; {where}, but there is no program {path}. {HOW_TO_INSTALL}")
    else:
        found = shutil.which("java")
        if found is None:
            raise LocalKafkaError(f"{needs}; JAVA_HOME is not set and there is no `java` on PATH. {HOW_TO_INSTALL}")
        path, where = Path(found), f"found on PATH: {found}"
    try:
        said = subprocess.run(
            [str(path), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalKafkaError(f"{needs}; {where}, but `java -version` failed: {error}. {HOW_TO_INSTALL}") from error
    banner = (said.stderr + said.stdout).strip()
    release = parse_release(banner)
    if said.returncode != 0 or release is None:
        raise LocalKafkaError(
            f"{needs}; {where}, but `java -version` ended with {said.returncode} and said {banner!r}. {HOW_TO_INSTALL}"
        )
    if release < OLDEST_JAVA:
        raise LocalKafkaError(f"{needs} {OLDEST_JAVA} or later, and this is Java {release} ({where}). {HOW_TO_INSTALL}")
    return Java(path, release, banner)


def parse_release(banner: str) -> int | None:
    """The feature release in the output of `java -version`: 8 for `1.8.0_392`, 21 for `21`; None if there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', banner)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
