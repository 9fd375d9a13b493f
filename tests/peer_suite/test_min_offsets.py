"""`minOffsetsPerTrigger` and `maxTriggerDelay`, alone and with `maxOffsetsPerTrigger`; the clock is moved by hand."""

from __future__ import annotations

import pytest

from evensplit.testing import LocalKafka
from tests.support.by_hand import ByHand
from tests.support.records import spread

pytestmark = pytest.mark.kafka


def test_a_batch_waits_for_enough_offsets_or_for_the_delay(east: LocalKafka, topic: str) -> None:
    """Scenario 2. The first batch never waits."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(100, 110), 1: range(10, 15), 2: [1]})
    options = {"minOffsetsPerTrigger": 15, "maxTriggerDelay": "5s"}
    with ByHand(east, subscribe=topic, startingOffsets="earliest", **options) as query:
        assert query.batch() == [1, *range(10, 15), *range(100, 110)]
        spread(east.bootstrap_servers, topic, {1: range(15, 21)})
        assert query.batch() is None
        assert query.batch() is None
        spread(east.bootstrap_servers, topic, {0: range(110, 121), 2: [2]})
        assert query.batch() == [2, *range(15, 21), *range(110, 121)]
        spread(east.bootstrap_servers, topic, {0: range(121, 126), 1: range(21, 26)})
        assert query.batch() is None
        query.wait(4)
        assert query.batch() is None
        query.wait(1)
        assert query.batch() == [*range(21, 26), *range(121, 126)]
        query.wait(100)
        assert query.batch() is None


def test_a_batch_waits_and_is_limited(east: LocalKafka, topic: str) -> None:
    """Scenario 3."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(100, 121), 1: range(10, 21), 2: [1]})
    options = {"minOffsetsPerTrigger": 15, "maxOffsetsPerTrigger": 20, "maxTriggerDelay": "5s"}
    with ByHand(east, subscribe=topic, startingOffsets="earliest", **options) as query:
        assert query.batch() == [1, *range(10, 16), *range(100, 112)]
        # Fourteen are left.
        assert query.batch() is None
        spread(east.bootstrap_servers, topic, {0: range(121, 129), 1: range(21, 31), 2: [2]})
        assert query.batch() == [2, *range(16, 25), *range(112, 122)]
        # Thirteen.
        assert query.batch() is None
        query.wait(5)
        assert query.batch() == [*range(25, 31), *range(122, 129)]
        query.wait(5)
        assert query.batch() is None
