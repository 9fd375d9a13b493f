"""Consumer groups for tests: what an assignor asks of a cluster, and members as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.group_member import Report

ROOT = Path(__file__).resolve().parents[2]

Owners = dict[str, str]
"""Partition -> member, both by name."""


class Brokers:
    """As much of kafka-python's ClusterMetadata as an assignor asks for. `topics`: topic -> number of partitions."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._partitions = dict(topics)
        self._listeners: set[Callable[[Any], None]] = set()
        self.metadata_refresh_in_progress = False

    def answer(self, topics: Mapping[str, int]) -> None:
        """A metadata response arrives."""
        self.know(topics)
        for listener in self._listeners:
            listener(self)

    def know(self, topics: Mapping[str, int]) -> None:
        """Have had an answer earlier, before anybody listened."""
        self._partitions = dict(topics)

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._partitions[topic])) if topic in self._partitions else None

    def add_listener(self, listener: Callable[[Any], None]) -> None:
        self._listeners.add(listener)


class MemberProcess:
    """A process that joins groups on request (see `group_member`). `heard`: the last report by assignor."""

    def __init__(self, servers: str, prefix: str, name: str) -> None:
        self.name = name
        self.topics: tuple[str, ...] = ()
        self.heard: dict[str, Report] = {}
        command = [sys.executable, "-m", "tests.support.group_member", servers, prefix, name]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `end`
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def subscribe(self, topics: Sequence[str]) -> None:
        self.topics = tuple(topics)
        self._tell(list(topics))

    def leave(self) -> None:
        self._tell(None)
        self._process.wait(timeout=120)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def errors(self) -> str:
        """The standard error of the process."""
        self._errors.seek(0)
        return self._errors.read()

    def _tell(self, order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.heard[said["assignor"]] = Report(**{**said, "owned": tuple(said["owned"])})


def moved(before: Mapping[str, str], after: Mapping[str, str], subscribed: Mapping[str, Sequence[str]]) -> int:
    """How many partitions went to another member though their owner is still there and subscribed."""
    return sum(
        before[name] in subscribed and name.rpartition("-")[0] in subscribed[before[name]] and before[name] != member
        for name, member in after.items()
        if name in before
    )
