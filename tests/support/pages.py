"""The examples on a page of the documentation: blocks of code, and what they print, in their order.

A block in `sh` or `python` is run; a block `text` right after one is what it prints, where `...` stands for anything.
A comment after a call of `print` is its output, too. A comment before a block says that it is something else:
`<!-- file: NAME -->`: it is written to that file; `<!-- not run here: WHY -->`: it is left out. Blocks in the languages
SHOWN are not run. Others are not allowed, so that none is left out by a wrong language.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from evensplit.testing.process.sessions import kill_session

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PLAIN = ("assignment", "contributing", "explanation/laws", "explanation/owners", "howto/host", "migration")
"""Pages whose examples need neither Spark nor a broker."""

SHOWN = ("", "text", "json", "mermaid")

_FENCE = re.compile(r"^ *```(?!`)(?P<language>[^`\n]*)$", re.M)

_BLOCK = re.compile(
    r"(?:^<!-- (?P<what>file|not run here): (?P<said>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)


_PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)


def anchors(page: Path) -> set[str]:
    """The names that both GitHub and MyST give to the headings of a page."""
    text = page.read_text()
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).replace("`", "") for one in headings]
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in shown}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code. `file`: where it is to be written; `prints`: what follows it, None where nothing does."""

    language: str
    code: str
    line: int
    file: str = ""
    prints: str | None = None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are run or written, in order."""
    text = page.read_text()
    found: list[Block] = []
    end = -1
    for match in _BLOCK.finditer(text):
        language, code, what = match["language"], match["code"], match["what"]
        line = text.count("\n", 0, match.start("code")) + 1
        follows = not text[end : match.start()].strip() if end >= 0 else False
        end = match.end()
        if what == "not run here":
            end = -1
        elif language == "text" and follows and found:
            found.append(replace(found.pop(), prints=code))
        elif what == "file" or language in ("sh", "python"):
            said = "\n".join(_PRINTED.findall(code)) if language == "python" else ""
            found.append(Block(language, code, line, match["said"] if what else "", said or None))
    return found


def strangers(page: Path) -> list[str]:
    """The blocks of a page that are neither run, nor written, nor of SHOWN, and do not say why: `LANGUAGE, line N`."""
    found: list[str] = []
    opened = False
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        match = _FENCE.fullmatch(line)
        if match is None:
            continue
        opened = not opened
        language, said = match["language"].strip(), lines[number - 1] if number else ""
        known = language in (*SHOWN, "sh", "python") or language.startswith("{")
        if opened and not known and not said.startswith(("<!-- file: ", "<!-- not run here: ")):
            found.append(f"{language}, line {number + 1}")
    return found


def pages_with_examples() -> list[str]:
    """The names of all pages that have something to run, in order."""
    pages = {str(page.relative_to(DOCS).with_suffix("")): page for page in DOCS.rglob("*.md")}
    return sorted(name for name, page in pages.items() if "_build" not in page.parts and blocks(page))


def prints_like(printed: str, wanted: str) -> bool:
    """Whether that is what was to be printed; `...` stands for anything, and blanks at the ends of lines for none."""
    pattern = ".*".join(re.escape(part) for part in _stripped(wanted).split("..."))
    return re.fullmatch(pattern, _stripped(printed), re.S) is not None


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_page(page: Path, names: dict[str, object], place: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run every block of a page, in order, in the directory of this process, and see that it prints what the page says.

    `names`: what Python's blocks find there, and leave there. `place`: what stands for the names of the page.
    """
    steps = blocks(page)
    assert steps, "a page without an example"
    for step in steps:
        printed = _run(step, names, place, page.name)
        if step.prints is not None:
            assert prints_like(printed, _here(step.prints, place)), f"{page.name}, line {step.line}:\n{printed}"


def run_in_one_shell(steps: list[Block], within: Path, timeout_s: float = 840) -> list[str]:
    """Run or write all blocks, in order, in one shell in an empty directory in `within`: what each of them prints."""
    place = within / "empty"
    place.mkdir()
    with (within / "errors").open("wb") as errors:
        shell = subprocess.Popen(
            ["/bin/bash", "-c", _script(steps)],
            cwd=place,
            env=as_a_user(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = shell.communicate(timeout=timeout_s)
        finally:
            kill_session(shell.pid)
    assert shell.returncode == 0, f"{printed[-2000:]}\n{(within / 'errors').read_text()[-4000:]}"
    return [one.partition("\n")[2] for one in printed.split(_MARK)[1:]]


_MARK = "--- block "


def _script(steps: list[Block]) -> str:
    """All blocks, with a line before what each of them prints."""
    lines = ["set -euo pipefail"]
    for number, step in enumerate(steps):
        lines.append(f"echo '{_MARK}{number}'")
        lines.append(f"cat > {step.file} <<'END OF FILE'\n{step.code}END OF FILE" if step.file else step.code)
    return "\n".join(lines) + "\n"


def as_a_user() -> dict[str, str]:
    """The environment of a user with .venv activated; Java is set to start with half the processor time."""
    # COLUMNS is of whoever runs the tests in several processes: it is the width of no terminal.
    others = ("PYSPARK", "SPARK", "PYTHON", "COLUMNS")
    own = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    return {**own, "PATH": path, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def _here(text: str, place: Mapping[str, str]) -> str:
    for name, real in place.items():
        text = text.replace(name, real)
    return text


def _run(block: Block, names: dict[str, object], place: Mapping[str, str], page: str) -> str:
    """Run a block, and return its output."""
    code = _here(block.code, place)
    if block.file:
        Path(_here(block.file, place)).write_text(code)
        return ""
    if block.language == "sh":
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", code],
            env=as_a_user(),
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout
    printed = io.StringIO()
    # Tracebacks then name the page and its line.
    compiled = compile("\n" * (block.line - 1) + code, page, "exec")
    with redirect_stdout(printed):
        exec(compiled, names)
    return printed.getvalue()
