"""A wheel in an environment of its own, where no cargo is to be found: does it install, and does it work?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.environments import BUILD, ROOT, UV
from tools.matrix import NoSuchPython, newer_python
from tools.setup.running import environment_for

LOCK = "requirements/dev.txt"
CHECK_TIMEOUT_S = 300.0

# Run without the checkout: records that kafka-python encodes are decoded by the kernel, and the command line answers.
PROBE = """
import shutil, subprocess, sys
from pathlib import Path

import evensplit
from evensplit._kernel import ColumnBuilder
from evensplit.kafka.fetch.columns import COLUMNS, to_record_batch
from kafka.record.memory_records import MemoryRecordsBuilder

version, environment = sys.argv[1], Path(sys.prefix)
assert environment in Path(evensplit.__file__).parents, evensplit.__file__
assert not [tool for tool in ("cargo", "rustc", "cc") if shutil.which(tool)]
assert evensplit.__version__ == version, evensplit.__version__
said = subprocess.check_output([environment / "bin" / "evensplit", "--version"], text=True)
assert said.split() == ["evensplit", version], said

records = MemoryRecordsBuilder(magic=2, compression_type=1, batch_size=1 << 20)
for number in range(1000):
    records.append(timestamp=number, key=b"%d" % (number % 7), value=b"%d" % number, headers=[])
records.close()
frame = bytearray(records.buffer())
limits = {"rows_max": 10_000, "bytes_max": 1 << 24, "uncompressed_bytes_max": 1 << 24}
builder = ColumnBuilder(columns=COLUMNS, **limits)
where = {"cluster": "eu", "topic": "orders", "partition": 3, "offset_start": 0, "offset_end": 1000, "aborted": ()}
builder.append(frame, 0, len(frame), **where)
rows = to_record_batch(builder.finish())
assert rows.column("value").to_pylist() == [b"%d" % number for number in range(1000)], rows
print("%d.%d" % sys.version_info[:2])
"""


class DoesNotWork(Exception):
    """The wheel cannot be installed, or does not work; the message says which command failed, and what it said."""


def pythons() -> list[str]:
    """The interpreters to try a wheel with: that of .venv, and a newer one where there is one."""
    own = "{}.{}".format(*sys.version_info)
    try:
        newer = newer_python(own, os.environ)
    except NoSuchPython as error:
        raise DoesNotWork(str(error)) from error
    return [sys.executable, *([newer[0]] if newer else [])]


def install_and_run(wheel: Path, version: str, python: str, place: Path) -> str:
    """Install it into a new environment in `place` and try it. The release of Python. Raises `DoesNotWork`."""
    run([*UV, "venv", "--quiet", "--python", python, str(place)], environment_for(place), ROOT)
    interpreter = str(place / "bin" / "python")
    # On this PATH is what the environment itself has, and nothing else: whatever had to be compiled fails.
    bare = {**environment_for(place), "PATH": str(place / "bin")}
    locks = ("--constraints", LOCK, "--build-constraints", BUILD)
    run([*UV, "pip", "install", "--python", interpreter, "--only-binary", ":all:", *locks, f"{wheel}[cli]"], bare, ROOT)
    return run([interpreter, "-I", "-c", PROBE, version], bare, place).split()[-1]


def run(command: list[str], environment: dict[str, str], place: Path) -> str:
    """What a command prints. Raises `DoesNotWork`."""
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CHECK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DoesNotWork(str(error)) from error
    if done.returncode != 0:
        shown = " ".join("the check" if part == PROBE else part for part in command)
        raise DoesNotWork(f"`{shown}` ended with {done.returncode}: {done.stdout.strip()[-3000:]}")
    return done.stdout
