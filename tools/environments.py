"""Environments beside .venv: the packages of a lock with hashes, and evensplit from this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.needs import answer

ROOT = Path(__file__).resolve().parents[1]
BUILD = "requirements/sdist.txt"
UV = (sys.executable, "-m", "uv")


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment in the directory `place`, made by the interpreter `base` from `lock`, a path in the checkout."""

    place: Path
    lock: str
    base: str = sys.executable

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.place / "bin" / "python")

    @property
    def is_there(self) -> bool:
        """Whether it has been made, and neither the lock nor the interpreter has changed since."""
        stamp = self._stamp
        return stamp.exists() and stamp.read_text() == self._wanted()

    def make(self) -> str:
        """Make it anew, whatever was there. Return the command that failed; empty if none did."""
        # Spark waits ten seconds for a worker to start; compiling all that it imports can take longer.
        sync = ("--compile-bytecode", "--python", self.python, "--require-hashes", self.lock)
        commands = (
            (*UV, "venv", "--quiet", "--clear", "--python", self.base, str(self.place)),
            (*UV, "pip", "sync", *sync, "--build-constraints", BUILD),
        )
        for command in commands:
            if subprocess.run(command, cwd=ROOT, env=environment_for(self.place), check=False).returncode:
                return " ".join(command)
        (packages,) = self.place.glob("lib/python*/site-packages")
        (packages / "evensplit-checkout.pth").write_text(f"{ROOT / 'src'}{os.linesep}")
        self._stamp.write_text(self._wanted())
        return ""

    @property
    def _stamp(self) -> Path:
        return self.place / "stamp"

    def _wanted(self) -> str:
        """All that it is made of. It holds absolute paths, so a checkout that was moved needs a new one."""
        _, version = answer([self.base, "-c", "import sys; print(sys.version)"])
        return "\n".join([str(ROOT), version, *((ROOT / lock).read_text() for lock in (self.lock, BUILD))])


def environment_for(venv: Path) -> dict[str, str]:
    """The variables of this process for programs in `venv`, without those of another environment that may be active."""
    others = {"CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "UV_SYSTEM_PYTHON", "PIP_USER"}
    return {
        **{name: value for name, value in os.environ.items() if name not in others},
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(venv),
        "UV_PYTHON_DOWNLOADS": "never",
        "PYTHONUNBUFFERED": "1",
    }
