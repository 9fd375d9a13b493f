"""What an append to the ledger makes of the brokers' answers."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.core.delivery.orders import Appended
from evensplit.core.delivery.terms import Decision, State
from evensplit.errors import BrokerError
from evensplit.kafka.produce import ledger as module
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
)
from tests.support.clients import settings

STEPS = ("add_partitions", "send", "end_one")
FENCED = (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING)


def append(monkeypatch: pytest.MonkeyPatch, failing: str, code: int) -> Appended:
    """Append a decision; `code` is the answer to the step that is `failing`."""

    def step(name: str) -> Any:
        def answer(*_: object, **__: object) -> Identity:
            if name == failing:
                raise BrokerError("east", f"{name} was refused", code)
            return Identity(7, 1)

        return answer

    monkeypatch.setattr(TransactionClient, "init", step("init"))
    monkeypatch.setattr(TransactionClient, "transaction_version", lambda *_: 1)
    monkeypatch.setattr(TransactionClient, "add_partitions", step("add_partitions"))
    monkeypatch.setattr(TransactionClient, "end_one", step("end_one"))
    monkeypatch.setattr(module, "send_entries", step("send"))
    monkeypatch.setattr(Ledger, "_count_partitions", lambda *_: None)
    monkeypatch.setattr(Ledger, "_read", lambda *_, **__: (None, 0))
    made = Ledger("east", settings("nowhere:1"), "ledger", "p")
    made.acquire("q")
    return made.append(Decision("q", 5, State.DECIDED, (), 1000))


@pytest.mark.parametrize("code", FENCED)
@pytest.mark.parametrize("failing", STEPS)
def test_who_is_fenced_has_not_appended(monkeypatch: pytest.MonkeyPatch, failing: str, code: int) -> None:
    """A refused end may be the second answer to it."""
    expected = Appended.UNCERTAIN if failing == "end_one" else Appended.NOT_THERE
    assert append(monkeypatch, failing, code) is expected


def test_commit_that_is_too_late_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """In transaction version 2, where the abort has raised the epoch."""
    assert append(monkeypatch, "end_one", INVALID_TXN_STATE) is Appended.UNCERTAIN


@pytest.mark.parametrize("failing", STEPS[:2])
def test_coordinator_that_is_confused_is_not_another_process(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    with pytest.raises(BrokerError, match=f"{failing} was refused"):
        append(monkeypatch, failing, INVALID_TXN_STATE)
