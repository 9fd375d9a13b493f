"""A process that is killed between two changes of files: what it changed before stays, and nothing else comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.places.place import Place, RemotePath, System
from tests.support.remotes import fresh, put_all


class Killed(BaseException):
    """The process is dead: nothing that it does has an effect any more."""


class Life:
    """Counts what changes files, and ends before the change with this number: then nothing else is changed either."""

    def __init__(self, changes_max: int) -> None:
        self.left = changes_max

    @property
    def over(self) -> bool:
        return self.left < 0

    def lived(self, change: Callable[..., Any]) -> Callable[..., Any]:
        """`change`, as long as there is life."""

        def counted(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return change(*arguments, **named)

        return counted


OS_CHANGES = ("fchmod", "fchown", "fsync", "link", "mkdir", "open", "rename", "replace", "rmdir", "unlink")
FS_CHANGES = ("_call", "cp_file", "get_file", "makedirs", "mv", "pipe_file", "put_file", "rm", "rm_file")


class Mortal:
    """fsspec's file system, as it is for a process that is killed."""

    def __init__(self, fs: Any, life: Life) -> None:
        self.fs, self.life = fs, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.fs, name)
        return self.life.lived(found) if name in FS_CHANGES else found


def mortal(path: Place, life: Life, patch: pytest.MonkeyPatch) -> Place:
    """`path`, where changes end with `life`. On this machine these are all of the process, as long as `patch` holds."""
    if isinstance(path, Path):
        for name in OS_CHANGES:
            patch.setattr(os, name, life.lived(getattr(os, name)))
        return path
    return RemotePath(path.url, path.at, System(Mortal(path.system.fs, life), path.system.kind))


def states_after_kills(
    kind: str, tmp_path: Path, files: Mapping[str, bytes], act: Callable[[Place], None]
) -> list[Place]:
    """Directories with `files`, in each of which `act` was killed one change later; the last was not killed."""
    found: list[Place] = []
    for changes in count():
        home = put_all(fresh(kind, tmp_path), dict(files))
        life = Life(changes)
        found.append(home)
        with pytest.MonkeyPatch.context() as patch:
            killed = mortal(home, life, patch)
            try:
                act(killed)
            except Killed:
                assert life.over
                continue
        return found
    raise AssertionError
