"""The names of Kafka's error codes, and after which another attempt may succeed."""

from __future__ import annotations

from typing import Any

from kafka import errors

from evensplit.kafka.wire import error_codes
from evensplit.kafka.wire.error_codes import error_name, is_retriable

THEIRS: dict[int, Any] = {code: kind for code, kind in errors.kafka_errors.items() if code is not None}


def test_all_codes_are_as_kafka_python_has_them() -> None:
    assert len(THEIRS) > 100
    codes = range(min(THEIRS) - 2, max(THEIRS) + 2)
    expected = {code: errors.for_code(code) for code in codes}
    assert {code: error_name(code) for code in codes} == {code: one.message for code, one in expected.items()}
    assert {code: is_retriable(code) for code in codes} == {code: one.retriable for code, one in expected.items()}


def test_the_constants_are_the_codes_with_these_names() -> None:
    constants = {name: code for name, code in vars(error_codes).items() if isinstance(code, int)}
    # Kafka's own names, which differ from kafka-python's for three of them.
    named = {
        "UNKNOWN_SERVER_ERROR": "UNKNOWN",
        "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
        "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
    }
    assert {name: error_name(code) for name, code in constants.items()} == {
        name: named.get(name, name) for name in constants
    }
