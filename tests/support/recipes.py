"""The recipes of docs/howto/deploy.md: what a reader would type, with this machine's names for those of the page."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from evensplit.testing.process.sessions import kill_session
from tests.support.pages import DOCS

PAGE = DOCS / "howto" / "deploy.md"
SPARK_HOME = Path(pyspark.__file__).parent

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended, and all that it wrote."""

    code: int
    said: str

    def well(self) -> str:
        """What it wrote; fails if it did not end well."""
        assert self.code == 0, self.said[-6000:]
        return self.said


def section(heading: str, language: str = "sh") -> list[str]:
    """The blocks in a language that stand below a heading of the page, in order; at least one."""
    _, found, rest = PAGE.read_text().partition(f"\n## {heading}\n")
    assert found, f"{PAGE.name} has no section {heading!r}"
    blocks = [match["code"] for match in _BLOCK.finditer(rest.partition("\n## ")[0]) if match["language"] == language]
    assert blocks, f"the section {heading!r} has no block in {language}"
    return blocks


def here(text: str, place: Mapping[str, str]) -> str:
    """A text of the page with what stands for its names here. Every name has to be in it."""
    for name, own in place.items():
        assert name in text, f"{name!r} is not in:\n{text}"
        text = text.replace(name, own)
    return text


def clean(path: str, **more: str) -> dict[str, str]:
    """An environment with nothing of this one but what Java, Spark and pip need, and `path` first on PATH."""
    kept = ("HOME", "JAVA_HOME", "SPARK_SUBMIT_OPTS", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE", "LANG")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    system = os.environ.get("PATH", "/usr/bin:/bin")
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "no_proxy": "127.0.0.1,localhost"}
    places = os.pathsep.join([path, str(SPARK_HOME / "bin"), system])
    return {**found, **own, "PATH": places, "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(script: str, within: Path, environment: Mapping[str, str], timeout_s: float = 480) -> Ran:
    """Run lines of a shell, up to the first that fails."""
    output = within / "said.log"
    with output.open("wb") as file:
        shell = subprocess.Popen(
            ["/bin/bash", "-euc", script],
            cwd=within,
            env=dict(environment),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(timeout_s)
        finally:
            kill_session(shell.pid)
    return Ran(code, output.read_text(errors="replace"))
