"""Every format that there has been goes on: it is read, the next batch reads what follows, and keeps all else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from evensplit.checkpoint.formats import OLDEST_WRITTEN, lasting
from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.events import SettingsChanged
from evensplit.core.model import Held, Split, SplitId
from evensplit.core.state.codec import SIGNATURE, VERSION, decode, encode
from evensplit.core.state.state import EnumeratorState, as_named
from tests.support.enumeration import run
from tests.support.goldens import AFTER, GOLDEN, document, golden, is_read, next_batch, planned_ends


def test_there_is_a_golden_offset_of_every_format() -> None:
    assert {document(name)[SIGNATURE] for name in GOLDEN} == set(range(1, VERSION + 1))
    assert all(name.startswith(f"v{document(name)[SIGNATURE]}/") for name in GOLDEN)


def is_at_stop(split: Split) -> bool:
    return split.stop is not None and split.position == split.stop


@pytest.mark.parametrize("name", GOLDEN)
def test_the_next_batch_reads_what_follows_and_nothing_else(name: str) -> None:
    before = golden(name)
    after = next_batch(before)
    ranges = {part.split: (part.start, part.end) for part in batch_ranges(before, after)}
    ends = planned_ends(before)
    expected = {key: (before.splits[key].position or 0, end) for key, end in ends.items()}
    assert ranges == {key: (start, end) for key, (start, end) in expected.items() if end > start}
    assert ranges, "something was read"
    assert after.losses == (), "and nothing was lost"


@pytest.mark.parametrize("name", GOLDEN)
def test_what_the_next_batch_does_not_read_is_kept(name: str) -> None:
    before = golden(name)
    after = next_batch(before)
    earlier = as_named(before, after)
    for key, split in earlier.items():
        now = after.splits.get(key)
        if now is None:
            # Format 3 could have several names of one cluster; the last one goes on.
            assert before.clusters[key.cluster].kafka_id in [one.kafka_id for one in after.clusters.values()]
            continue
        assert (now.topic_id, now.stop, now.finished) == (split.topic_id, split.stop, split.finished or is_at_stop(now))
        if not is_read(before, split):
            assert (now.position, now.removed_at_ms) == (split.position, split.removed_at_ms)
    assert (after.readers, after.settings, after.eligible) == (before.readers, before.settings, before.eligible)


@pytest.mark.parametrize("name", [name for name in GOLDEN if "/usual" in name or "/default" in name])
def test_owners_stay_over_an_upgrade(name: str) -> None:
    before = golden(name)
    after = next_batch(before)
    kept = {key: split.owner for key, split in before.splits.items() if split.owner is not None}
    assert {key: after.splits[key].owner for key in kept} == kept


@pytest.mark.parametrize("name", GOLDEN)
def test_what_is_written_then_is_as_it_has_always_been(name: str) -> None:
    """Byte for byte: whoever changes how a state goes on, or is written, sees here what becomes of each format."""
    after = encode(next_batch(golden(name)))
    assert json.dumps(after) == (AFTER / name.replace("/", "-")).read_text().strip()
    assert decode(after) == next_batch(golden(name))
    assert after[SIGNATURE] == max(lasting(document(name)), default=OLDEST_WRITTEN), "what stays decides"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_batch_after_that_goes_on_as_well(name: str) -> None:
    once = decode(encode(next_batch(golden(name))))
    twice = next_batch(once)
    assert {part.split: part.start for part in batch_ranges(once, twice)} == {
        key: once.splits[key].position
        for key, end in planned_ends(once).items()
        if end > (once.splits[key].position or 0)
    }
    assert twice.revision == once.revision + 1


def test_what_held_a_batch_passes_with_the_next_and_the_rest_of_format_5_stays() -> None:
    """So whether an older version can go on may change with each batch, and is settled once these values are there."""
    before = golden("v4/usual.json")
    after = next_batch(replace(before, held=(Held("maxOffsetsPerTrigger"),)))
    assert (encode(after)[SIGNATURE], after.held) == (4, ())
    for name, one in (
        ("reachedMs", replace(before, reached_ms=5)),
        ("recordBytes", replace(before, splits=_with(before, record_bytes=7))),
    ):
        assert name in json.dumps(encode(next_batch(next_batch(one))))


def test_without_balance_by_rate_nothing_of_it_is_left() -> None:
    before = golden("v5/unusual.json")
    before = replace(before, reached_ms=None, held=(), splits=_with(before, record_bytes=0))
    assert encode(before)[SIGNATURE] == 5
    settings = replace(before.settings, balance="count", gain_percent=2, moves_per_hour=None, capacities=())
    after, _ = run(SettingsChanged(settings, dict(before.eligible)), state=before)
    assert encode(after)[SIGNATURE] == 4


def _with(state: EnumeratorState, **values: Any) -> dict[SplitId, Split]:
    return {key: split._replace(**values) for key, split in state.splits.items()}
