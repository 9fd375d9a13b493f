"""Run every check of the code, whatever the ones before it said, and list those that failed.

Exit code 0 when all passed, else 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable

CHECKS: Mapping[str, tuple[str, ...]] = {
    "Python format": (PYTHON, "-m", "ruff", "format", "--check", "."),
    "Python lint": (PYTHON, "-m", "ruff", "check", "."),
    "Python types": (PYTHON, "-m", "mypy"),
    "import contract": (PYTHON, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
    "documentation": (PYTHON, "-m", "tools.documentation"),
    "Rust format": ("cargo", "fmt", "--all", "--check"),
    "Rust format of the bench": ("cargo", "fmt", "--manifest-path", "bench/crates/Cargo.toml", "--check"),
    "Rust lint": ("cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"),
    "Rust tests": ("cargo", "test", "--workspace", "--locked", "--quiet"),
}
HINTS: Mapping[str, str] = {
    "Python format": "`.venv/bin/python -m ruff format .` does it.",
    "Rust format": "`cargo fmt --all` does it (`rustup component add rustfmt` where it is missing).",
    "Rust lint": "`rustup component add clippy` where it is missing.",
}


def main(checks: Mapping[str, tuple[str, ...]] = CHECKS) -> int:
    """Run `checks`, by name, in order. The exit code."""
    environment = {**os.environ, "PYO3_PYTHON": PYTHON, "CARGO_TERM_PROGRESS_WHEN": "never"}
    failed = [name for name, command in checks.items() if not passes(name, command, environment)]
    if failed:
        print(f"\n{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
        return 1
    print(f"\nAll {len(checks)} checks passed.")
    return 0


def passes(name: str, command: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Run one check; what it said is shown only when it failed."""
    print(f"{name} ... ", end="", flush=True)
    began_s = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code, output = done.returncode, done.stdout
    except OSError as error:
        code, output = 127, str(error)
    took = f"({time.monotonic() - began_s:.0f} s)"
    if code == 0:
        print(f"passed {took}")
        return True
    print(f"FAILED {took}\n\n$ {' '.join(command)}\n{output}\n{HINTS.get(name, '')}")
    return False


if __name__ == "__main__":
    sys.exit(main())
