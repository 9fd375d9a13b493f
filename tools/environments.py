"""Environments beside .venv: the packages of a lock with hashes, and evensplit from this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.setup.needs import answer
from tools.setup.running import environment_for
from tools.setup.stamps import digest_of

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
        """Make it anew, whatever was there. The command that failed, if one did; else nothing."""
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
        """A digest of all that it is made of. It holds absolute paths: a checkout that was moved needs a new one."""
        _, version = answer([self.base, "-c", "import sys; print(sys.version)"])
        return digest_of([ROOT / self.lock, ROOT / BUILD], ROOT, str(ROOT), version)
