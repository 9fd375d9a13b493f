"""What a Python process of Spark does, and when, one line of JSON for each span: loaded by Python itself, at its start.

Python looks for a module of this name on PYTHONPATH; the benchmark puts this folder there for the processes that it
traces. Without the variable EVENSPLIT_SPANS, which names the file for the spans, it does nothing.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

FILE = "EVENSPLIT_SPANS"
PACKAGES = {"pyspark", "py4j", "numpy", "pandas", "pyarrow", "evensplit"}
MAINS = (
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
)
RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
QUESTIONS = ("initialOffset", "latestOffset", "partitions", "commit", "reportLatestOffset")
DAEMON = "pyspark.daemon"


class Log:
    """Writes spans to the file, each in one piece: many processes write there."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def put(self, name: str, start_ns: int, cpu_s: float) -> None:
        """A span that ends now. `cpu_s`: of this process since its start."""
        span = {"pid": os.getpid(), "ppid": os.getppid(), "name": name, "start_ns": start_ns}
        span |= {"end_ns": time.time_ns(), "cpu_s": round(cpu_s, 6)}
        os.write(self._file, json.dumps(span).encode() + b"\n")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """The block, as a span."""
        start_ns, cpu_s = time.time_ns(), time.process_time()
        try:
            yield
        finally:
            self.put(name, start_ns, time.process_time() - cpu_s)

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """`function`, each call of which is a span."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self.span(name):
                return function(*arguments, **named)

        return call


class Loader:
    """Loads a module as its own loader does, which may be that of many modules and so has to stay as it is."""

    def __init__(self, loader: Any, around: Callable[[Any, Callable[[Any], None]], None]) -> None:
        self._loader = loader
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        """Execute it, with what the hook does before and after."""
        # The module is to look as it does without the hook.
        module.__spec__.loader = module.__loader__ = self._loader
        self._around(module, self._loader.exec_module)


class Finder:
    """Finds the modules that are of interest, as those do who would find them without it."""

    def __init__(self, log: Log, changes: dict[str, Callable[[Any], None]]) -> None:
        self._log = log
        self._changes = changes
        self._thread = threading.local()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's spec, with a loader that takes the time."""
        if name.partition(".")[0] not in PACKAGES:
            return None
        others = (one for one in sys.meta_path if one is not self and hasattr(one, "find_spec"))
        spec = next((found for one in others if (found := one.find_spec(name, path, target)) is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader, self._load)  # type: ignore[assignment]
        return spec

    def _load(self, module: Any, load: Callable[[Any], None]) -> None:
        name = module.__name__
        package = name.partition(".")[0]
        within: list[str] = self._thread.__dict__.setdefault("within", [])
        if package in within:
            load(module)
        else:
            within.append(package)
            try:
                with self._log.span(f"import {name}"):
                    load(module)
            finally:
                within.remove(package)
        if name in self._changes:
            self._changes[name](module)


class Work:
    """What Spark has a worker do, from the moment at which it asks: before that, the worker waits."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._began: list[tuple[int, float]] = []

    def change_tools(self, module: Any) -> None:
        """pyspark.worker_util: what comes first is the version of Python."""
        check, read = module.check_python_version, module.read_command

        @wraps(check)
        def checked(*arguments: Any) -> Any:
            found = check(*arguments)
            self._began = [(time.time_ns(), time.process_time())]
            return found

        @wraps(read)
        def unpickled(*arguments: Any) -> Any:
            with self._log.span("unpickle"):
                return read(*arguments)

        module.check_python_version, module.read_command = checked, unpickled

    def change_main(self, module: Any) -> None:
        """A module whose `main` is what a worker does."""
        main, name = module.main, module.__name__.rpartition(".")[2].replace("_", " ")

        @wraps(main)
        def done(*arguments: Any) -> Any:
            self._began = []
            try:
                return main(*arguments)
            finally:
                for start_ns, cpu_s in self._began:
                    self._log.put("task" if name == "worker" else name, start_ns, time.process_time() - cpu_s)

        module.main = done


def change_stream_reader(log: Log) -> Callable[[Any], None]:
    """pyspark.sql.datasource_internal, in the process that Spark asks about offsets: each question.

    Its module is run as a program, so nothing in it can be changed; it gets its reader from here.
    """

    def change(module: Any) -> None:
        make = module._streamReader  # noqa: SLF001

        @wraps(make)
        def made(*arguments: Any) -> Any:
            reader = make(*arguments)
            for name in QUESTIONS:
                if hasattr(reader, name):
                    setattr(reader, name, log.timed(getattr(reader, name), name))
            return reader

        module._streamReader = made  # noqa: SLF001

    return change


def change_connection(log: Log) -> Callable[[Any], None]:
    """evensplit.kafka.net.connection: each request, from when it is sent to when its answer is there."""

    def change(module: Any) -> None:
        connection = module.Connection
        send, receive = connection._send, connection.receive_into  # noqa: SLF001
        began: dict[tuple[int, int], tuple[int, float]] = {}

        @wraps(send)
        def sent(self: Any, *arguments: Any, **named: Any) -> Any:
            start = time.time_ns(), time.process_time()
            found = send(self, *arguments, **named)
            began[id(self), self._sent[-1].number] = start
            return found

        @wraps(receive)
        def received(self: Any, *arguments: Any, **named: Any) -> Any:
            expected = self._sent[0]
            found = receive(self, *arguments, **named)
            start_ns, cpu_s = began.pop((id(self), expected.number), (time.time_ns(), time.process_time()))
            log.put(f"broker: {expected.api.name}", start_ns, time.process_time() - cpu_s)
            return found

        connection._send, connection.receive_into = sent, received  # noqa: SLF001

    return change


def note_start(log: Log) -> None:
    """The start of this process, from the moment that Linux knows."""
    # Without pathlib, which not every process loads.
    with open("/proc/self/stat") as stat:  # noqa: PTH123
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    since_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    age_ns = since_boot_ns - ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    # That of a worker is "-m pyspark.daemon MODULE".
    words = ["-c"] if "-c" in sys.orig_argv else [word for word in sys.orig_argv[1:] if not word.startswith("-")][:2]
    log.put(f"python {' '.join(words)}", time.time_ns() - age_ns, time.process_time())


def note_forks(log: Log) -> None:
    """Each fork, as a span of the child."""
    before: list[int] = [0]

    def forking() -> None:
        before[0] = time.time_ns()

    def forked() -> None:
        log.put("fork", before[0], time.process_time())

    os.register_at_fork(before=forking, after_in_child=forked)


def begin(path: str) -> None:
    """Trace this process."""
    log = Log(path)
    note_start(log)
    note_forks(log)
    work = Work(log)
    changes = {
        "pyspark.worker_util": work.change_tools,
        "pyspark.worker": work.change_main,
        "evensplit.kafka.net.connection": change_connection(log),
        "pyspark.java_gateway": lambda module: setattr(
            module, "launch_gateway", log.timed(module.launch_gateway, "start the JVM")
        ),
        **dict.fromkeys(MAINS, work.change_main),
    }
    sys.meta_path.insert(0, Finder(log, changes))
    if RUNNER in sys.orig_argv:
        changes["pyspark.sql.datasource_internal"] = change_stream_reader(log)
    if DAEMON in sys.orig_argv:
        gc.collect = log.timed(gc.collect, "gc.collect")


if path := os.environ.get(FILE):
    begin(path)
