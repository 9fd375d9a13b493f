"""The hook that tells what Spark's Python processes do, and the sampler of processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.sampler import HELPERS, PARTS, Sampler, end_s
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
HOOK = ROOT / "bench" / "latency" / "hook"


def run_hooked(code: str, file: Path, **environment: str) -> list[dict[str, Any]]:
    """Run Python with the hook, and return its spans."""
    paths = os.pathsep.join((str(HOOK), *sys.path))
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_the_hook_tells_of_imports_forks_and_the_start_and_changes_nothing_else(tmp_path: Path) -> None:
    code = """
import importlib.util, os, sys
import evensplit.core, numpy
assert type(numpy.__loader__).__module__ != "sitecustomize" and numpy.__spec__.loader is numpy.__loader__
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
"""
    file = tmp_path / "spans"
    before_ns = time.time_ns()
    found = run_hooked(code, file, EVENSPLIT_SPANS=str(file))
    names = [one["name"] for one in found]
    assert names[0].startswith("python")
    assert {"import evensplit", "import numpy", "fork"} <= set(names)
    fork = found[names.index("fork")]
    assert fork["ppid"] == found[0]["pid"] != fork["pid"]
    # Linux tells the start in hundredths of a second.
    assert all(before_ns - 2 * 10**7 <= one["start_ns"] <= one["end_ns"] <= time.time_ns() for one in found)
    # Within numpy, nothing of numpy is a span of its own.
    assert sum(name.startswith("import numpy") for name in names) == 1


def test_the_hook_does_nothing_unless_it_is_asked_to(tmp_path: Path) -> None:
    assert run_hooked("import sys, numpy; assert len(sys.meta_path) <= 4", tmp_path / "none", EVENSPLIT_SPANS="") == []


def test_processor_time_is_that_between_two_moments_and_not_of_who_measures() -> None:
    sampler = Sampler(os.getpid(), besides=[threading.get_ident()])
    with sampler.looking():
        began, used = time.time(), time.thread_time()
        while time.thread_time() - used < 0.2:
            sum(range(1000))
        subprocess.run([sys.executable, "-c", "sum(range(30_000_000))"], check=True)
        wait_for(lambda: sampler.between(began, time.time())[HELPERS] > 0.01, what="a sample after the helper")
        ended = time.time()
    found = sampler.between(began, ended)
    assert set(found) == set(PARTS)
    # This thread works, but it does not count; what was started and has ended does.
    assert found["user"] < 0.1
    assert found[HELPERS] > 0.01
    assert end_s({"timestamp": "1970-01-01T00:00:01.500Z", "durationMs": {"triggerExecution": 250}}) == 1.75
