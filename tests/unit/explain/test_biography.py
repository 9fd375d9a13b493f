"""The life of one split, told from the ends of batches."""

from __future__ import annotations

import json
from dataclasses import replace

from evensplit.core.model import Cause, Loss, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.split_history import BatchEnd, Reading, describe_split, split_history

ONE, TWO = SplitId("c", "a", 0), SplitId("c", "a", 1)


def state(*splits: Split, readers: int = 2, losses: tuple[Loss, ...] = ()) -> EnumeratorState:
    return EnumeratorState(
        readers, {}, {split.id: split for split in splits}, assigned_readers=tuple(range(readers)), losses=losses
    )


def end(batch: int, *splits: Split, readers: int = 2, losses: tuple[Loss, ...] = ()) -> BatchEnd:
    return BatchEnd(batch, 1_000 * batch, state(*splits, readers=readers, losses=losses))


def told(*ends: BatchEnd, split: SplitId = ONE) -> list[tuple[int, int, tuple[str, ...]]]:
    found = split_history(split, ends)
    assert found is not None
    return [(chapter.first.batch, chapter.last.batch, chapter.sentences()) for chapter in found.chapters]


def test_from_the_first_batch_on() -> None:
    ends = [
        end(0, Split(ONE, "id", 5, 5, 0)),
        end(1, Split(ONE, "id", 8, None, 0)),
        end(2, Split(ONE, "id", 8, None, 0)),
        end(3, Split(ONE, "id", 1_009, None, 0)),
        end(4, Split(ONE, "id", 1_010, None, 1)),
        end(5, Split(ONE, "id", 1_011, None, 1)),
        end(6, Split(ONE, "id", 1_012, None, 1)),
    ]
    assert told(*ends) == [
        (0, 0, ("was discovered", "starts at 5", "was given to reader 0")),
        (1, 3, ("offsets 5 to 1,008 read by reader 0",)),
        (4, 4, ("moved from reader 0 to reader 1: the readers were uneven", "offset 1,009 read by reader 1")),
        (5, 6, ("offsets 1,010 to 1,011 read by reader 1",)),
    ]
    found = split_history(ONE, ends)
    assert found is not None
    assert (found.known_from, found.before, found.now) == (0, None, ends[-1].state.splits[ONE])


def test_what_is_older_than_the_oldest_end_is_known_by_its_outcome() -> None:
    lost = Loss(ONE, Cause.DELETED, 3), Loss(TWO, Cause.DELETED, 4)
    ends = [end(7, Split(ONE, "id", 5, None, 0), losses=lost), end(8, Split(ONE, "id", 6, None, 0), losses=lost)]
    found = split_history(ONE, ends)
    assert found is not None
    assert (found.known_from, found.before) == (8, Split(ONE, "id", 5, None, 0))
    assert told(*ends) == [
        (7, 7, ("lost records: it was deleted. How many offsets from 3 on were lost is not known",)),
        (8, 8, ("offset 5 read by reader 0",)),
    ]


def test_found_later_and_forgotten() -> None:
    ends = [
        end(7),
        end(8, Split(ONE, "id", 5, 2, 0)),
        end(9, Split(ONE, "id", 5, removed_at_ms=1)),
        end(10, Split(ONE, "id", 5, removed_at_ms=1)),
        end(11),
    ]
    found = split_history(ONE, ends)
    assert found is not None
    assert (found.known_from, found.before, found.now) == (8, None, None)
    assert told(*ends) == [
        (8, 8, ("was discovered", "starts at 2", "was given to reader 0", "offsets 2 to 4 read by reader 0")),
        (9, 9, ("was retained at 5: it is no longer read",)),
        (11, 11, ("was forgotten: it was away for longer than positions are kept",)),
    ]


