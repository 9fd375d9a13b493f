"""What commands had left out of the logs and an edit that goes back reads now, and how to leave it out again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evensplit.core.model import Range, SplitId
from evensplit.core.repair.past import LeftOut, Past, union
from evensplit.core.state.edits import Edit
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import command_line, counted, is_one_offset, offsets_text, skip_text

Skips = dict[tuple[str, ...], list[Range]]
"""What names a source in a command -> what is to be left out of it."""

RANGES_NAMED_MAX = 10
"""Of more ranges that were left out before and are read now, the rest are counted."""
RANGES_SKIPPED_MAX = 100
"""So many ranges are in a command at most: people copy it."""


@dataclass(frozen=True, slots=True)
class Reread:
    """One source that an edit is made in."""

    chosen: tuple[str, ...]
    """What names it in a command; empty where no other source has one of its partitions."""
    edit: Edit
    end: EnumeratorState
    """Where the batch ends with the edit."""
    come: Past
    """What has come by then."""

    def left_out(self) -> dict[SplitId, list[LeftOut]]:
        """What commands have left out of each split from where the edit goes back to, and no batch has read since."""
        back = dict.fromkeys(jump.split for jump in self.edit.jumps if jump.to < jump.at)
        return {key: self.come.left_out(key, self.position(key)) for key in back}

    def position(self, key: SplitId) -> int:
        """Where the edit goes back to."""
        return self.end.splits[key].position or 0


def read_now(path: object, number: int, sources: Iterable[Reread]) -> list[str]:
    """What commands have left out, and is read by this edit, a sentence each; how to leave it out again, in the last.

    Batch `number` of the checkpoint `path` has the edit. It is planned, so it leaves out only what begins where it
    ends.
    """
    named: list[LeftOut] = []
    at_once: Skips = {}
    later: Skips = {}
    rest = 0
    for source in sources:
        for key, ones in source.left_out().items():
            named.extend(ones)
            for start, end in union((one.start, one.end) for one in ones):
                skips = at_once if start == source.position(key) else later
                ranges = skips.setdefault(source.chosen, [])
                if len(ranges) < RANGES_SKIPPED_MAX:
                    ranges.append(Range(key, start, end))
                else:
                    rest += 1
    notes = [
        f"{split}: {offsets_text((start, to))} {'was' if is_one_offset((start, to)) else 'were'} left out by `{line}`, "
        "and will be read now"
        for split, start, to, line in named[:RANGES_NAMED_MAX]
    ]
    if (more := len(named) - RANGES_NAMED_MAX) > 0:
        notes.append(f"So will {counted(more, 'range')} more that were left out")
    if at_once:
        notes.append(
            "What begins right where the edit goes back to can be left out again at once: when this edit is written, "
            f"and before the query is started, run {' and '.join(_commands(path, at_once))}"
        )
    if later:
        which = "What begins further on" if at_once else "This"
        notes.append(
            f"{which} cannot be left out yet: batch {number}, which has this edit, is planned. To come so far it would "
            "have to read what is before, and a sink that has had the batch already would not take more of it. So "
            f"start the query, and let it do batch {number}. Then, before another batch has read any of it, or when "
            f"the query fails at it, stop the query, and run "
            f"{', and when it has done the batch of that, in the same way '.join(_commands(path, later))}"
        )
    if rest:
        notes.append(
            f"{counted(rest, 'range')} more {'is' if rest == 1 else 'are'} not in these commands: `--format json` has "
            "all, as leftOut. Leave them out in the same way, when the query has done a batch after that"
        )
    return notes


def _commands(path: object, skips: Skips) -> list[str]:
    return [
        f"`{command_line('skip', path, *(skip_text(*one) for one in ranges), *chosen, '--yes', '--assume-stopped')}`"
        for chosen, ranges in skips.items()
    ]
