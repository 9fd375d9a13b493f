"""When garbage is not collected."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from evensplit.garbage import uncollected


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_none_is_collected_until_the_block_ends_even_by_an_error() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyError

    with pytest.raises(KeyError), uncollected():
        fail()
    assert gc.isenabled()


def test_a_program_that_collects_none_stays_like_that() -> None:
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()


def test_one_block_inside_another() -> None:
    with uncollected():
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
