"""Make build/peer, with a Spark that has a Kafka source: the packages of requirements/peer.txt, and this checkout.

`make bench-peer`, `make bench-latency`, `make chaos-peer` and some slow tests run in it. Does nothing when it is there
and the lock has not changed since. Exit code 1 when a package cannot be had.
"""

from __future__ import annotations

import sys

from tools.environments import ROOT, Environment

PEER = Environment(ROOT / "build" / "peer", "requirements/peer.txt")


def main() -> int:
    """The exit code."""
    if PEER.is_there:
        return 0
    print("Making build/peer, with the Spark that has a Kafka source of its own (0.4 GB, some minutes) ...", flush=True)
    if failed := PEER.make():
        print(f"`{failed}` failed. Is there a network? Call `make` again, and it goes on from here.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
