"""What travels beside the state in Spark's progress events."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.codec import SIGNATURE
from evensplit.core.state.observation import Report, decode_report, encode_report
from tests.support.offset_states import through_json

ORDERS = SplitId("east", "orders", 0)

FULL = Report(
    {ORDERS: 130, SplitId("east", "orders", 10): 98, SplitId("east", "orders", 2): 0},
    {"west": "refused", "north": "no answer"},
    notices=("topic 'clicks' does not exist",),
    left_out=("north",),
    unreachable_since_ms={"west": 1_700_000_000_000},
)


@pytest.mark.parametrize("report", [Report(), FULL, Report({ORDERS: 1}), Report(left_out=("a",))])
def test_there_and_back(report: Report) -> None:
    assert decode_report(through_json(encode_report(report))) == report


def test_what_is_empty_is_left_out_and_the_rest_is_in_order() -> None:
    assert encode_report(Report()) == {SIGNATURE: 2}
    document = encode_report(FULL)
    assert list(document) == [SIGNATURE, "latest", "unreachable", "unreachableSinceMs", "notices", "leftOut"]
    assert list(document["latest"]["east"]["orders"]) == ["0", "2", "10"]
    assert list(document["unreachable"]) == ["north", "west"]


def test_version_1_is_read() -> None:
    document = {SIGNATURE: 1, "latest": {"east": {"orders": {"0": 130}}}, "unreachable": {"west": "refused"}}
    assert decode_report(document) == Report({ORDERS: 130}, {"west": "refused"})
    assert decode_report({SIGNATURE: 1, "latest": {}}) == Report()


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"orders": {"0": 5}},
        {SIGNATURE: 1},
        {SIGNATURE: 0, "latest": {}},
        {SIGNATURE: 3},
        {SIGNATURE: True},
        {SIGNATURE: {"0": 5}},
        {SIGNATURE: 2, "latest": 7},
        {SIGNATURE: 2, "latest": {"east": {"orders": [1]}}},
        {SIGNATURE: 2, "latest": {"east": {"orders": {"x": 1}}}},
        {SIGNATURE: 2, "latest": {"east": {"orders": {"0": -1}}}},
        {SIGNATURE: 2, "notices": 7},
        {SIGNATURE: 2, "unreachableSinceMs": {"west": None}},
    ],
)
def test_what_is_no_report_or_damaged_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        decode_report(document)
