"""One broker for all tests that need a real one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from evensplit.testing import LocalKafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"
