"""What a JVM's flight recording says: the commands it starts, its files, and its sockets."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.latency.spans import NS_PER_MS, Kind, Span

SETTINGS = Path(__file__).parent / "jvm.jfc"
READ_LIMIT_S = 120.0
EVENTS = ("ProcessStart", "FileForce", "FileRead", "FileWrite", "SocketRead", "SocketWrite")
QUERY, DRIVER, TASKS, ADMIN = "JVM: query", "JVM: driver", "JVM: tasks", "JVM: Kafka's admin client"
THREADS = (
    (re.compile("stream execution thread"), QUERY),
    (re.compile(r"Thread-\d+$|main$"), DRIVER),
    (re.compile("Executor task launch worker"), TASKS),
    (re.compile("kafka-admin-client-thread"), ADMIN),
)
"""A thread's name -> its row; other threads are left out."""

_TIME = re.compile(r"(.*T\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$")
_UNIQUE = re.compile("-[0-9a-f]{8}-[0-9a-f-]{27}$")
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; times in nanoseconds."""

    kind: str
    thread: str
    start_ns: int
    end_ns: int
    values: dict[str, Any]


def options(file: Path) -> str:
    """The options of a JVM that records into `file` until it ends."""
    return f'"-XX:StartFlightRecording=filename={file},settings={SETTINGS},dumponexit=true"'


def tool() -> str | None:
    """The program that reads recordings; None if it is not on PATH."""
    return shutil.which("jfr")


def read(program: str, file: Path) -> list[Event]:
    """The events of a recording, by time. Raises subprocess.CalledProcessError if it is damaged."""
    names = ",".join(f"jdk.{name}" for name in EVENTS)
    command = [program, "print", "--json", "--events", names, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=READ_LIMIT_S)
    return parsed(json.loads(done.stdout))


def parsed(document: dict[str, Any]) -> list[Event]:
    """The events of what `jfr print --json` says, by time."""
    found = []
    for one in document["recording"]["events"]:
        values = one["values"]
        start_ns = time_ns(values["startTime"])
        end_ns = start_ns + duration_ns(values.get("duration") or "PT0S")
        thread = (values.get("eventThread") or {}).get("javaName") or ""
        found.append(Event(one["type"].removeprefix("jdk."), thread, start_ns, end_ns, values))
    return sorted(found, key=lambda one: one.start_ns)


def time_ns(text: str) -> int:
    """Nanoseconds since 1970. Raises ValueError if `text` is no time."""
    found = _TIME.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    zone = found[3].replace("Z", "+00:00")
    return int(datetime.fromisoformat(found[1] + zone).timestamp()) * 10**9 + int((found[2] or "0").ljust(9, "0"))


def duration_ns(text: str) -> int:
    """Nanoseconds of an ISO duration of hours and less. Raises ValueError if `text` is none."""
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((3600 * hours + 60 * minutes + seconds) * 1e9)


def spans(events: Iterable[Event], broker_port: int, begin_ns: int) -> Iterator[Span]:
    """The spans of the threads that work for a query or the user."""
    threads: dict[str, list[Event]] = {}
    for one in events:
        threads.setdefault(one.thread, []).append(one)
    for thread, those in threads.items():
        row = next((row for pattern, row in THREADS if pattern.match(thread)), None)
        if row is not None:
            for name, kind, start_ns, end_ns in _of_thread(those, row, broker_port):
                took_ms = (end_ns - start_ns) / NS_PER_MS
                yield Span(row, name, kind, (start_ns - begin_ns) / NS_PER_MS, took_ms)


def _of_thread(events: list[Event], row: str, broker_port: int) -> Iterator[tuple[str, Kind, int, int]]:
    # The user's process is who asks such a thread first, and is waited for when there is nothing to do.
    user = next((one.values["port"] for one in events if one.kind.startswith("Socket")), 0) if row == DRIVER else 0
    for place, one in enumerate(events):
        port = one.values.get("port")
        if one.kind == "ProcessStart":
            yield _command(one.values["command"]), Kind.COMMAND, one.start_ns, _end_of_command(events, place)
        elif one.kind == "FileForce":
            yield f"fsync in {_folder(one)}", Kind.FILE, one.start_ns, one.end_ns
        elif one.kind == "FileRead" and str(one.values.get("path")).endswith(".jar"):
            yield "loads classes", Kind.CLASSES, one.start_ns, one.end_ns
        elif one.kind == "FileWrite" and one.values.get("path"):
            yield f"write in {_folder(one)}", Kind.FILE, one.start_ns, one.end_ns
        elif port == broker_port and one.kind == "SocketWrite":
            yield "broker", Kind.BROKER, one.start_ns, _end_of_answer(events, place, broker_port)
        elif port not in (None, user, broker_port) and one.kind == "SocketRead":
            yield "waits for Python", Kind.WAIT, one.start_ns, one.end_ns


def _end_of_command(events: list[Event], place: int) -> int:
    """The end of what a command has said: it is read from a pipe, which has no name."""
    end_ns = events[place].end_ns
    for one in events[place + 1 :]:
        if one.kind != "FileRead" or one.values.get("path"):
            break
        end_ns = one.end_ns
    return end_ns


def _end_of_answer(events: list[Event], place: int, port: int) -> int:
    """The end of the last read before the next request on the same connection."""
    end_ns = events[place].end_ns
    for one in events[place + 1 :]:
        if one.values.get("port") != port:
            continue
        if one.kind == "SocketWrite":
            break
        end_ns = one.end_ns
    return end_ns


def _command(words: str) -> str:
    """The name of a command's program; of Python, with the module."""
    program, _, rest = words.partition(" ")
    name = program.rpartition("/")[2]
    modules = [word.rpartition(".")[2] for word in rest.split() if word.startswith("pyspark.")]
    return f"start {name} {modules[-1]}" if modules else name


def _folder(event: Event) -> str:
    """The folder of its file, without the number that makes a temporary one unique."""
    return _UNIQUE.sub("", Path(str(event.values.get("path") or "a pipe")).parent.name)
