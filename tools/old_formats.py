"""What earlier versions of evensplit make of the offsets that this one writes, by running them.

    python -m tools.old_formats            writes tests/data/checkpoints/read_by.json
    python -m tools.old_formats --check    fails if that is not what they do

They are taken from the history of this repository: a late version with each format, and the first one with format 4,
which has grown since. A clone without that history, or a copy without git, has the file to go by.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from tests.support.goldens import GOLDEN, PLACE, document, written_now

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = PLACE / "read_by.json"

READ, GOES_ON, OTHERWISE = "reads the same", "goes on", "reads something else"


class Version(NamedTuple):
    """A version of the code, and where its codec was."""

    commit: str
    codec: str


VERSIONS: Mapping[str, Version] = {
    "1": Version("b18f28d0a03ddd9731a6dfc80cc514b02339ff2c", "evensplit.core.codec"),
    "2": Version("3fdd6bed0346f3bd1061508c4f817fef7b302d89", "evensplit.core.codec"),
    "3": Version("1cde4f494a7ffaace77018ec855c0e4568162507", "evensplit.core.codec"),
    "4 at first": Version("12aee922f83d4c7fae0e1a88c0d9cff87c3d0f3c", "evensplit.core.codec"),
    "4": Version("f2f388e8b5e9f13e1311387ee6e380b309b49fe4", "evensplit.core.state.codec"),
    "5": Version("8b52c4833710d79a2d6a5ea3132424e70a30b0a5", "evensplit.core.state.codec"),
}
"""The latest format that it knows -> the version."""

# Run by the earlier version: what it makes of each offset, in a line each. Versions whose core is like today's also go
# on: they open a batch, have readers register, and plan one that reads nothing.
_PROGRAM = """
import importlib, json, sys
codec = importlib.import_module(sys.argv[1])

def told(state):
    def one(key, split):
        removed, finished = getattr(split, "removed_at_ms", None), getattr(split, "finished", False)
        return [str(key), split.position, split.owner, removed, finished]
    return [one(key, split) for key, split in state.splits.items()]

def next_batch(state):
    from evensplit.core.machine.enumerator import step
    from evensplit.core.machine.events import (
        BatchOpened, BatchPlanned, ParallelismChanged, ReaderRegistered, SettingsChanged
    )
    events = [SettingsChanged(state.settings, dict(state.eligible)), BatchOpened(), ParallelismChanged(state.readers)]
    events += [ReaderRegistered(reader) for reader in range(state.readers)]
    for event in events:
        state = step(state, event).state
    return step(state, BatchPlanned({})).state if state.settled else None

for line in sys.stdin:
    try:
        state = codec.decode(json.loads(line))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__}))
        continue
    after = next_batch(state) if sys.argv[1].endswith("state.codec") else None
    if after is not None:
        after = codec.decode(json.loads(json.dumps(codec.encode(after))))
    print(json.dumps({"state": told(state), "after": None if after is None else told(after)}))
"""


def has(version: Version) -> bool:
    """Whether the history is there."""
    done = subprocess.run(
        ["git", "cat-file", "-e", f"{version.commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    return done.returncode == 0


def offsets() -> Mapping[str, Mapping[str, Any]]:
    """Name -> offset: those of every format, and all that is written now."""
    return {**{name: document(name) for name in GOLDEN}, **written_now()}


def evidence() -> dict[str, Any]:
    """What each version makes of each offset, with what it was."""
    documents = offsets()
    verdicts = {name: verdicts_of(version, documents) for name, version in VERSIONS.items()}
    return {
        "versions": {name: version.commit for name, version in VERSIONS.items()},
        "offsets": {
            name: {"sha256": digest(one), **{by: found[name] for by, found in verdicts.items()}}
            for name, one in documents.items()
        },
    }


def digest(offset: Mapping[str, Any]) -> str:
    """Tells an offset from others."""
    return hashlib.sha256(json.dumps(offset).encode()).hexdigest()[:16]


def verdicts_of(version: Version, documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name -> what the version makes of that offset: an error's class, or one of the words above."""
    lines = "".join(f"{json.dumps(one)}\n" for one in documents.values())
    with tempfile.TemporaryDirectory() as place:
        packed = subprocess.run(
            ["git", "archive", "--format=tar", version.commit, "src/evensplit"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(place, filter="data")
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-c",
                f"import sys; sys.path.insert(0, {f'{place}/src'!r})\n{_PROGRAM}",
                version.codec,
            ],
            input=lines,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the version {version.commit} does not run: {done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: _verdict(answer, documents[name]) for name, answer in zip(documents, answers, strict=True)}


def _verdict(answer: Mapping[str, Any], offset: Mapping[str, Any]) -> str:
    if "error" in answer:
        return str(answer["error"])
    if answer["state"] != _told(decode(offset)):
        return OTHERWISE
    if answer["after"] is None:
        return READ
    before = {key: (position, removed, finished) for key, position, _, removed, finished in answer["state"]}
    after = {key: (position, removed, finished) for key, position, _, removed, finished in answer["after"]}
    return GOES_ON if after == before else OTHERWISE


def _told(state: EnumeratorState) -> list[list[Any]]:
    return [
        [str(key), split.position, split.owner, split.removed_at_ms, split.finished]
        for key, split in state.splits.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or compare it."""
    missing = [name for name, version in VERSIONS.items() if not has(version)]
    if missing:
        print(f"this clone does not have the versions that know formats {', '.join(missing)}; fetch its whole history")
        return 2
    text = json.dumps(evidence(), indent=1) + "\n"
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        if EVIDENCE.read_text() != text:
            print(f"{EVIDENCE} is not what earlier versions do; run: python -m tools.old_formats")
            return 1
        return 0
    EVIDENCE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
