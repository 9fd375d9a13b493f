"""Prometheus' own program for testing rules: what is there, or Debian's, fetched once into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PACKAGE = "prometheus"
VARIABLE = "EVENSPLIT_PROMTOOL"


def promtool() -> Path:
    """The one that EVENSPLIT_PROMTOOL names, or that is on PATH, or that of Debian's package, without installing it.

    If there is none, the test is skipped, and the reason says what to do.
    """
    named = os.environ.get(VARIABLE) or shutil.which("promtool")
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evensplit" / "promtool"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as directory:
            failed = _fetch(Path(directory))
            if failed:
                pytest.skip(f"there is no promtool: {failed}. Install Prometheus, or set {VARIABLE} to its promtool")
            # In one step, so that an interrupted process leaves no partial file.
            (Path(directory) / "usr/bin/promtool").replace(cache)
    return cache


def _fetch(directory: Path) -> str:
    """Debian's package, unpacked below `directory`; why that failed, if it did."""
    # Its own user could not write here.
    download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "--quiet", PACKAGE]
    failed = _run(download, directory)
    if failed and os.geteuid() == 0:
        # Where the lists of packages were never brought here, or are so old that what they name is gone.
        failed = _run(["apt-get", "-o", "Acquire::Retries=3", "update", "-qq"], directory) or _run(download, directory)
    return failed or _run(["dpkg-deb", "--extract", *map(str, directory.glob("*.deb")), "."], directory)


def _run(command: list[str], directory: Path) -> str:
    """Why it failed, if it did."""
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return f"{' '.join(command)}: {done.stderr.strip()}" if done.returncode else ""
