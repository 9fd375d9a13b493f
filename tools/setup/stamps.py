"""What was done already, by content: a step runs again when its inputs changed or its results are gone."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, Optional  # noqa: UP035  (read at run time, where Python may be old)

# Relative to the checkout, or absolute; with a digest where the content counts, not only that the file is there.
Results = Dict[str, Optional[str]]  # noqa: UP006, UP045


@dataclass(frozen=True)
class Stamp:
    """One finished step: the digest of all that went into it, and the files that came out of it."""

    key: str
    results: Results


class Stamps:
    """The stamps of one checkout, kept in one file. A damaged file counts as none."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root = root
        self._file = file
        self._stamps = self._load()

    def holds(self, step: str, key: str) -> bool:
        """Whether `step` was finished with these inputs and its results are still as they were."""
        stamp = self._stamps.get(step)
        return stamp is not None and stamp.key == key and all(map(self._is_there, stamp.results.items()))

    def forget(self, steps: Iterable[str]) -> None:
        """Trust `steps` no longer: said before one begins, so that an interruption leaves no stamp behind."""
        for step in steps:
            self._stamps.pop(step, None)
        if self._file.parent.is_dir():
            self._save()

    def finished(self, step: str, key: str, results: Results) -> None:
        """`step` is done."""
        self._stamps[step] = Stamp(key, results)
        self._save()

    def _is_there(self, result: tuple[str, str | None]) -> bool:
        name, digest = result
        path = self._root / name
        return path.exists() and (digest is None or digest_of([path], self._root) == digest)

    def _load(self) -> dict[str, Stamp]:
        try:
            held = json.loads(self._file.read_text(encoding="utf-8"))
            return {step: Stamp(str(stamp["key"]), dict(stamp["results"])) for step, stamp in held.items()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return {}

    def _save(self) -> None:
        held = {step: {"key": stamp.key, "results": stamp.results} for step, stamp in self._stamps.items()}
        draft = self._file.with_name(self._file.name + ".new")
        draft.write_text(json.dumps(held, indent=1), encoding="utf-8")
        os.replace(draft, self._file)  # noqa: PTH105  (one name for the atomic call on every Python)


def digest_of(paths: Iterable[Path], root: Path, *words: str) -> str:
    """A digest of `words` and of the names and contents of `paths`: files, or directories with all that is in them."""
    total = hashlib.sha256()
    for word in words:
        total.update(f"word {len(word)} {word}\n".encode())
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            content = file.read_bytes() if file.exists() else b"(not there)"
            name = os.path.relpath(file, root)
            total.update(f"file {len(name)} {name} {len(content)}\n".encode())
            total.update(content)
    return total.hexdigest()
