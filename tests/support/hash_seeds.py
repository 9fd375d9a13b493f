"""Programs under several hash seeds: what they print may not depend on the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys


def printed_under(program: str, *hash_seeds: str) -> list[str]:
    """The output of `program` in a process of its own, for each of `hash_seeds`."""
    return [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for hash_seed in hash_seeds
    ]