def test_the_last_range_of_a_finished_split() -> None:
    """Its owner is not in the state any more: it is the one before, or, in its only batch, the one with least to do."""
    before, after = Split(ONE, "id", 5, None, 1), Split(ONE, "id", 9, finished=True)
    assert told(end(3, before), end(4, after)) == [
        (4, 4, ("was finished at 9: read to its end", "offsets 5 to 8 read by reader 1"))
    ]
    busy = Split(TWO, "id", 9, 0, 0)
    (chapter,) = told(end(3), end(4, after._replace(first=5), busy))
    assert chapter[2][-1] == "offsets 5 to 8 read by reader 1"
    (chapter,) = told(end(3, Split(ONE, "id", 5, None, 4), readers=5), end(4, after, busy))
    assert chapter[2][-1] == "offsets 5 to 8 read by reader 1"
    assert told(end(3, after, busy), end(4, after, busy._replace(position=10, first=None))) == []


def test_reading_that_does_not_follow_on_is_a_chapter_of_its_own() -> None:
    """Offsets 6 and 7 were skipped, which nothing in the states says."""
    ends = [
        end(3, Split(ONE, "id", 5, None, 0)),
        end(4, Split(ONE, "id", 6, None, 0)),
        end(5, Split(ONE, "id", 9, 8, 0)),
    ]
    assert told(*ends) == [
        (4, 4, ("offset 5 read by reader 0",)),
        (5, 5, ("offset 8 read by reader 0",)),
    ]


def test_a_topic_that_was_created_anew_starts_again() -> None:
    lost = (Loss(ONE, Cause.RECREATED, 5, 8, 3),)
    assert told(end(3, Split(ONE, "id", 5, None, 0)), end(4, Split(ONE, "id-2", 9, 0, 0), losses=lost)) == [
        (
            4,
            4,
            (
                "lost records: the topic was deleted and created anew. At most 3 offsets from 5 on were lost",
                "was created anew: its topic has another id",
                "starts at 0",
                "offsets 0 to 8 read by reader 0",
            ),
        )
    ]


def test_nobody_knows_it() -> None:
    assert split_history(ONE, ()) is None
    assert split_history(ONE, [end(0), end(1, Split(TWO, "id", 1, None, 0))]) is None


def test_how_a_split_stands() -> None:
    split = Split(ONE, "id", 12_345, None, 3)
    assert [
        describe_split(one)
        for one in (
            None,
            split,
            split._replace(owner=None),
            split._replace(owner=None, position=None),
            split._replace(owner=None, removed_at_ms=4),
            split._replace(owner=None, removed_at_ms=4, position=None),
            split._replace(owner=None, finished=True),
        )
    ] == [
        "forgotten; it is new if it comes back",
        "next offset 12,345; with reader 3",
        "next offset 12,345; no reader yet",
        "its start is not known yet; no reader yet",
        "retained, and not read: next offset 12,345",
        "retained, and not read: its start is not known yet",
        "finished: read to its end at offset 12,345",
    ]


def test_as_json() -> None:
    found = split_history(ONE, [end(0, Split(ONE, "id", 5, 5, 0)), end(1, Split(ONE, "id", 8, None, 0))])
    assert found is not None
    document = json.loads(json.dumps(found.to_json()))
    assert document == {
        "split": "c/a/0",
        "former": [],
        "knownFrom": 0,
        "before": None,
        "chapters": [
            {
                "firstBatch": 0,
                "lastBatch": 0,
                "firstMs": 0,
                "lastMs": 0,
                "changes": ["was discovered", "starts at 5", "was given to reader 0"],
                "reading": None,
                "held": [],
                "edits": [],
            },
            {
                "firstBatch": 1,
                "lastBatch": 1,
                "firstMs": 1_000,
                "lastMs": 1_000,
                "changes": [],
                "reading": {"readers": [0], "start": 5, "end": 8, "insteadOf": None, "leftOut": []},
                "held": [],
                "edits": [],
            },
        ],
        "now": {
            "stands": "assigned",
            "position": 8,
            "owner": 0,
            "removedAtMs": None,
            "text": "next offset 8; with reader 0",
        },
    }
    assert replace(found.chapters[1].reading or Reading((0,), 0, 0), end=6).sentence() == "offset 5 read by reader 0"
