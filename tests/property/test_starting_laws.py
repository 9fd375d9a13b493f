"""Where reading starts: what holds for every strategy, however strategies are nested."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.state.offset_strategies import (
    EARLIEST,
    LATEST,
    NO_RECORD,
    Ago,
    AtTime,
    Bounds,
    ByTopic,
    Committed,
    Demanded,
    Earliest,
    Found,
    FromEnd,
    Latest,
    Lookups,
    Specific,
    Strategy,
    TopicPartition,
    lookups,
    resolve,
    unknown,
)

NOW_MS = 1_000

topics = st.sampled_from(["t", "u", "v"])
keys = st.tuples(topics, st.integers(0, 2))
offsets = st.integers(EARLIEST, 30)
groups = st.sampled_from(["g", "h"])
logs = st.builds(lambda earliest, size: Bounds(earliest, earliest + size), st.integers(0, 12), st.integers(0, 12))
worlds = st.dictionaries(keys, logs, max_size=9)
leaves: st.SearchStrategy[Strategy] = st.one_of(
    st.just(Earliest()),
    st.just(Latest()),
    st.builds(AtTime, st.integers(0, 30), st.sampled_from(["latest", "error"])),
    st.builds(Ago, st.integers(0, 2_000)),
    st.builds(FromEnd, st.integers(0, 30)),
)


def nested(inner: st.SearchStrategy[Strategy]) -> st.SearchStrategy[Strategy]:
    return st.one_of(
        st.builds(Specific, st.dictionaries(keys, offsets, max_size=4), inner),
        st.builds(Committed, groups, inner),
        # Of a topic that there is not: what it demands of others, a test of its own says.
        st.builds(Demanded, st.just("all of it"), inner, st.just(("w",))),
        st.builds(ByTopic, st.dictionaries(topics, inner, max_size=2), st.dictionaries(keys, inner, max_size=3), inner),
    )


strategies = st.recursive(leaves, nested, max_leaves=8)


@st.composite
def answers(draw: st.DrawFn, asked: Lookups) -> Found:
    """What a cluster may answer: exactly what was asked, with offsets that may no longer be in the log."""
    return Found(
        {key: draw(st.integers(NO_RECORD, 30)) for key in asked.times},
        {
            group: {key: draw(st.integers(0, 30)) for key in asked_keys if draw(st.booleans())}
            for group, asked_keys in asked.groups.items()
        },
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Strategy, dict[TopicPartition, Bounds], Found]:
    strategy, world = draw(strategies), draw(worlds)
    return strategy, world, draw(answers(lookups(strategy, world, NOW_MS)))


def expected(strategy: Strategy, key: TopicPartition, log: Bounds, found: Found) -> int | None:
    """The offset that is asked for, in plain words, before it is held against the log; None: there is none."""
    match strategy:
        case Earliest():
            return log.earliest
        case Latest():
            return log.latest
        case FromEnd(count):
            return log.latest - min(count, log.latest - log.earliest)
        case AtTime() | Ago():
            answer = found.times[key]
            if answer == NO_RECORD:
                return None if isinstance(strategy, AtTime) and strategy.otherwise == "error" else log.latest
            return sorted((log.earliest, answer, log.latest))[1]
        case Committed(group, otherwise):
            commits = found.committed[group]
            return commits[key] if key in commits else expected(otherwise, key, log, found)
        case Demanded(_, otherwise):
            return expected(otherwise, key, log, found)
        case Specific(said, otherwise):
            if key not in said:
                return expected(otherwise, key, log, found)
            return {EARLIEST: log.earliest, LATEST: log.latest}.get(said[key], said[key])
        case ByTopic(by_topic, by_partition, otherwise):
            if key in by_partition:
                return expected(by_partition[key], key, log, found)
            return expected(by_topic.get(key[0], otherwise), key, log, found)


@given(questions())
def test_each_partition_has_the_offset_that_its_strategy_asks_for(
    question: tuple[Strategy, dict[TopicPartition, Bounds], Found],
) -> None:
    strategy, world, found = question
    resolution = resolve(strategy, world, found)
    for key, log in world.items():
        wanted = expected(strategy, key, log, found)
        if wanted is None:
            assert key not in resolution.offsets
            assert any(f"{key[0]!r}, partition {key[1]} has no record" in problem for problem in resolution.problems)
        elif log.earliest <= wanted <= log.latest:
            assert (resolution.offsets[key], key in resolution.out_of_range) == (wanted, False)
        else:
            assert (resolution.offsets[key], resolution.out_of_range[key]) == (log.earliest, wanted)


@given(questions())
def test_every_partition_has_an_offset_in_its_log_or_a_problem(
    question: tuple[Strategy, dict[TopicPartition, Bounds], Found],
) -> None:
    strategy, world, found = question
    resolution = resolve(strategy, world, found)
    assert all(world[key].earliest <= offset <= world[key].latest for key, offset in resolution.offsets.items())
    assert set(resolution.out_of_range) <= set(resolution.offsets) <= set(world)
    late = len(world) - len(resolution.offsets)
    assert len(resolution.problems) == late + len(unknown(strategy, world))


@given(questions())
def test_the_order_in_which_partitions_are_named_changes_nothing(
    question: tuple[Strategy, dict[TopicPartition, Bounds], Found],
) -> None:
    strategy, world, found = question
    other = dict(reversed(world.items()))
    assert repr(resolve(strategy, other, found)) == repr(resolve(strategy, world, found))
    assert repr(lookups(strategy, other, NOW_MS)) == repr(lookups(strategy, world, NOW_MS))


@given(strategies, worlds)
def test_only_partitions_that_are_read_are_asked_for(strategy: Strategy, world: dict[TopicPartition, Bounds]) -> None:
    asked = lookups(strategy, world, NOW_MS)
    assert set(asked.times) <= set(world)
    assert all(set(keys_of) <= set(world) and keys_of for keys_of in asked.groups.values())
    assert all(0 <= time <= NOW_MS for time in asked.times.values())
