"""Processes that are killed at any moment while they write: the next one finds the old state or a new one."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.files import crc_of, crc_path, numbers_in, read_checked
from evensplit.checkpoint.places.place import Place, place
from evensplit.errors import CheckpointError
from tests.support.checkpoints import checkpoint, contents
from tests.support.remotes import SERVED, all_in, fresh, of_kind

pytestmark = pytest.mark.slow

KILLS = 12
REFUSED, TRIES_MAX = 4, 40
"""So many copies have to be killed before they are whole, and so many are tried for that."""
RANDOM = random.Random(23)
WRITER = """
import sys
from itertools import count
from evensplit.checkpoint.files import remove, replace, write_new
from evensplit.checkpoint.places.place import place

home = place(sys.argv[1])
print("begun", flush=True)
for number in count(int(sys.argv[2])):
    write_new(home / str(number), (b"new %09d " % number) * 500)
    replace(home / str(number), (b"other %09d " % number) * 900)
    remove(home / str(number - 3))
"""
COPIER = """
import sys
from pathlib import Path
from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint
from evensplit.checkpoint.look import look
from evensplit.checkpoint.places.place import place

source, target = map(place, sys.argv[1:])
seen = look(source)
print("begun", flush=True)
copy_checkpoint(source, target, {}, seen, lambda *_: None)
"""


def killed(program: str, *arguments: object, within_s: float) -> None:
    """Run a program, and kill it some time after it has begun."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(RANDOM.uniform(0, within_s))
        process.kill()


def test_files_on_this_machine(tmp_path: Path) -> None:
    home = tmp_path / "offsets"
    home.mkdir()
    (home / "0").write_bytes(b"")
    crc_path(home / "0").write_bytes(crc_of(b""))
    begin = 1
    for _ in range(KILLS):
        killed(WRITER, home, begin, within_s=0.1)
        numbers = sorted(numbers_in(home))
        for number in numbers:
            data = read_checked(home / str(number))
            assert data in ((b"new %09d " % number) * 500, (b"other %09d " % number) * 900, b"")
        # No checksums are left alone: Spark could not write a file of that name.
        sums = {path.name[1:-4] for path in home.glob(".*.crc") if not path.name.endswith(".tmp.crc")}
        assert sums <= set(map(str, numbers))
        begin = numbers[-1] + 1
    assert begin > KILLS


@pytest.mark.parametrize("where", [of_kind(kind) for kind in ("local", *SERVED)])
def test_copies(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if where != "local":
        request.getfixturevalue(where)
    source = checkpoint(tmp_path / "from", *[[f'{{"orders":{{"0":{batch}}}}}'] for batch in range(60)], committed=58)
    whole = contents(source)
    refused = 0
    for _ in range(TRIES_MAX):
        target: Place = fresh(where, tmp_path)
        killed(COPIER, source, target, within_s=0.1 if where == "local" else 0.6)
        # What was on its way arrives now, or does not. So first it is read, and then looked at.
        problem = ""
        try:
            read_checkpoint(place(str(target)))
        except CheckpointError as error:
            problem = str(error)
        if problem:
            assert re.search(r"is an incomplete copy|there is no directory", problem)
            refused += 1
        else:
            assert all_in(target) == whole
        if refused == REFUSED:
            return
    raise AssertionError(f"only {refused} of {TRIES_MAX} were killed before they were done")
