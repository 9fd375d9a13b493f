"""The options that say where reading starts and ends: Spark's names in Spark's form, `start` and `stop` in ours."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from evensplit.kafka.options.option import INT_MAX, LONG_MAX, Option, duration_ms
from evensplit.spark.options.spec.clusters import (
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    GROUP,
    NO_RECORD,
    OUR_FORM,
    SPARK_ENDS,
    SPARK_FORM,
    SPARK_STARTS,
    START,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
    STOP,
)
from evensplit.spark.options.values import PARTITION, TOPIC, RawOptions, is_whole, read_file, shown

NoRecord = Literal["latest", "error"]

STARTS = (*SPARK_STARTS, START)
OFFSET_OPTIONS = (*STARTS, NO_RECORD, GROUP, *SPARK_ENDS, STOP)

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_WORDS: Mapping[str, Strategy] = {"earliest": Earliest(), "latest": Latest()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ParsedOffsets:
    """Where reading starts or ends, by one option."""

    option: str
    """Its name."""

    strategy: Strategy | None
    """None: its value is wrong, which was reported."""


def parse_start(given: RawOptions, no_record: NoRecord, *, ours: bool) -> ParsedOffsets | None:
    """Where reading starts by the options of one level, without a group; None: they do not say.

    `no_record`: what holds where there is no record at a time given under Spark's names. `ours`: startingOffsets may
    have our form too.
    """
    found: dict[str, Strategy | None] = {}
    if STARTING_TIMESTAMP.name in given:
        found[STARTING_TIMESTAMP.name] = _time(given, STARTING_TIMESTAMP, no_record)
    if STARTING_OFFSETS_BY_TIMESTAMP.name in given:
        found[STARTING_OFFSETS_BY_TIMESTAMP.name] = _times(
            given, STARTING_OFFSETS_BY_TIMESTAMP, no_record, START, Earliest()
        )
    if STARTING_OFFSETS.name in given:
        form = OUR_FORM if ours else SPARK_FORM
        found[STARTING_OFFSETS.name] = _position(given, STARTING_OFFSETS, Earliest(), form)
    if START.name in given:
        found[START.name] = _position(given, START, Earliest(), OUR_FORM)
    return _first(found)


def parse_end(given: RawOptions, *, ours: bool) -> ParsedOffsets | None:
    """Where reading ends by the options of one level; None: they do not say. `ours`: as for `parse_start`."""
    found: dict[str, Strategy | None] = {}
    if ENDING_TIMESTAMP.name in given:
        found[ENDING_TIMESTAMP.name] = _time(given, ENDING_TIMESTAMP, "latest")
    if ENDING_OFFSETS_BY_TIMESTAMP.name in given:
        found[ENDING_OFFSETS_BY_TIMESTAMP.name] = _times(given, ENDING_OFFSETS_BY_TIMESTAMP, "latest", STOP, Latest())
    if ENDING_OFFSETS.name in given:
        found[ENDING_OFFSETS.name] = (
            _end(given, ENDING_OFFSETS) if ours else _position(given, ENDING_OFFSETS, Latest(), SPARK_FORM)
        )
    if STOP.name in given:
        found[STOP.name] = _end(given, STOP)
    return _first(found)


def _first(found: Mapping[str, Strategy | None]) -> ParsedOffsets | None:
    """The first option of those that are given, in Spark's order, decides."""
    return next((ParsedOffsets(option, strategy) for option, strategy in found.items()), None)


def by_group(strategy: Strategy | None, group: str) -> Strategy:
    """`strategy`, where what it does not name starts where `group` stands, and by `strategy` where that has no commit.

    A strategy that names topics or partitions need not name all; the others fall back to earliest.
    """
    if strategy is None:
        return Committed(group, Earliest())
    if isinstance(strategy, Demanded):
        return by_group(strategy.otherwise, group)
    if isinstance(strategy, Specific | ByTopic):
        return dataclasses.replace(strategy, otherwise=by_group(strategy.otherwise, group))
    return Committed(group, strategy)


def undemanding(said: ParsedOffsets | None) -> ParsedOffsets | None:
    """The same, but that not all partitions have to be named."""
    if said is None or said.strategy is None:
        return said
    return ParsedOffsets(said.option, _undemanding(said.strategy))


