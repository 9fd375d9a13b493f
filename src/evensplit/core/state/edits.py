"""What somebody changed in a checkpoint by a command, such as `evensplit rewind`: part of the state of one batch.

An edit belongs to the batch that ends with its state, as losses do, so that batch is planned with it however often, and
later ones are planned from where it leads to. What a batch reads of a split is then not one range any more: see
`pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, NamedTuple

from evensplit.core.model import Cluster, Readable, SplitId, Topic, scopes, split_called
from evensplit.core.state.validation import count, decode_readable, encode_readable, in_order, word

SAME_QUERY = "--same-query"
"""What `evensplit fork` is told where the copy is not of another query; it is said last."""


class Jump(NamedTuple):
    """Where a batch leaves the order of a log: at `at`, it goes on at `to`.

    Forward (`to` after `at`), the offsets from `at` to `to` (exclusive) are left out. Back, the offsets from `to` on
    are left for the batches after it.
    """

    split: SplitId
    at: int
    to: int


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a checkpoint by a command."""

    command: str
    """The command: `rewind`, `skip`, `fork`, `rename-cluster` or `drop`."""
    said: str
    """What the command was told, in its own words: `--to 2h`; kept short, as `--to {offsets of 9 partitions}`."""
    at_ms: int
    """When, in ms since 1970."""
    jumps: tuple[Jump, ...] = ()
    """Ascending by split, one of each split at most."""
    dropped: tuple[Readable, ...] = ()
    """What was forgotten."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Clusters with a new name: the former and the new one."""

    @property
    def line(self) -> str:
        """The command as it was given, without the checkpoint."""
        return f"evensplit {self.command} {self.said}".rstrip()

    def jump_of(self, split: SplitId) -> Jump | None:
        """The jump of one split; None: it has none."""
        return next((jump for jump in self.jumps if jump.split == split), None)

    def drops(self, split: SplitId) -> bool:
        """Whether `split` was forgotten with it."""
        return any(one in self.dropped for one in scopes(split))

    def without(self, dropped: Readable) -> Edit:
        """The same, without what it did to splits that are forgotten now."""
        return replace(self, jumps=tuple(jump for jump in self.jumps if dropped not in scopes(jump.split)))

    def called(self, names: Mapping[str, str]) -> Edit:
        """The same, where clusters have other names now. `names`: former name -> the one now."""
        jumps = sorted(jump._replace(split=split_called(jump.split, names)) for jump in self.jumps)
        return replace(self, jumps=tuple(jumps), dropped=tuple(readable_called(one, names) for one in self.dropped))


def as_told(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """One edit for each command, with all jumps of each split: a command makes several that skips several ranges."""
    found = groupby(edits, key=lambda edit: replace(edit, jumps=()))
    return tuple(as_one(list(of_one)) for _, of_one in found)


def as_one(edits: Sequence[Edit]) -> Edit:
    """The edits of one command, at least one, to be told as one: with all jumps of each split."""
    return replace(edits[-1], jumps=tuple(sorted(chain.from_iterable(edit.jumps for edit in edits))))


def begins_query(edit: Edit) -> bool:
    """Whether the batches before it are of another query: that of which the checkpoint is a copy."""
    return edit.command == "fork" and not edit.said.endswith(f" {SAME_QUERY}")


def jumps_of(edits: Iterable[Edit]) -> Mapping[SplitId, Sequence[Jump]]:
    """Split -> its jumps, in the order in which they were made."""
    found: dict[SplitId, list[Jump]] = {}
    for jump in chain.from_iterable(edit.jumps for edit in edits):
        found.setdefault(jump.split, []).append(jump)
    return found


def pieces(begin: int, end: int, jumps: Iterable[Jump]) -> tuple[tuple[int, int], ...]:
    """The ranges of offsets that a batch reads of one split, none empty: start and end (exclusive) of each; ascending.

    It begins at `begin`, ends at `end`, and makes `jumps` in between, in their order. One that goes forward leaves out
    what is in it, also of what is before an earlier jump; one that goes back begins where reading had come to.

    Raises ValueError where `end` cannot be reached so.
    """
    found: list[tuple[int, int]] = []
    for _, at, to in jumps:
        if to < at:
            if at < begin:
                raise ValueError(f"it was to go back from offset {at} to {to}, and was at {begin} by then")
            found.append((begin, at))
            begin = to
        else:
            found = [rest for one in found for rest in cut_out(one, at, to)]
            if at >= begin:
                found.append((begin, at))
            begin = max(begin, to)
    if begin > end:
        raise ValueError(f"it was to go on at offset {begin}, and ends at {end}")
    return tuple(sorted((first, last) for first, last in (*found, (begin, end)) if first < last))


def cut_out(one: tuple[int, int], at: int, to: int) -> Iterator[tuple[int, int]]:
    """What is left of a range of offsets without those from `at` to `to`: start and end (exclusive), none empty."""
    for first, last in ((one[0], min(one[1], at)), (max(one[0], to), one[1])):
        if first < last:
            yield first, last


def former_names(edits: Iterable[Edit]) -> dict[str, str]:
    """Former name of a cluster -> the name that it has after all `edits`."""
    found: dict[str, str] = {}
    for before, after in chain.from_iterable(edit.renamed for edit in edits):
        found = {former: after if name == before else name for former, name in found.items()}
        found.setdefault(before, after)
    return found


def encode_edit(edit: Edit) -> dict[str, Any]:
    """Return an edit in JSON's own types; what is empty is left out."""
    jumps: dict[str, dict[str, list[list[int]]]] = {}
    for (cluster, topic, partition), at, to in edit.jumps:
        jumps.setdefault(cluster, {}).setdefault(topic, []).append([partition, at, to])
    more: dict[str, Any] = {
        "jumps": jumps,
        "dropped": [encode_readable(one) for one in edit.dropped],
        "renamed": [list(names) for names in edit.renamed],
    }
    body: dict[str, Any] = {"command": edit.command, "said": edit.said, "atMs": edit.at_ms}
    return {**body, **{name: value for name, value in more.items() if value}}


def decode_edit(body: Mapping[str, Any]) -> Edit:
    """Reverse `encode_edit`. Raises KeyError, TypeError or ValueError for what is none."""
    jumps = tuple(
        Jump(SplitId(word(cluster), word(topic), count(number, "partition")), count(at, "at"), count(to, "to"))
        for cluster, topics in body.get("jumps", {}).items()
        for topic, rows in topics.items()
        for number, at, to in rows
    )
    in_order((jump.split for jump in jumps), "jumps")
    return Edit(
        word(body["command"]),
        word(body["said"]),
        count(body["atMs"], "atMs"),
        jumps,
        tuple(map(decode_readable, body.get("dropped", ()))),
        tuple((word(before), word(after)) for before, after in body.get("renamed", ())),
    )


def readable_called(readable: Readable, names: Mapping[str, str]) -> Readable:
    """The same, where clusters have other names now. `names`: former name -> the one now."""
    if isinstance(readable, Cluster):
        return Cluster(names.get(readable.id, readable.id))
    if isinstance(readable, Topic):
        return Topic(names.get(readable.cluster, readable.cluster), readable.name)
    return split_called(readable, names)


def scope_text(scope: Readable) -> str:
    """What a scope is called: `east`, `east/orders` or `east/orders/3`."""
    if isinstance(scope, Cluster):
        return scope.id
    return f"{scope.cluster}/{scope.name}" if isinstance(scope, Topic) else str(scope)
