"""What the driver's side prepares, and when it does so again."""

from __future__ import annotations

import pytest

from evensplit.spark.sink import clients
from evensplit.spark.sink.options import parse_writing
from tests.support.written import struct_type


class FakeLedger:
    """Is created by `prepare`, which counts."""

    def __init__(self) -> None:
        self.there = False
        self.prepared = 0

    def exists(self) -> bool:
        return self.there

    def prepare(self, _: int) -> None:
        self.there = True
        self.prepared += 1


def test_a_ledger_is_prepared_once_and_again_if_it_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = FakeLedger()
    monkeypatch.setattr(clients, "ledger_of", lambda _: ledger)
    given = {"kafka.bootstrap.servers": "nowhere.invalid:1", "topic": "t", "ledger": "prepared-again"}
    options = parse_writing(given, struct_type("value string"), stream=True)
    for _ in range(3):
        clients.prepare(options)
    assert ledger.prepared == 1
    ledger.there = False
    for _ in range(3):
        clients.prepare(options)
    assert ledger.prepared == 2
