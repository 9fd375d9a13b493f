"""Several readers claim the same splits: Kafka's cases, and laws."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.assign.claims import Claim, resolve_claims
from evensplit.core.assign.terms import Reader
from evensplit.core.model import SplitId


def anything(reader: Reader, split: SplitId) -> bool:
    return True


def split(name: str) -> SplitId:
    topic, _, partition = name.rpartition("-")
    return SplitId("", topic, int(partition))


def claim(reader: str, generation: int | None, names: str) -> Claim:
    return Claim(reader, tuple(split(name) for name in names.split()), generation)


def names_by_reader(claims: list[Claim]) -> dict[Reader, str]:
    held: dict[Reader, list[str]] = {}
    for owned, reader in resolve_claims(claims, anything).items():
        held.setdefault(reader, []).append(f"{owned.topic}-{owned.partition}")
    return {reader: " ".join(names) for reader, names in sorted(held.items())}


@pytest.mark.parametrize(
    "claims, held",
    [
        pytest.param([], {}, id="nobody claims anything"),
        pytest.param(
            [claim("a", None, "t-0 t-1")], {"a": "t-0 t-1"}, id="no generation is enough where nobody has one"
        ),
        pytest.param(
            [claim("a", 2, "t-0 t-2"), claim("b", 2, "t-1"), claim("c", 1, "t-0 t-1 t-3")],
            {"a": "t-0 t-2", "b": "t-1", "c": "t-3"},
            id="stale generation: what nobody else claims stays",
        ),
        pytest.param(
            [claim("a", 1, "t-0 t-2"), claim("b", 1, "t-1"), claim("c", None, "t-0 t-1 t-3")],
            {"a": "t-0 t-2", "b": "t-1", "c": "t-3"},
            id="no generation loses against any",
        ),
        pytest.param(
            [claim("a", 0, "t-0"), claim("b", None, "t-0")],
            {"a": "t-0"},
            id="generation 0 is one, no generation is not",
        ),
        pytest.param(
            [claim("a", -5, "t-0"), claim("b", None, "t-0")], {"a": "t-0"}, id="none is lower than negative ones"
        ),
        pytest.param(
            [claim("a", 1, "t-0 t-2"), claim("b", 2, "t-1 t-2 t-3"), claim("c", 3, "t-2 t-4 t-5")],
            {"a": "t-0", "b": "t-1 t-3", "c": "t-2 t-4 t-5"},
            id="one split in three generations",
        ),
        pytest.param(
            [claim("a", 10, "t-0 t-1"), claim("b", 9, "t-1 t-2"), claim("c", 8, "t-2 t-0 t-3")],
            {"a": "t-0 t-1", "b": "t-2", "c": "t-3"},
            id="generations 10, 9 and 8",
        ),
        pytest.param(
            [claim("a", 1, "t-0 t-1"), claim("b", 1, "t-0 t-2"), claim("c", 1, "")],
            {"a": "t-1", "b": "t-2"},
            id="a double claim in one generation is nobody's",
        ),
        pytest.param(
            [claim("a", 2, "t-0"), claim("b", 2, "t-0"), claim("c", 1, "t-0")],
            {},
            id="a double claim does not fall to an earlier generation",
        ),
        pytest.param(
            [claim("a", 2, "t-0"), claim("b", 2, "t-0"), claim("c", 3, "t-0")],
            {"c": "t-0"},
            id="a later generation ends a double claim",
        ),
        pytest.param(
            [claim("a", 2, "t-0"), claim("b", 2, "t-0"), claim("a", 2, "t-0")], {}, id="claiming twice ends none"
        ),
        pytest.param([claim("a", 1, "t-0"), claim("b", 2, "t-0"), claim("a", 3, "t-0")], {"a": "t-0"}, id="its latest"),
        pytest.param([claim("a", 1, "t-0 t-0"), claim("a", 1, "t-0")], {"a": "t-0"}, id="with itself nobody conflicts"),
        pytest.param(
            [claim("a", None, "t-0"), claim("b", None, "t-0")], {}, id="two without a generation are a double claim"
        ),
    ],
)
def test_the_highest_generation_has_it(claims: list[Claim], held: dict[Reader, str]) -> None:
    assert names_by_reader(claims) == held
    assert names_by_reader(claims[::-1]) == held


def test_claims_without_right_are_removed_first() -> None:
    claims = [
        claim("gone", 9, "t-0 t-1"),
        claim("a", 2, "t-0 gone-0 forbidden-0"),
        claim("b", 1, "t-1 t-0 forbidden-0"),
    ]

    def may_own(reader: Reader, owned: SplitId) -> bool:
        return reader != "gone" and owned.topic != "gone" and (reader, owned.topic) != ("a", "forbidden")

    assert resolve_claims(claims, may_own) == {
        split("forbidden-0"): "b",
        split("t-0"): "a",
        split("t-1"): "b",
    }


def test_readers_may_be_numbers() -> None:
    claims = [Claim(0, (split("t-0"), split("t-1")), 1), Claim(1, (split("t-1"),), 2)]
    assert resolve_claims(claims, anything) == {split("t-0"): 0, split("t-1"): 1}


claims_of_few = st.lists(
    st.builds(
        Claim,
        st.sampled_from(["a", "b", "c", "d"]),
        st.lists(st.builds(SplitId, st.just(""), st.sampled_from("tu"), st.integers(0, 3)), max_size=6).map(tuple),
        st.none() | st.integers(-1, 3),
    ),
    max_size=8,
)


@given(claims_of_few, st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(claims: list[Claim], shuffle: random.Random) -> None:
    held = list(resolve_claims(claims, anything).items())
    assert held == sorted(held)
    shuffle.shuffle(claims)
    assert list(resolve_claims(claims, anything).items()) == held


@pytest.mark.lengthy
@given(claims_of_few, st.frozensets(st.sampled_from(["a", "b", "c", "d"])))
def test_it_is_the_definition(claims: list[Claim], gone: frozenset[str]) -> None:
    held = resolve_claims(claims, lambda reader, owned: reader not in gone)
    for owned in {owned for one in claims for owned in one.splits}:
        # None sorts before every number as (False, 0) does before (True, n).
        mine = [
            ((one.generation is not None, one.generation or 0), one.reader)
            for one in claims
            if owned in one.splits and one.reader not in gone
        ]
        latest = {reader for generation, reader in mine if generation == max(mine)[0]}
        assert held.get(owned) == (latest.pop() if len(latest) == 1 else None)


@pytest.mark.lengthy
def test_a_hundred_thousand_splits_are_quick() -> None:
    splits = [SplitId("", f"topic-{number % 100}", number // 100) for number in range(100_000)]
    claims = [Claim(f"m{reader}", tuple(splits[reader::500]), 7) for reader in range(500)]
    claims += [Claim(f"m{reader}", tuple(splits[reader::400]), 6) for reader in range(400)]
    began = time.process_time()
    held = resolve_claims(claims, anything)
    assert time.process_time() - began < 20
    assert len(held) == 100_000
    assert held[splits[499]] == "m499"
