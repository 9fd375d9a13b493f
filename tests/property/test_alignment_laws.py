"""Batches that end at a time: nothing is read too early, nothing becomes late, and all of it is read in the end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.alignment import ROUNDS_MAX, TimeSearch
from evensplit.core.model import SplitId

Times = list[int]
"""The timestamps of one log, by offset."""

KEYS = [SplitId("east", "t", 0), SplitId("east", "t", 1), SplitId("west", "t", 0), SplitId("west", "u", 0)]


@st.composite
def logs(draw: st.DrawFn) -> dict[SplitId, Times]:
    """Logs in the order of their timestamps, dense or sparse, over hours or moments, each with an own beginning."""
    found: dict[SplitId, Times] = {}
    scale = draw(st.sampled_from([1, 60, 3_600_000]))
    for key in KEYS[: draw(st.integers(1, len(KEYS)))]:
        at_ms, times = draw(st.integers(0, 50)) * scale + 1, []
        for gap in draw(st.lists(st.integers(0, 9), max_size=40)):
            at_ms += gap * draw(st.sampled_from([1, scale]))
            times.append(at_ms)
        found[key] = times
    return found


def first_from(times: Times, at_ms: int) -> tuple[int, int]:
    """What a broker answers, for logs that are in order."""
    offset = bisect_left(times, at_ms)
    return (offset, times[offset]) if offset < len(times) else (-1, -1)


def share(
    at_least: Mapping[SplitId, int], at_most: Mapping[SplitId, int], positions: Mapping[SplitId, int], room: int
) -> dict[SplitId, int]:
    """Ends between the two, with so many offsets more than up to `at_least`."""
    ends = dict(at_least)
    room -= sum(at_least[key] - positions[key] for key in at_least)
    for key in at_least:
        more = max(0, min(room, at_most[key] - at_least[key]))
        ends[key] += more
        room -= more
    return ends


@given(logs(), st.integers(1, 20), st.sampled_from([1, 7, 100, 600_000]), st.integers(0, 2), st.booleans(), st.data())
def test_laws(
    written: dict[SplitId, Times], limit: int, ahead_ms: int, idle: int, known: bool, data: st.DataObject
) -> None:
    positions = dict.fromkeys(written, 0)
    reached_ms = min((times[0] for times in written.values() if times), default=None) if known else None
    # One without a record tells nothing, so nothing waits for it; and an idle one gets none.
    busy = [key for key in sorted(written)[idle:] if written[key]]
    newest_ms, beyond_ms = -1, None
    latest = {
        key: data.draw(st.integers(1, len(times)), label=f"visible of {key}") if key in busy else len(times)
        for key, times in written.items()
    }
    while True:
        search = TimeSearch(
            positions,
            latest,
            busy=busy,
            reached_ms=reached_ms,
            span_ms=data.draw(st.sampled_from([0, 1_000, 10**7]), label="span"),
            ahead_ms=ahead_ms,
            now_ms=data.draw(st.sampled_from([0, 10**6, 10**9]), label="now") if beyond_ms is None else beyond_ms,
            future_ms=1 << 60,
            filled=lambda ends: sum(ends[key] - positions[key] for key in ends) / limit,
        )
        rounds = 0
        while (at_ms := search.next_ms) is not None:
            rounds += 1
            search.take(at_ms, {key: first_from(written[key][: latest[key]], at_ms) for key in search.asked})
        assert rounds <= ROUNDS_MAX
        cut = search.cut
        ends = share(cut.at_least, cut.at_most, positions, limit)
        size = sum(end - positions[key] for key, end in ends.items())
        assert size <= limit
        read = [time for key, end in ends.items() for time in written[key][positions[key] : end]]
        positions.update(ends)
        newest_ms = max([newest_ms, *read])
        if cut.reached_ms is not None:
            assert cut.reached_ms >= (reached_ms or 0)
            reached_ms = cut.reached_ms
            assert newest_ms < reached_ms + ahead_ms
            for key, times in written.items():
                # What is unread of any split, and what busy ones will get, is not older.
                end = len(times) if key in busy else latest[key]
                assert all(time >= reached_ms for time in times[positions[key] : end])
        beyond_ms = None if size else search.beyond_ms
        if size or (rounds == ROUNDS_MAX and not cut.waits_for):
            continue
        if any(latest[key] > positions[key] for key in latest):
            assert cut.waits_for, "it stops, and nobody is to be waited for"
        if all(latest[key] == len(times) for key, times in written.items()):
            # What is written to a split at last becomes idle.
            if not busy:
                break
            busy = busy[1:]
            continue
        latest = {key: data.draw(st.integers(end, len(written[key]))) for key, end in latest.items()}
        latest = {key: len(written[key]) for key in latest} if data.draw(st.booleans()) else latest
    assert positions == {key: len(times) for key, times in written.items()}
