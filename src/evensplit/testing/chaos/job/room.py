"""A small file system for a checkpoint, so that it can be filled without harm to others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, which
from tempfile import TemporaryDirectory

from evensplit.testing.chaos.job.task import Task

SIZE_MIB = 96


def may_mount() -> bool:
    """Whether this process may mount file systems, as root on Linux may, unless it is in a container."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    with TemporaryDirectory() as place:
        return _succeeds("mount", "-t", "tmpfs", "evensplit-chaos", place) and _succeeds("umount", place)


@contextmanager
def room_for_checkpoints(task: Task) -> Iterator[Path | None]:
    """Mount a file system in memory as the checkpoint of the first query, for the `with` block, where that is allowed.

    The path of the checkpoint, which is an ordinary directory again afterwards; None where mounting is not allowed.
    """
    place = task.checkpoint(task.queries[0])
    if not may_mount():
        yield None
        return
    place.mkdir(parents=True)
    mounted = _succeeds("mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "evensplit-chaos", str(place))
    try:
        yield place if mounted else None
    finally:
        if mounted:
            kept = place.with_name(f"{place.name}-kept")
            try:
                copytree(place, kept, ignore_dangling_symlinks=True)
            finally:
                # A file that is still open in it keeps it, unseen, until it is closed.
                _succeeds("umount", "--lazy", str(place))
            place.rmdir()
            kept.rename(place)


def _succeeds(program: str, *arguments: str) -> bool:
    found = which(program)
    return found is not None and subprocess.run([found, *arguments], check=False, timeout=60).returncode == 0
