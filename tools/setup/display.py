"""How far the set-up is, on a terminal as one live line per step, elsewhere as plain lines."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TextIO

BAR_COLUMNS = 24
HEARTBEAT_S = 15.0


class Display:
    """Shows one step after the other on `out`.

    `live` redraws a line (a terminal is needed for that); otherwise a step has a line when it begins, one every 15 s
    while it lasts, and one when it ends.
    """

    def __init__(self, out: TextIO, live: bool) -> None:
        self._out = out
        self._live = live
        encoding = (getattr(out, "encoding", None) or "ascii").lower().replace("-", "")
        fancy = encoding == "utf8"
        self._wheel = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if fancy else "|/-\\"
        self._full, self._empty = ("█", "░") if fancy else ("#", ".")
        self._title = ""
        self._began_s = self._shown_s = 0.0
        self._turns = 0

    @classmethod
    def for_output(cls, out: TextIO = sys.stdout) -> Display:
        """Live on a terminal, unless CI is set or the terminal cannot move its cursor."""
        live = out.isatty() and not os.environ.get("CI") and os.environ.get("TERM", "dumb") != "dumb"
        return cls(out, live)

    def begin(self, title: str) -> None:
        """A step called `title` starts now."""
        self._title = title
        self._began_s = self._shown_s = time.monotonic()
        if not self._live:
            self._write(f"{title} ...\n")

    def tick(self, done: int = 0, total: int = 0, doing: str = "") -> None:
        """The step is still running: `done` of `total` parts (unknown when 0), and what it is busy with."""
        now_s = time.monotonic()
        if not self._live:
            if now_s - self._shown_s >= HEARTBEAT_S:
                self._shown_s = now_s
                parts = f"{done} of {total}, " if total else ""
                self._write(f"    {parts}{doing or 'working'} ({self._elapsed_s():.0f} s)\n")
            return
        self._turns += 1
        if total:
            full = BAR_COLUMNS * min(done, total) // total
            sign = f"{self._full * full}{self._empty * (BAR_COLUMNS - full)} {done}/{total}"
        else:
            sign = self._wheel[self._turns % len(self._wheel)]
        line = f"{self._title} {sign} {self._elapsed_s():.0f} s"
        room = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[2K" + (f"{line}  {doing}" if doing else line)[:room])

    def end(self, outcome: str = "done") -> None:
        """The step is over."""
        start = "\r\x1b[2K" if self._live else ""
        self._write(f"{start}{self._title}: {outcome} ({self._elapsed_s():.0f} s)\n")

    def say(self, text: str) -> None:
        """A line of its own, between steps."""
        self._write(text + "\n")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
