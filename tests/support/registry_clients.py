"""Clients of schema registries in tests, with time that passes when they pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from evensplit.errors import RegistryError
from evensplit.kafka.deadline import Clock
from evensplit.registry.client import Registry
from evensplit.registry.settings import RegistrySettings
from tests.support.registry_server import FakeRegistry

SECRET = "hunter2"


class Skipping(Clock):
    """Real time, but for pauses, which are over at once. `pauses`: how long each of them was to be."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def now_s(self) -> float:
        return time.monotonic() + sum(self.pauses)

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)


def client(*fakes: FakeRegistry, timeout_ms: int = 20_000, clock: Clock | None = None, **values: str) -> Registry:
    """A client of these, in this order. `values`: settings, with `_` for each `.`."""
    given = {name.replace("_", "."): value for name, value in values.items()}
    urls = ",".join(fake.url for fake in fakes)
    return Registry(RegistrySettings.of({"url": urls, **given}, timeout_ms=timeout_ms), clock or Skipping())


def refusal(ask: Callable[[], Any], kind: type[RegistryError] = RegistryError) -> str:
    """What is said when it fails, which has to be with just this class, and without a secret."""
    with pytest.raises(RegistryError) as caught:
        ask()
    assert type(caught.value) is kind, caught.value
    assert SECRET not in repr(caught.value) + str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)
