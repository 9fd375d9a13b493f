"""Laws of limits: of the batch, of clusters and of topics, on offsets and on bytes, and of priorities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.ends import plan_ends
from evensplit.core.batch.limits import (
    ASSUMED_RECORD_BYTES,
    BYTES,
    COMPRESSION,
    GUESS_BYTES_MIN,
    OFFSETS,
    BatchLimits,
    Caps,
    Priority,
    Scope,
    filled,
    fits,
    full_sizes,
    guessed,
    unmeasured,
)
from evensplit.core.batch.shares import Shares, share
from evensplit.core.model import Cluster, Held, SplitId, Topic

Offsets = dict[SplitId, int]

keys = st.builds(SplitId, st.sampled_from("ab"), st.sampled_from("tu"), st.integers(0, 2))
scopes = st.one_of(
    st.builds(Cluster, st.sampled_from("ab")), st.builds(Topic, st.sampled_from("ab"), st.sampled_from("tu"))
)
amounts = st.integers(1, 200)
caps = st.builds(Caps, st.none() | amounts, st.dictionaries(scopes, amounts, max_size=4))
orders = st.lists(scopes, unique=True, max_size=4).map(tuple)
priorities = st.one_of(
    st.builds(Priority, order=orders),
    st.builds(
        Priority,
        weights=st.dictionaries(scopes, st.integers(1, 9), max_size=4),
        others_weight=st.integers(1, 9),
    ),
)
limits = st.builds(BatchLimits, caps, caps, priorities)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Offsets, Offsets, Offsets]:
    """Positions, the ends of logs, and the bytes of an offset."""
    positions = draw(st.dictionaries(keys, st.integers(0, 9)))
    latest = {key: draw(st.integers(0, 60)) for key in positions if draw(st.integers(0, 9))}
    return positions, latest, {key: draw(st.integers(1, 20)) for key in positions}


def covers(scope: Scope | None, key: SplitId) -> bool:
    if scope is None:
        return True
    return key.cluster == scope.id if isinstance(scope, Cluster) else key[:2] == (scope.cluster, scope.name)


def rows(limits: BatchLimits) -> list[tuple[bool, Scope | None, int]]:
    """All limits: whether in bytes, of what, how much."""
    found: list[tuple[bool, Scope | None, int]] = []
    for in_bytes, own in ((False, limits.offsets), (True, limits.bytes)):
        found += [] if own.batch is None else [(in_bytes, None, own.batch)]
        found += [(in_bytes, scope, cap) for scope, cap in own.of.items()]
    return found


def held_of(in_bytes: bool, scope: Scope | None) -> Held:
    name = "" if scope is None else scope.id if isinstance(scope, Cluster) else f"{scope.cluster}/{scope.name}"
    return Held(BYTES if in_bytes else OFFSETS, name)


def check(
    found: Shares,
    positions: Offsets,
    latest: Offsets,
    sizes: Offsets,
    limits: BatchLimits,
    at_least: Mapping[SplitId, int],
) -> None:
    """Whatever the priority is: never beyond a limit but for one offset of each split, and nothing is left over."""
    base = {key: max(at, min(at_least.get(key, 0), latest.get(key, 0))) for key, at in positions.items()}
    read = {key: end - positions[key] for key, end in found.ends.items()}
    assert list(found.ends) == sorted(found.ends)
    assert all(positions[key] < end <= latest[key] and end >= base[key] for key, end in found.ends.items())
    assert {key for key, end in latest.items() if end > positions[key]} == set(found.ends)
    full: list[Scope | None] = []
    for in_bytes, scope, cap in rows(limits):
        each = sizes if in_bytes else dict.fromkeys(positions, 1)
        own = [key for key in found.ends if covers(scope, key)]
        taken = sum(read[key] * each[key] for key in own)
        least = sum((base[key] - positions[key]) * each[key] for key in own)
        assert taken <= max(cap, least) + sum(each[key] for key in own if base[key] == positions[key])
        if held_of(in_bytes, scope) in found.held:
            full.append(scope)
            # Of each split one offset more is left over, at most.
            assert taken >= cap - sum(each[key] for key in own)
            assert any(found.ends[key] < latest[key] for key in own)
    for key, end in found.ends.items():
        assert end == latest[key] or any(covers(scope, key) for scope in full)


@given(worlds(), limits)
def test_no_limit_is_exceeded_and_nothing_is_left_over(
    world: tuple[Offsets, Offsets, Offsets], limits: BatchLimits
) -> None:
    positions, latest, sizes = world
    check(share(positions, latest, limits, sizes), *world, limits, {})


@given(worlds(), limits, st.data())
def test_what_is_read_in_any_case_counts_in_the_limits(
    world: tuple[Offsets, Offsets, Offsets], limits: BatchLimits, data: st.DataObject
) -> None:
    positions, latest, sizes = world
    at_least = {key: data.draw(st.integers(0, 70)) for key in latest if data.draw(st.booleans())}
    check(share(positions, latest, limits, sizes, at_least), *world, limits, at_least)


@given(worlds(), limits, st.integers(0, 100))
def test_a_higher_limit_of_the_batch_never_reads_less_of_any_split(
    world: tuple[Offsets, Offsets, Offsets], limits: BatchLimits, more: int
) -> None:
    positions, latest, sizes = world
    limits = replace(limits, priority=Priority())
    if limits.offsets.batch is None:
        return
    higher = replace(limits, offsets=Caps(limits.offsets.batch + more, limits.offsets.of))
    before, after = (share(positions, latest, one, sizes).ends for one in (limits, higher))
    assert all(after[key] >= end for key, end in before.items())


@given(worlds(), limits, st.data())
def test_what_fits_fits_with_lower_ends_too(
    world: tuple[Offsets, Offsets, Offsets], limits: BatchLimits, data: st.DataObject
) -> None:
    positions, latest, sizes = world
    ends = {key: max(positions[key], end) for key, end in latest.items()}
    lower = {key: data.draw(st.integers(positions[key], end)) for key, end in ends.items()}
    assert fits(positions, lower, limits, sizes) or not fits(positions, ends, limits, sizes)
    assert filled(positions, lower, limits, sizes) <= filled(positions, ends, limits, sizes)
    assert (filled(positions, ends, limits, sizes) <= 1) == fits(positions, ends, limits, sizes)
    if fits(positions, ends, limits, sizes):
        found = share(positions, latest, limits, sizes)
        assert found.ends == {key: end for key, end in ends.items() if end > positions[key]}
        assert found.held == ()


@given(worlds(), limits, orders)
def test_what_comes_first_reads_as_if_the_others_were_not_there(
    world: tuple[Offsets, Offsets, Offsets], limits: BatchLimits, order: tuple[Scope, ...]
) -> None:
    positions, latest, sizes = world
    ranks: dict[SplitId, int] = {}
    for key in positions:
        named = [scope for scope in order if covers(scope, key)]
        named.sort(key=lambda scope: isinstance(scope, Cluster))
        ranks[key] = order.index(named[0]) if named else len(order)
    strict = replace(limits, priority=Priority(order=order))
    found = share(positions, latest, strict, sizes).ends
    for rank in set(ranks.values()):
        own = {key: at for key, at in positions.items() if ranks[key] <= rank}
        alone = share(own, latest, strict, sizes).ends
        assert all(found[key] == alone[key] for key in alone)


@given(worlds(), st.integers(1, 500), st.integers(1, 9), st.integers(1, 9))
def test_shares_are_kept_by_who_can_use_them(
    world: tuple[Offsets, Offsets, Offsets], cap: int, one: int, other: int
) -> None:
    positions, latest, _ = world
    weights = Priority(weights={Cluster("a"): one}, others_weight=other)
    found = share(positions, latest, BatchLimits(Caps(cap), priority=weights)).ends
    for name, weight in (("a", one), ("b", other)):
        own = [key for key in found if key.cluster == name]
        read = sum(found[key] - positions[key] for key in own)
        unread = sum(latest[key] - positions[key] for key in own)
        assert read >= min(unread, cap * weight // (one + other)) - len(own)


@given(worlds(), st.none() | st.integers(1, 500))
def test_one_limit_on_offsets_is_shared_as_spark_shares_it(
    world: tuple[Offsets, Offsets, Offsets], cap: int | None
) -> None:
    positions, latest, _ = world
    behind = {key: end - positions[key] for key, end in latest.items() if end > positions[key]}
    total = sum(behind.values())
    if cap is None or total <= cap:
        expected = {key: latest[key] for key in behind}
    else:
        expected = {key: positions[key] + min(size, max(1, cap * size // total)) for key, size in behind.items()}
    assert plan_ends(positions, latest, cap) == expected


@given(st.dictionaries(keys, st.integers(0, 2000)))
def test_an_unknown_size_is_an_average_of_known_ones(known: Offsets) -> None:
    found = full_sizes(known)
    seen = [size for size in known.values() if size] or [ASSUMED_RECORD_BYTES]
    assert found.keys() == known.keys()
    assert all(size == known[key] or not known[key] for key, size in found.items())
    assert all(min(seen) <= size <= max(seen) for size in found.values())


@given(worlds(), st.dictionaries(keys, st.integers(0, 2)))
def test_what_is_asked_for_is_of_topics_that_nothing_is_known_of(world: tuple[Offsets, ...], seen: Offsets) -> None:
    positions, latest, _ = world
    known = {key: seen.get(key, 0) for key in positions}
    found = unmeasured(known, positions, latest)
    assert found == sorted(set(found))
    for key in positions:
        alike = [other for other in positions if other[:2] == key[:2]]
        is_unknown = not any(known[other] for other in alike)
        assert (key in found) == (is_unknown and latest.get(key, 0) > positions[key])


@given(st.integers(0, 2**50), st.integers(1, 2**40), st.integers(1, COMPRESSION**2))
def test_a_first_guess_is_as_good_as_usual_logs_are_compressed(rows: int, offsets: int, ratio: int) -> None:
    found = guessed(rows // ratio, offsets)
    assert found >= GUESS_BYTES_MIN
    # Of rows that are compressed up to 9 times, a batch of guessed bytes is up to 3 times as large.
    assert (found + 1) * COMPRESSION + 9 >= rows / offsets
    assert found <= max(GUESS_BYTES_MIN, COMPRESSION * rows / offsets)
    assert guessed(rows, 0) == 0


def test_parts_that_need_many_digits_are_rounded_down() -> None:
    key, other = SplitId("east", "t", 0), SplitId("east", "u", 0)
    limits = BatchLimits(bytes=Caps(10**15 + 37, {Topic("east", "t"): 10**14 + 39}))
    found = share({key: 0, other: 0}, {key: 2**61 - 1, other: 2**60 + 7}, limits, {key: 1_009, other: 1_013})
    assert 0 <= 10**14 + 39 - found.ends[key] * 1_009 < 2 * 1_009
    assert 0 <= 10**15 + 37 - found.ends[key] * 1_009 - found.ends[other] * 1_013 < 4_000
