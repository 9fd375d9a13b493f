"""Where reading starts."""

from __future__ import annotations

from evensplit.core.starting import EARLIEST, LATEST, Bounds, Earliest, Latest, Specific, resolve, unknown

BOUNDS = {("t", 0): Bounds(3, 10), ("t", 1): Bounds(0, 0)}


def test_earliest_and_latest() -> None:
    assert resolve(Earliest(), BOUNDS).offsets == {("t", 0): 3, ("t", 1): 0}
    assert resolve(Latest(), BOUNDS).offsets == {("t", 0): 10, ("t", 1): 0}


def test_specific_offsets_from_the_start_of_the_log_to_its_end() -> None:
    for offset in (3, 7, 10):
        found = resolve(Specific({("t", 0): offset, ("t", 1): 0}), BOUNDS)
        assert (found.offsets[("t", 0)], found.problems) == (offset, ())


def test_markers_stand_for_the_ends_of_the_log() -> None:
    found = resolve(Specific({("t", 0): EARLIEST, ("t", 1): LATEST}), BOUNDS)
    assert found.offsets == {("t", 0): 3, ("t", 1): 0}


def test_all_problems_at_once() -> None:
    found = resolve(Specific({("t", 0): 11, ("u", 5): 1}), BOUNDS)
    assert found.offsets == {}
    assert len(found.problems) == 3
    text = "\n".join(found.problems)
    assert "topic 't', partition 0 has no offset 11; expected 3 (the start of its log) to 10 (its end)" in text
    assert "topic 't', partition 1 has no offset; expected one for every partition" in text
    assert "topic 'u', partition 5 has an offset but is not read" in text


def test_only_specific_offsets_can_name_what_is_not_read() -> None:
    assert unknown(Latest(), [("t", 0)]) == ()
    assert len(unknown(Specific({("u", 0): 1}), [("t", 0)])) == 1
