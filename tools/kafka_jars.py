"""Fetch Kafka's jars into the user's cache, unless they are there, and print the directory. Progress goes to stderr.

Exit code 1 with the reason on failure.
"""

from __future__ import annotations

import sys

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import Progress, resolve_jars


def report(progress: Progress) -> None:
    """On a terminal one line that is written anew, else nothing."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K    {progress.done} of {progress.total}: {progress.doing}", end="", file=sys.stderr)


def main() -> int:
    """The exit code."""
    try:
        libs = resolve_jars(progress=report)
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    print(libs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