def contradictions(start: Strategy | None, end: Strategy | None) -> Iterator[str]:
    """One sentence for each partition, or set of them, that a start and an end in numbers contradict each other on.

    Offsets are compared with offsets and times with times, as in Spark's own source.
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


def _time(given: RawOptions, option: Option, no_record: NoRecord) -> Strategy | None:
    at_ms = given.read(option)
    return None if at_ms is None else AtTime(at_ms, no_record)


def _times(
    given: RawOptions, option: Option, no_record: NoRecord, instead: Option, otherwise: Strategy
) -> Strategy | None:
    form = option.type.expected
    document = _topics(given, option, form)
    if document is None:
        return None
    partitions: dict[TopicPartition, Strategy] = {}
    for topic, entries in document.items():
        try:
            for number, value in _partitions(topic, entries):
                if not is_whole(value, 0):
                    raise ValueError(f"{shown(value)} is not a time")
                partitions[topic, int(number)] = AtTime(value, no_record)
        except ValueError as error:
            _wrong_topic(given, option, {topic: entries}, form, error)
    return ByTopic({}, partitions, _demanded(option, instead, otherwise))


def _end(given: RawOptions, option: Option) -> Strategy | None:
    strategy = _position(given, option, Latest(), STOP.type.expected)
    if says(strategy, Earliest, EARLIEST):
        given.wrong(option, "at earliest (-2) there is nothing to be read", expected=STOP.type.expected)
        return None
    return strategy


def _position(given: RawOptions, option: Option, otherwise: Strategy, form: str) -> Strategy | None:
    """The strategy of `option`, in Spark's form or in ours; partitions that it does not name go by `otherwise`.

    In Spark's form, all partitions have to be named; of topics that have some, where others are named as a whole.
    """
    read = read_file(given, option, "positions.json")
    if read is None:
        return None
    given = read
    value, ours = given.value(option.name), form != SPARK_FORM
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        try:
            return _one(value, ours=ours)
        except ValueError as error:
            given.wrong(option, str(error), expected=form)
            return None
    document = _topics(given, option, form)
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
            _wrong_topic(given, option, {topic: entry}, form, error)
    rest = Specific(offsets, otherwise) if offsets else otherwise
    if offsets and not ours:
        own_topics = tuple(sorted({topic for topic, _ in offsets})) if topics else ()
        rest = Specific(offsets, _demanded(option, STOP if option in SPARK_ENDS else START, otherwise, own_topics))
    return ByTopic(topics, partitions, rest) if topics or partitions else rest


def _demanded(option: Option, instead: Option, otherwise: Strategy, topics: tuple[str, ...] = ()) -> Demanded:
    """`option` has to name all partitions (of `topics`); with `instead`, those that are not named go by `otherwise`."""
    place = "start at earliest" if isinstance(otherwise, Earliest) else "end at latest"
    markers = "" if "Timestamp" in option.name else " (-1 for latest, -2 for earliest), or name the topic as a whole"
    return Demanded(
        f"the partitions specified in {option.name} don't match what are assigned: you must specify all of "
        f"them{markers}; or use {instead.name}, where those that are not named {place}",
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


def _offsets(
    topic: str, entries: Any, partitions: dict[TopicPartition, Strategy], *, ours: bool
) -> dict[TopicPartition, int]:
    """The offsets of a topic's partitions. Other strategies of partitions go to `partitions`."""
    offsets: dict[TopicPartition, int] = {}
    for number, value in _partitions(topic, entries, star=ours):
        if number == "*":
            continue
        if is_whole(value, EARLIEST):
            offsets[topic, int(number)] = value
        elif ours and isinstance(value, str):
            partitions[topic, int(number)] = _one(value, ours=True)
        else:
            raise ValueError(f"{shown(value)} is not an offset")
    return offsets


def _partitions(topic: str, entries: Any, *, star: bool = False) -> Iterator[tuple[str, Any]]:
    """Partition number (or `*`) and entry, of one topic. ValueError: the form is wrong."""
    if not isinstance(entries, dict) or not entries:
        raise ValueError(f"{topic!r} names no partitions")
    named: dict[int, str] = {}
    for number, value in entries.items():
        if not (star and number == "*"):
            if not PARTITION.fullmatch(number) or int(number) > INT_MAX:
                raise ValueError(f"{number!r} is not a partition")
            if int(number) in named:
                raise ValueError(f"{named[int(number)]!r} and {number!r} are the same partition")
            named[int(number)] = number
        yield number, value


def _topics(given: RawOptions, option: Option, form: str) -> dict[str, Any] | None:
    """Topic -> its entry."""
    document = given.document(option, expected=form)
    if document is None:
        return None
    if not document:
        given.wrong(option, "it names no topic", expected=form)
        return None
    for topic, entry in document.items():
        if not TOPIC.fullmatch(topic):
            _wrong_topic(given, option, {topic: entry}, form, ValueError(f"{shown(topic)} cannot be a topic"))
    return document


def _wrong_topic(given: RawOptions, option: Option, entry: Mapping[str, Any], form: str, reason: ValueError) -> None:
    found = shown(json.dumps(entry, default=str))
    given.problems.append(f"{option.name}{given.where} has {found}; expected {form}: {reason}")


def _one(value: Any, *, ours: bool) -> Strategy:
    """A strategy in one word or number, without topics. ValueError: the form is wrong."""
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in _WORDS:
        return _WORDS[text]
    if ours and text.startswith("timestamp:"):
        return AtTime(timestamp_ms(text.removeprefix("timestamp:").strip()), "latest")
    if ours and text.startswith("-"):
        size = text.removeprefix("-").strip()
        if _NUMBER.fullmatch(size) and 1 <= int(size) <= LONG_MAX:
            return FromEnd(int(size))
        age_ms = duration_ms(size)
        if age_ms is not None and 1 <= age_ms <= LONG_MAX:
            return Ago(age_ms)
    question = meant(text, tuple(_WORDS))
    raise ValueError(f"{shown(value)} is none of them{f'; {question}' if question else ''}")


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970: a number, or a time in ISO 8601 with a zone. ValueError: `text` has another form."""
    if _NUMBER.fullmatch(text) and int(text) <= LONG_MAX:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError(f"{shown(text)} is not a time") from None
    if moment.tzinfo is None:
        raise ValueError(f"{shown(text)} has no zone; with one it is as 2025-01-31T12:00:00Z or 2025-01-31T12:00+02:00")
    elapsed_ms = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if elapsed_ms < 0:
        raise ValueError(f"{shown(text)} is before 1970")
    return elapsed_ms
