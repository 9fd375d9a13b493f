"""Stops a process of a job where it writes, as a test asks for. Python loads this by itself where it is on the path.

In the directory that EVENSPLIT_SINK_POINTS names, a file named after a point says what happens to the first process
that comes there: `kill` (SIGKILL to itself), `raise` (an error), `note` (nothing) or `hold` (it waits until a file of
that name with `.go` is there). Before that, the file is moved to `hit`. With `slow`, each process waits there, for half
a second. The points:

    commit.Append.before, abort.End.after …   each order of the driver, before and after its effect
    commit.done                               all is committed, and Spark does not know it yet
    task.InitProducerId.before, .after        a task begins a transaction
    task.Produce.after                        it has sent a request with records
    task.flush.before, .after                 all are acknowledged

EVENSPLIT_SINK_BUG names bugs that are planted, with commas between them: see `BUGS`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

DIRECTORY, BUG = "EVENSPLIT_SINK_POINTS", "EVENSPLIT_SINK_BUG"
HELD_MAX_S, SLOW_S = 120.0, 0.5


def at(point: str) -> None:
    """What is asked for at a point."""
    directory = Path(os.environ[DIRECTORY])
    try:
        asked = (directory / point).read_text()
        if asked == "slow":
            time.sleep(SLOW_S)
            return
        # Of several processes, one is the first.
        (directory / point).rename(directory / "hit" / point)
    except FileNotFoundError:
        return
    if asked == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if asked == "raise":
        raise RuntimeError(f"a test asked for an error at {point}")
    until_s = time.monotonic() + HELD_MAX_S
    while asked == "hold" and not (directory / f"{point}.go").exists() and time.monotonic() < until_s:
        time.sleep(0.02)


def around(owner: Any, name: str, point: str, *, before: bool = True) -> None:
    """Have a function stop before and after it does its work."""
    setattr(owner, name, stopping(getattr(owner, name), point, before=before))


def stopping(former: Callable[..., Any], point: str, *, before: bool = True) -> Callable[..., Any]:
    """A function that stops before and after `former` does its work."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if before:
            at(f"{point}.before")
        found = former(*arguments, **named)
        at(f"{point}.after")
        return found

    return wrapped


def _conduct(module: Any) -> None:
    former = module.Conductor.carry_out

    def wrapped(self: Any, order: Any) -> Any:
        point = f"{_doing[-1]}.{type(order).__name__}"
        at(f"{point}.before")
        found = former(self, order)
        at(f"{point}.after")
        return found

    module.Conductor.carry_out = wrapped


_doing = ["?"]


def _deciding(module: Any) -> None:
    for name in ("commit", "abort"):
        setattr(module, name, _named(name, getattr(module, name)))


def _named(name: str, former: Callable[..., None]) -> Callable[..., None]:
    def wrapped(*arguments: Any, **named: Any) -> None:
        _doing.append(name)
        try:
            former(*arguments, **named)
            at(f"{name}.done")
        finally:
            _doing.pop()

    return wrapped


def _task(module: Any) -> None:
    former = module._write_in_transactions

    def wrapped(options: Any, place: Any, batches: Any, begin: Callable[[Any], Any]) -> Any:
        return former(options, place, batches, stopping(begin, "task.InitProducerId"))

    module._write_in_transactions = wrapped


def _producer(module: Any) -> None:
    around(module.Producer, "flush", "task.flush")


def _sender(module: Any) -> None:
    around(module.Sender, "_send", "task.Produce", before=False)


def _no_decision(module: Any) -> None:
    module.Ledger.append = lambda self, decision, within_ms=None: module.Appended.THERE


def _nothing_read(module: Any) -> None:
    module.Ledger.last = lambda self, query, *, stable=False: None
    module.Ledger.read_decided = lambda self, query: None


def _aborted_unseen(module: Any) -> None:
    from evensplit.core.delivery.orders import End

    def abort(batch: Any) -> Any:
        yield End(batch.transactions, commit=False)
        return module.GivenUp()

    module.abort = abort


def _decided_aborted(module: Any) -> None:
    from evensplit.core.delivery.orders import End

    def finish(batch: Any, decision: Any, *, counted: bool) -> Any:
        yield End(decision.transactions, commit=False)
        return module.Finished(decision, ())

    module._finish_earlier = finish


def _dropped(module: Any) -> None:
    _each_second(module, lambda write, rows: write(rows.slice(1)))


def _twice(module: Any) -> None:
    def twice(write: Callable[[Any], None], rows: Any) -> None:
        write(rows)
        write(rows)

    _each_second(module, twice)


def _each_second(module: Any, change: Callable[[Callable[[Any], None], Any], object]) -> None:
    former, written = module.RowWriter.write, [0]

    def write(self: Any, rows: Any) -> None:
        # Beginning with the first: a process may write no more than once.
        written[0] += 1
        if written[0] % 2 == 0:
            former(self, rows)
        else:
            change(lambda some: former(self, some), rows)

    module.RowWriter.write = write


BUGS = {
    "no-decision": ("evensplit.kafka.produce.ledger", _no_decision),
    "nothing-read": ("evensplit.kafka.produce.ledger", _nothing_read),
    "aborted-unseen": ("evensplit.core.delivery.protocol", _aborted_unseen),
    "decided-aborted": ("evensplit.core.delivery.protocol", _decided_aborted),
    "dropped": ("evensplit.spark.sink.rows", _dropped),
    "twice": ("evensplit.spark.sink.rows", _twice),
}
"""Bug -> the module, and what changes it: commit ends transactions without a decision in the ledger; a restart does not
look into the ledger, and writes what is decided again; abort does not look whether the batch is decided; a restart
aborts what it finds decided; the first of some rows is dropped; some rows are written twice."""


class _Finder(MetaPathFinder):
    """Changes modules as they are loaded."""

    def __init__(self, changes: dict[str, list[Callable[[Any], None]]]) -> None:
        self._changes = changes

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname not in self._changes:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        former = loader.exec_module

        def exec_module(module: Any) -> None:
            former(module)
            for change in self._changes[fullname]:
                change(module)

        loader.exec_module = exec_module
        return spec


def _install() -> None:
    changes: dict[str, list[Callable[[Any], None]]] = {
        "evensplit.kafka.produce.conduct": [_conduct],
        "evensplit.spark.sink.deciding": [_deciding],
        "evensplit.spark.sink.task": [_task],
        "evensplit.kafka.produce.producer": [_producer],
        "evensplit.kafka.produce.sender": [_sender],
    }
    for bug in filter(None, os.environ.get(BUG, "").split(",")):
        module, change = BUGS[bug]
        changes.setdefault(module, []).append(change)
    sys.meta_path.insert(0, _Finder(changes))


if DIRECTORY in os.environ:
    _install()
