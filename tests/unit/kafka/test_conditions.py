"""Which records become rows: what is said of one for which the condition is an error, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit._kernel import KernelError
from evensplit.core.model import SplitId
from evensplit.errors import ConditionFailed
from evensplit.kafka.fetch.problems import refused_by_kernel
from evensplit.typed.decoding import Decodings, RowFilter
from evensplit.typed.where.compiler import compile_condition
from evensplit.typed.where.condition import Condition
from tests.support.decoded import frame_of
from tests.support.where import TEXTS, all_types, decodings, rows_of

DOCUMENTS = [b'{"i": 2}', b"", b'{"i": 0}', b'{"i": 8}']


def test_a_record_for_which_it_is_an_error_is_named() -> None:
    of = decodings("i INT")
    where = compile_condition("10 DIV value.i > 1", all_types(of))
    frame = frame_of(DOCUMENTS)
    with pytest.raises(KernelError) as caught:
        rows_of(frame, ("offset",), of._replace(where=RowFilter.of(where, of.key, of.value)))
    with pytest.raises(
        ConditionFailed, match=r"offset 2: its condition \(where\) cannot be evaluated: a division by"
    ) as said:
        raise refused_by_kernel(SplitId("east", "t", 3), 0, frame, 0, caught.value, 1000)
    assert said.value.offset == 2


def filtered(text: str) -> Decodings:
    return TEXTS._replace(where=RowFilter.of(compile_condition(text, all_types(TEXTS)), TEXTS.key, TEXTS.value))


def test_texts_and_bytes_are_compared_as_they_are() -> None:
    frame = frame_of([b"a", None, b"b", b"\xff"])
    for text, expected in (
        ("key = 'b'", [2]),
        ("value > 'a'", [2, 3]),
        ("value IS NULL", [1]),
        ("value LIKE '_' AND key <> 'a'", [2, 3]),
        ("topic = 'orders' AND partition = 3 AND cluster = 'east' AND offset < 2", [0, 1]),
    ):
        (rows,), builder = rows_of(frame, ("offset",), filtered(text))
        assert rows.column(0).to_pylist() == expected
        assert builder.filtered == 4 - len(expected)


def test_what_is_no_condition_is_refused() -> None:
    deep: Any = ("boolean", True)
    for _ in range(200):
        deep = ("not", deep)
    for tree, expected in ((("nope",), 'no expression "nope"'), (deep, "nested in more than 100 levels")):
        where = Condition(text="", tree=tree, key=None, value=None, columns=frozenset())
        with pytest.raises(ValueError, match=expected):
            rows_of(frame_of([b"a"]), ("offset",), TEXTS._replace(where=RowFilter(where, None, None)))
