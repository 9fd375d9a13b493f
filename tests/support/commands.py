"""The command line in this process: what a command prints, and how it ends."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from evensplit.cli.group import evensplit


def invoke(*arguments: object, code: int = 0, columns: int = 200) -> tuple[str, str]:
    """Standard output, and standard error without its breaks of lines. `code`: how the command has to end."""
    result = CliRunner().invoke(evensplit, [str(one) for one in arguments], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stdout, " ".join(result.stderr.split())


def trimmed(text: str) -> str:
    """The lines without the blanks at their ends."""
    return "\n".join(row.rstrip() for row in text.splitlines())


def read_checkpoint(name: str, place: Path, *options: str, code: int = 0) -> tuple[str, str]:
    """The output of a command for a checkpoint; `report` writes its page beside that."""
    output = ("-o", place.parent / "report.html") if name == "report" else ()
    shown, told = invoke(name, place, *output, *options, code=code, columns=160)
    return trimmed(shown), told
