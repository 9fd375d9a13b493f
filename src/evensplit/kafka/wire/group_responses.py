"""Responses about consumer groups, read by bounded code (`primitives.Reader`).

Where a later version answers for several groups at once, the answer of an earlier one is a list of one.

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import Struct

from evensplit.core.text import short
from evensplit.kafka.wire.primitives import Reader, Undecodable
from evensplit.kafka.wire.responses import ByTopic, OfTopic, checked_port, read_topics

_COORDINATOR_BYTES_MIN = 14
_OFFSETS_BYTES_MIN = 5
_COMMITTED_BYTES_MIN = 16
_GROUP_BYTES_MIN = 12
_MEMBER_BYTES_MIN = 7
_COMMITTED = Struct(">iq")
_COMMITTED_WITH_EPOCH = Struct(">iqi")
_RESULT = Struct(">ih")


@dataclass(slots=True)
class Coordinator:
    """Where the coordinator of a group is. Without an error there is a host, fit to be shown, and a port.

    `key`: the group, or whatever else was asked about; empty before version 4.
    """

    error_code: int
    host: str
    port: int
    key: str = ""


@dataclass(slots=True)
class FindCoordinator:
    """The coordinators of the groups that were asked for, at least one."""

    coordinators: list[Coordinator]


def read_find_coordinator(reader: Reader, version: int) -> FindCoordinator:
    """Versions 0 to 6. Before version 4 there is one."""
    if version >= 1:
        reader.int32()  # for how long it is throttled
    if version < 4:
        code = reader.int16()
        if version >= 1:
            reader.text_or_none()  # the error in words
        return FindCoordinator([_read_coordinator(reader, code)])
    found = []
    for _ in reader.entries(_COORDINATOR_BYTES_MIN):
        key = reader.text()
        one = replace(_read_coordinator(reader, None), key=key)
        reader.text_or_none()  # the error in words
        reader.skip_tags()
        found.append(one)
    _check_found(found)
    return FindCoordinator(found)


def _read_coordinator(reader: Reader, code: int | None) -> Coordinator:
    reader.int32()  # the broker's id
    host, port = short(reader.text()), reader.int32()
    code = reader.int16() if code is None else code
    return Coordinator(code, host, port if code else checked_port(port))


@dataclass(slots=True)
class CommittedOffset:
    """The offset that a group has committed, -1 if there is none."""

    partition_index: int
    committed_offset: int
    error_code: int


@dataclass(slots=True)
class GroupOffsets:
    """The committed offsets of a group."""

    error_code: int
    topics: list[OfTopic[CommittedOffset]]


@dataclass(slots=True)
class OffsetFetch:
    """The committed offsets of the groups that were asked for, at least one."""

    groups: list[GroupOffsets]


def read_offset_fetch(reader: Reader, version: int) -> OffsetFetch:
    """Versions 1 to 9. Before version 8 there is one group."""
    if version >= 3:
        reader.int32()  # for how long it is throttled
    if version < 8:
        topics = _read_committed(reader, version)
        return OffsetFetch([GroupOffsets(reader.int16() if version >= 2 else 0, topics)])
    groups = []
    for _ in reader.entries(_OFFSETS_BYTES_MIN):
        reader.text()  # the group
        topics = _read_committed(reader, version)
        groups.append(GroupOffsets(reader.int16(), topics))
        reader.skip_tags()
    _check_found(groups)
    return OffsetFetch(groups)


def _read_committed(reader: Reader, version: int) -> list[OfTopic[CommittedOffset]]:
    form = _COMMITTED_WITH_EPOCH if version >= 5 else _COMMITTED

    def read_offsets() -> list[CommittedOffset]:
        found = []
        for _ in reader.entries(_COMMITTED_BYTES_MIN):
            index, offset, *_ = reader.numbers(form)
            reader.text_or_none()  # what was committed beside it
            found.append(CommittedOffset(index, offset, reader.int16()))
            reader.skip_tags()
        return found

    return read_topics(reader, read_offsets)


@dataclass(slots=True)
class CommitResult:
    """Whether the offset of a partition was committed."""

    partition_index: int
    error_code: int


def read_offset_commit(reader: Reader, version: int) -> ByTopic[CommitResult]:
    """Versions 2 to 9."""
    if version >= 3:
        reader.int32()  # for how long it is throttled
    return ByTopic(read_topics(reader, lambda: [CommitResult(*row) for row in reader.rows(_RESULT)]))


@dataclass(slots=True)
class DescribedGroup:
    """A group. `authorized_operations`: the bits of what the user may do with it, or RIGHTS_UNKNOWN."""

    error_code: int
    group_state: str
    authorized_operations: int


@dataclass(slots=True)
class DescribeGroups:
    """The groups that were asked for, at least one."""

    groups: list[DescribedGroup]


def read_describe_groups(reader: Reader, version: int) -> DescribeGroups:
    """Versions 3 to 5."""
    reader.int32()  # for how long it is throttled
    groups = []
    for _ in reader.entries(_GROUP_BYTES_MIN):
        code, _, state = reader.int16(), reader.text(), reader.text()
        reader.text()  # the kind of protocol
        reader.text()  # the protocol
        for _ in reader.entries(_MEMBER_BYTES_MIN):
            _skip_member(reader, version)
        groups.append(DescribedGroup(code, state, reader.int32()))
        reader.skip_tags()
    _check_found(groups)
    return DescribeGroups(groups)


def _skip_member(reader: Reader, version: int) -> None:
    reader.text()
    if version >= 4:
        reader.text_or_none()
    reader.text()
    reader.text()
    reader.octets()
    reader.octets()
    reader.skip_tags()


def _check_found(found: Sequence[object]) -> None:
    if not found:
        raise Undecodable("it has no entry, expected one for what was asked")
