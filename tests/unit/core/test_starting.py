"""Where reading starts."""

from __future__ import annotations

import pickle

import pytest

from evensplit.core.state.offset_strategies import (
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
    lookups,
    resolve,
    unknown,
)

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
BOUNDS = {T0: Bounds(3, 10), T1: Bounds(0, 0)}


def test_what_is_named_and_not_read_is_a_problem_and_the_rest_is_resolved() -> None:
    found = resolve(Specific({T0: 5, ("u", 5): 1}), BOUNDS)
    assert found.offsets == {T0: 5, T1: 0}
    (problem,) = found.problems
    assert problem.startswith("topic 'u', partition 5 has an offset but is not read; expected only what")


def test_what_is_read_may_be_more_than_what_is_resolved_now() -> None:
    found = resolve(Specific({T0: 5, U0: 7}), {T0: BOUNDS[T0]}, read=[T0, T1, U0])
    assert (found.offsets, found.problems) == ({T0: 5}, ())
    assert len(resolve(Specific({T0: 5, U0: 7}), {T0: BOUNDS[T0]}, read=iter([T0, T1])).problems) == 1


@pytest.mark.parametrize(
    "strategy, names",
    [
        (Latest(), ()),
        (Ago(5), ()),
        (Specific({U0: 1, T0: 1}), ("topic 'u', partition 0",)),
        (Specific({T0: 1}, Specific({U0: 1})), ("topic 'u', partition 0",)),
        (Committed("g", Specific({U0: 1})), ("topic 'u', partition 0",)),
        (ByTopic({}, {U0: Latest(), T0: Latest()}, Earliest()), ("topic 'u', partition 0",)),
        (ByTopic({"u": Latest(), "t": Latest()}, {}, Earliest()), ("topic 'u'",)),
        (ByTopic({"t": Specific({U0: 1})}, {}, Earliest()), ("topic 'u', partition 0",)),
        (ByTopic({}, {U0: Specific({U0: 7})}, Earliest()), ("topic 'u', partition 0",)),
        (
            ByTopic({}, {T0: Specific({("t", 9): 7})}, ByTopic({"v": Latest()}, {U0: Latest()}, Earliest())),
            ("topic 't', partition 9", "topic 'u', partition 0", "topic 'v'"),
        ),
    ],
)
def test_names_of_what_is_not_read_are_found_wherever_they_are(strategy: Strategy, names: tuple[str, ...]) -> None:
    found = unknown(strategy, BOUNDS)
    assert [sentence.partition(" has ")[0].partition(" is ")[0] for sentence in found] == list(names)


def test_what_has_to_be_named_and_is_not_is_a_problem_in_one_sentence() -> None:
    bounds = {key: Bounds(0, 9) for key in (U0, ("t", 2), T1, T0, ("v", 0))}
    strategy = Specific({T0: 5}, Demanded("say it", Latest(), ("t", "u")))
    found = resolve(strategy, bounds)
    assert found.offsets == {T0: 5, ("v", 0): 9}
    assert found.problems == ("topic 't', partitions 1, 2; topic 'u', partition 0 are not named; say it",)
    (problem,) = resolve(Demanded("say it", Latest()), {T0: Bounds(0, 9)}).problems
    assert problem == "topic 't', partition 0 is not named; say it"
    assert not lookups(strategy, bounds, now_ms=0)
    named = Specific(dict.fromkeys(bounds, 1), Demanded("say it", Latest()))
    assert (resolve(named, bounds).offsets, resolve(named, bounds).problems) == (dict.fromkeys(bounds, 1), ())


def test_no_record_at_a_time() -> None:
    nothing = Found(times={T0: NO_RECORD, T1: 0})
    assert resolve(AtTime(99, "latest"), BOUNDS, nothing).offsets == {T0: 10, T1: 0}
    assert resolve(Ago(99), BOUNDS, nothing).offsets == {T0: 10, T1: 0}
    found = resolve(AtTime(99, "error"), BOUNDS, nothing)
    assert found.offsets == {T1: 0}
    (problem,) = found.problems
    assert problem.startswith("topic 't', partition 0 has no record at 99 (ms since 1970) or later (no offset m")
    assert "startingOffsetsByTimestampStrategy=latest" in problem


def test_what_has_to_be_asked() -> None:
    strategy = ByTopic(
        topics={"t": Committed("b", Committed("a", Committed("b", Ago(400)))), "u": AtTime(77, "error")},
        partitions={T1: Specific({("t", 9): 1}, AtTime(5, "latest"))},
        otherwise=Latest(),
    )
    asked = lookups(strategy, [("v", 0), U0, T1, T0], now_ms=1_000)
    assert asked == Lookups({T0: 600, T1: 5, U0: 77}, {"a": (T0,), "b": (T0,)})
    assert (list(asked.times), list(asked.groups)) == ([T0, T1, U0], ["a", "b"])
    assert asked
    assert lookups(Ago(1_001), [T0], now_ms=1_000).times == {T0: 0}
    assert lookups(Committed("g", Latest()), [T1, T0], now_ms=0) == Lookups({}, {"g": (T0, T1)})
    assert lookups(Committed("g", Latest()), [T0], now_ms=0)


@pytest.mark.parametrize("strategy", [Earliest(), Latest(), FromEnd(5), Specific({T0: 1}), ByTopic({}, {}, Latest())])
def test_most_strategies_ask_nothing(strategy: Strategy) -> None:
    assert not lookups(strategy, BOUNDS, now_ms=1_000)


def test_nothing_is_asked_about_partitions_that_have_an_offset() -> None:
    strategy = Specific({T0: 5}, Committed("g", Ago(1)))
    assert lookups(strategy, BOUNDS, now_ms=3) == Lookups({T1: 2}, {"g": (T1,)})
    assert resolve(strategy, BOUNDS, Found({T1: 0}, {"g": {}})).offsets == {T0: 5, T1: 0}


def test_a_missing_answer_is_an_error_rather_than_a_guess() -> None:
    for strategy in (Ago(1), AtTime(1, "latest"), Committed("g", Latest())):
        with pytest.raises(KeyError):
            resolve(strategy, BOUNDS)


def test_strategies_cross_process_boundaries() -> None:
    strategy = ByTopic(
        {"t": Committed("g", Ago(1))}, {T0: Specific({T0: 1}), T1: AtTime(5, "error")}, Specific({}, FromEnd(1))
    )
    assert pickle.loads(pickle.dumps(strategy)) == strategy
