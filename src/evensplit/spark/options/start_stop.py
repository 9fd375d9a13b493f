"""The options that say where reading starts and ends: Spark's names in Spark's form, `start` and `stop` in ours."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from evensplit.core.state.offset_strategies import (
    EARLIEST,
    Ago,
    AtTime,
    ByTopic,
    Committed,
    Demanded,
    Earliest,
    FromEnd,
    Latest,
    Specific,
    Strategy,
    TopicPartition,
    listed,
    named_offset,
    named_partitions,
    parts,
)
from evensplit.core.suggest import meant
from evensplit.spark.options.values import INT_MAX, LONG_MAX, PARTITION, TOPIC, RawOptions, duration_ms, is_whole, shown

NoRecord = Literal["latest", "error"]

SPARK_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
SPARK_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""In Spark's order: the first one that is given decides."""

NO_RECORD = "startingOffsetsByTimestampStrategy"
START, STOP, GROUP = "start", "stop", "startingGroup"
STARTS = (*SPARK_STARTS, START)
ENDS = (*SPARK_ENDS, STOP)
OFFSET_OPTIONS = (*STARTS, NO_RECORD, GROUP, *ENDS)

_SPARK_FORM = 'earliest, latest or {"topic": {"0": 23, "1": -2}, "other": "earliest"} (-2: earliest, -1: latest)'
_TIMES_FORM = '{"topic": {"0": 1700000000000}} (ms since 1970)'
_TIME_FORM = "a whole number of ms since 1970"
_FILE = "file:"
_ONE = "earliest, latest, timestamp:<ms since 1970, or ISO 8601 with a zone>, -10m (so long ago: ms, s, m, h or d), "
_OUR_FORM = (
    f'{_ONE}-1000 (so many before the end) or {{"topic": <one of these>, "other": {{"0": <one of these, or an offset '
    'as a number>, "*": <one of these>}}'
)
_STOP_FORM = _OUR_FORM.removeprefix("earliest, ")
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_WORDS: Mapping[str, Strategy] = {"earliest": Earliest(), "latest": Latest()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ParsedOffsets:
    """What an option says. `option`: its name. `strategy`: None where its value is wrong, which was then told."""

    option: str
    strategy: Strategy | None


def parse_start(given: RawOptions, no_record: NoRecord, *, ours: bool) -> ParsedOffsets | None:
    """Where reading starts by the options of one level, without a group; None: they do not say.

    `no_record`: what holds where there is no record at a time given under Spark's names. `ours`: startingOffsets may
    have our form too.
    """
    _refuse_both(given, START, (*SPARK_STARTS, NO_RECORD))
    found: dict[str, Strategy | None] = {}
    if "startingTimestamp" in given:
        found["startingTimestamp"] = _time(given, "startingTimestamp", no_record)
    if "startingOffsetsByTimestamp" in given:
        rest = _demanded("startingOffsetsByTimestamp", START, Earliest())
        found["startingOffsetsByTimestamp"] = _times(given, "startingOffsetsByTimestamp", no_record, rest)
    if "startingOffsets" in given:
        found["startingOffsets"] = _position(given, "startingOffsets", Earliest(), _OUR_FORM if ours else _SPARK_FORM)
    if START in given:
        found[START] = _position(given, START, Earliest(), _OUR_FORM)
    return next((ParsedOffsets(option, strategy) for option, strategy in found.items()), None)


def parse_end(given: RawOptions, *, ours: bool) -> ParsedOffsets | None:
    """Where reading ends by the options of one level; None: they do not say. `ours`: as for `parse_start`."""
    _refuse_both(given, STOP, SPARK_ENDS)
    found: dict[str, Strategy | None] = {}
    if "endingTimestamp" in given:
        found["endingTimestamp"] = _time(given, "endingTimestamp", "latest")
    if "endingOffsetsByTimestamp" in given:
        rest = _demanded("endingOffsetsByTimestamp", STOP, Latest())
        found["endingOffsetsByTimestamp"] = _times(given, "endingOffsetsByTimestamp", "latest", rest)
    if "endingOffsets" in given:
        found["endingOffsets"] = _end(given, "endingOffsets") if ours else _spark_end(given)
    if STOP in given:
        found[STOP] = _end(given, STOP)
    return next((ParsedOffsets(option, strategy) for option, strategy in found.items()), None)


def said_no_record(given: RawOptions) -> NoRecord:
    """What startingOffsetsByTimestampStrategy says."""
    return "latest" if given.choice(NO_RECORD, ("error", "latest"), "error") == "latest" else "error"


def by_group(strategy: Strategy | None, group: str) -> Strategy:
    """`strategy`, where what it does not name starts where `group` stands, and by `strategy` where that has no commit.

    What names topics or partitions falls back to earliest, and need not name all.
    """
    if strategy is None:
        return Committed(group, Earliest())
    if isinstance(strategy, Demanded):
        return by_group(strategy.otherwise, group)
    if isinstance(strategy, Specific | ByTopic):
        return dataclasses.replace(strategy, otherwise=by_group(strategy.otherwise, group))
    return Committed(group, strategy)


def file_of(value: object) -> str | None:
    """The path of the file that has what an option says; None if the option says it itself."""
    text = value.strip() if isinstance(value, str) else ""
    return text.removeprefix(_FILE) if text.startswith(_FILE) else None


def undemanding(said: ParsedOffsets | None) -> ParsedOffsets | None:
    """The same, but that not all partitions have to be named."""
    if said is None or said.strategy is None:
        return said
    return ParsedOffsets(said.option, _undemanding(said.strategy))


def contradictions(start: Strategy | None, end: Strategy | None) -> Iterator[str]:
    """One sentence for each thing that makes no range of what a start and an end name as numbers.

    Offsets are held against offsets and times against times, as Spark's own source does it.
    """
    if start is None or end is None:
        return
    starts, ends = frozenset(named_partitions(start)), frozenset(named_partitions(end))
    alike = isinstance(start, Specific) == isinstance(end, Specific) and _names_all(start) and _names_all(end)
    if alike and starts != ends:
        only = (("start", sorted(starts - ends)), ("end", sorted(ends - starts)))
        found = " and ".join(f"only the {word} names {listed(keys)}" for word, keys in only if keys)
        yield f"The specified start offset and end offset should have the same topic-partitions, but {found}"
    for key in sorted(starts & ends):
        for what, at in (("offset", named_offset), ("timestamp", _named_time)):
            first, last = at(start, key), at(end, key)
            if first is not None and last is not None and first > last:
                yield (
                    f"The specified start {what} {first} is greater than the end {what} {last} for {listed([key])}; "
                    "expected a start at or before the end"
                )


def says(strategy: Strategy | None, kind: type[Earliest | Latest], marker: int) -> bool:
    """Whether it says `kind`, or its `marker` in place of an offset, anywhere."""
    return strategy is not None and any(
        isinstance(part, kind) or (isinstance(part, Specific) and marker in part.offsets.values())
        for part in parts(strategy)
    )


def _refuse_both(given: RawOptions, own: str, others: tuple[str, ...]) -> None:
    beside = given.among(others)
    if own in given and beside:
        given.problems.append(f"{own} and {' and '.join(beside)} are both given{given.where}; expected one of them")


def _time(given: RawOptions, name: str, no_record: NoRecord) -> Strategy | None:
    text = str(given.value(name)).strip()
    if isinstance(given.value(name), bool) or not _NUMBER.fullmatch(text) or int(text) > LONG_MAX:
        given.wrong(name, _TIME_FORM)
        return None
    return AtTime(int(text), no_record)


def _times(given: RawOptions, name: str, no_record: NoRecord, otherwise: Strategy) -> Strategy | None:
    document = _topics(given, name, _TIMES_FORM)
    if document is None:
        return None
    partitions: dict[TopicPartition, Strategy] = {}
    for topic, entries in document.items():
        try:
            for number, value in _partitions(topic, entries):
                if not is_whole(value, 0):
                    raise ValueError(f"{shown(value)} is no time")
                partitions[topic, int(number)] = AtTime(value, no_record)
        except ValueError as error:
            _wrong_topic(given, name, {topic: entries}, _TIMES_FORM, error)
    return ByTopic({}, partitions, otherwise)


def _spark_end(given: RawOptions) -> Strategy | None:
    return _position(given, "endingOffsets", Latest(), _SPARK_FORM)


def _end(given: RawOptions, name: str) -> Strategy | None:
    strategy = _position(given, name, Latest(), _STOP_FORM)
    if says(strategy, Earliest, EARLIEST):
        given.wrong(name, _STOP_FORM, "at earliest (-2) there is nothing to be read")
        return None
    return strategy


def _position(given: RawOptions, name: str, otherwise: Strategy, form: str) -> Strategy | None:
    """What `name` says, in Spark's form or in ours; partitions that it does not name go by `otherwise`.

    In Spark's form, all partitions have to be named; of topics that have some, where others are named as a whole.
    """
    read = _read_file(given, name)
    if read is None:
        return None
    given = read
    value, ours = given.value(name), form != _SPARK_FORM
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        try:
            return _one(value, ours=ours)
        except ValueError as error:
            given.wrong(name, form, str(error))
            return None
    document = _topics(given, name, form)
    if document is None:
        return None
    topics: dict[str, Strategy] = {}
    partitions: dict[TopicPartition, Strategy] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic, entry in document.items():
        try:
            if isinstance(entry, str):
                topics[topic] = _one(entry, ours=ours)
                continue
            own = _offsets(topic, entry, partitions, ours=ours)
            if ours and "*" in entry:
                rest = _one(entry["*"], ours=ours)
                topics[topic] = Specific(own, rest) if own else rest
            else:
                offsets |= own
        except ValueError as error:
            _wrong_topic(given, name, {topic: entry}, form, error)
    rest = Specific(offsets, otherwise) if offsets else otherwise
    if offsets and not ours:
        own_topics = tuple(sorted({topic for topic, _ in offsets})) if topics else ()
        rest = Specific(offsets, _demanded(name, STOP if name in ENDS else START, otherwise, own_topics))
    return ByTopic(topics, partitions, rest) if topics or partitions else rest


def _demanded(option: str, instead: str, otherwise: Strategy, topics: tuple[str, ...] = ()) -> Demanded:
    """`option` has to name all partitions (of `topics`); with `instead`, those that are not named go by `otherwise`."""
    place = "start at earliest" if isinstance(otherwise, Earliest) else "end at latest"
    markers = "" if "Timestamp" in option else " (-1 for latest, -2 for earliest), or name the topic as a whole"
    return Demanded(
        f"the partitions specified in {option} don't match what are assigned: you must specify all of them{markers}; "
        f"or use {instead}, where those that are not named {place}",
        otherwise,
        topics,
    )


def _undemanding(strategy: Strategy) -> Strategy:
    if isinstance(strategy, Demanded):
        return _undemanding(strategy.otherwise)
    if isinstance(strategy, Specific | ByTopic):
        return dataclasses.replace(strategy, otherwise=_undemanding(strategy.otherwise))
    return strategy


def _names_all(strategy: Strategy) -> bool:
    return isinstance(strategy, Specific | ByTopic) and isinstance(strategy.otherwise, Demanded)


def _named_time(strategy: Strategy, key: TopicPartition) -> int | None:
    """The time that `strategy` names for `key` itself."""
    one = strategy.partitions.get(key) if isinstance(strategy, ByTopic) else None
    return one.timestamp_ms if isinstance(one, AtTime) else None


def _read_file(given: RawOptions, name: str) -> RawOptions | None:
    """`given`, with what is in the file that `name` names in its place, if it names one (`file:/path`); None: unread.

    It is read on the driver, when the query starts. What is wrong in it is said with its path.
    """
    file = file_of(given.value(name))
    if file is None:
        return given
    path = Path(file)
    try:
        if not path.is_absolute():
            raise ValueError("the path does not begin with /")
        # Some editors put a mark of their own at the beginning.
        text = path.read_bytes().decode("utf-8-sig").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        given.wrong(name, "the path of a file on the driver, as file:/path/positions.json", reason)
        return None
    return RawOptions({**given.options, name.lower(): text}, given.problems, f"{given.where} (in {path})")


def _offsets(
    topic: str, entries: Any, partitions: dict[TopicPartition, Strategy], *, ours: bool
) -> dict[TopicPartition, int]:
    """The offsets of a topic's partitions; what is not an offset is put into `partitions`."""
    offsets: dict[TopicPartition, int] = {}
    for number, value in _partitions(topic, entries, star=ours):
        if number == "*":
            continue
        if is_whole(value, EARLIEST):
            offsets[topic, int(number)] = value
        elif ours and isinstance(value, str):
            partitions[topic, int(number)] = _one(value, ours=True)
        else:
            raise ValueError(f"{shown(value)} is no offset")
    return offsets


def _partitions(topic: str, entries: Any, *, star: bool = False) -> Iterator[tuple[str, Any]]:
    """What is said of each partition of a topic. ValueError: it has not the form of this."""
    if not isinstance(entries, dict) or not entries:
        raise ValueError(f"nothing is said of the partitions of {topic!r}")
    named: dict[int, str] = {}
    for number, value in entries.items():
        if not (star and number == "*"):
            if not PARTITION.fullmatch(number) or int(number) > INT_MAX:
                raise ValueError(f"{number!r} is no partition")
            if int(number) in named:
                raise ValueError(f"{named[int(number)]!r} and {number!r} are the same partition")
            named[int(number)] = number
        yield number, value


def _topics(given: RawOptions, name: str, form: str) -> dict[str, Any] | None:
    """What is said of each topic."""
    document = given.document(name, form)
    if document is None:
        return None
    if not document:
        given.wrong(name, form, "it names no topic")
        return None
    for topic, entry in document.items():
        if not TOPIC.fullmatch(topic):
            _wrong_topic(given, name, {topic: entry}, form, ValueError(f"{shown(topic)} cannot be a topic"))
    return document


def _wrong_topic(given: RawOptions, name: str, entry: Mapping[str, Any], form: str, reason: ValueError) -> None:
    found = shown(json.dumps(entry, default=str))
    given.problems.append(f"{name}{given.where} has {found}; expected {form}: {reason}")


def _one(value: Any, *, ours: bool) -> Strategy:
    """One strategy that names nothing, in words. ValueError: it has not the form of this."""
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in _WORDS:
        return _WORDS[text]
    if ours and text.startswith("timestamp:"):
        return AtTime(_timestamp_ms(text.removeprefix("timestamp:").strip()), "latest")
    if ours and text.startswith("-"):
        size = text.removeprefix("-").strip()
        if _NUMBER.fullmatch(size) and 1 <= int(size) <= LONG_MAX:
            return FromEnd(int(size))
        age_ms = duration_ms(size)
        if age_ms is not None and 1 <= age_ms <= LONG_MAX:
            return Ago(age_ms)
    question = meant(text, tuple(_WORDS))
    raise ValueError(f"{shown(value)} is none of them{f'; {question}' if question else ''}")


def _timestamp_ms(text: str) -> int:
    if _NUMBER.fullmatch(text) and int(text) <= LONG_MAX:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError(f"{shown(text)} is no time") from None
    if moment.tzinfo is None:
        raise ValueError(f"{shown(text)} has no zone; with one it is as 2025-01-31T12:00:00Z or 2025-01-31T12:00+02:00")
    elapsed_ms = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if elapsed_ms < 0:
        raise ValueError(f"{shown(text)} is before 1970")
    return elapsed_ms
