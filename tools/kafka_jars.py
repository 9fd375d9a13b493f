"""Resolve Kafka's jars into the cache, and say each that arrives as `<done> <total> <name>`; the last line is where."""

from __future__ import annotations

import sys

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import Progress, resolve_jars


def report(progress: Progress) -> None:
    """One line for a program that watches."""
    print(progress.done, progress.total, progress.doing, flush=True)


def main() -> int:
    """Exit code 1 with the reason on failure."""
    try:
        libs = resolve_jars(progress=report)
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"in {libs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
