"""`python3 -m tools.setup`: check the machine, then bring everything to where the commands of the Makefile can run.

Exit code 0 when all is in place, 1 when a step failed, 2 when a tool is missing (then nothing was started), 130 when
interrupted. Whatever happened, running it again goes on from the last step that was finished.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Sequence  # noqa: UP035  (read at run time, where Python may be old)

from tools.setup.display import Display
from tools.setup.needs import describe, find_all
from tools.setup.running import Runner, StepFailed, environment_for
from tools.setup.stamps import Results, Stamps, digest_of
from tools.setup.steps import STEPS, Place, Step

ROOT = Path(__file__).resolve().parents[2]
LOGS = "build/setup"


def main() -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    display = Display.for_output()
    tools = find_all()
    if isinstance(tools, list):
        print(describe(tools), file=sys.stderr)
        return 2
    place = Place(ROOT, tools.python)
    # The directory itself is what is locked: two commands at once would build the same files.
    directory = os.open(str(ROOT), os.O_RDONLY)
    try:
        wait_for_turn(directory, display)
        return bring_up(place, display)
    except KeyboardInterrupt:
        print("\nInterrupted. The next run goes on from the last finished step.", file=sys.stderr)
        return 130
    finally:
        os.close(directory)


def bring_up(place: Place, display: Display, steps: Sequence[Step] = STEPS) -> int:
    """Run each of `steps` whose inputs changed, and every one after it. The exit code."""
    began_s = time.monotonic()
    stamps = Stamps(place.root, place.venv / "setup-stamps.json")
    previous = ""
    ran = 0
    for number, step in enumerate(steps, start=1):
        key = chained(previous, step, place)
        if not stamps.holds(step.name, key):
            stamps.forget(later.name for later in steps[number - 1 :])
            results = run_step(step, f"[{number}/{len(steps)}] {step.title}", place, display)
            if results is None:
                return 1
            # A step may have changed what its own key says, as a new environment does.
            key = chained(previous, step, place)
            stamps.finished(step.name, key, results)
            ran += 1
        previous = key
    if ran:
        display.say(f"Everything is in place ({time.monotonic() - began_s:.0f} s).")
    return 0


def chained(previous: str, step: Step, place: Place) -> str:
    """The key of `step` after the step with the key `previous`: it runs again when that one did."""
    return digest_of([], place.root, previous, step.key(place))


def run_step(step: Step, title: str, place: Place, display: Display) -> Results | None:
    """Run one step. On failure the end of its log is shown, with what to do, and there are no results."""
    runner = Runner(place.root, place.root / LOGS / f"{step.name}.log", environment_for(place.venv), display)
    display.begin(title)
    try:
        results = step.run(place, runner)
    except StepFailed as failure:
        display.end("FAILED")
        log = runner.log.relative_to(place.root)
        print(f"\n{failure}. The end of its output:\n\n{runner.tail()}\n", file=sys.stderr)
        print(f"{step.advice}\nThe whole output is in {log}. The next run goes on from here.", file=sys.stderr)
        return None
    except KeyboardInterrupt:
        display.end("interrupted")
        raise
    display.end()
    return results


def wait_for_turn(directory: int, display: Display) -> None:
    """Only one set-up at a time works on a checkout."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        display.say("Another set-up is at work in this checkout; waiting for it ...")
        fcntl.flock(directory, fcntl.LOCK_EX)


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """A request to end is treated as Ctrl-C is."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
