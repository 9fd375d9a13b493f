"""What is noted of a delivery while it is done."""

from __future__ import annotations

import pytest

from evensplit.core.delivery.account import Account
from evensplit.core.delivery.outcomes import Committed, Finished, GivenUp
from evensplit.core.delivery.protocol import abort, commit
from evensplit.core.delivery.terms import Decision
from tests.unit.core.test_delivery_protocol import DECIDED, EARLIER, OFFERED, ONE, OTHER, SKIPPED, STRAY, TWO, World


@pytest.mark.parametrize("last", [None, EARLIER, OTHER])
def test_a_batch_is_decided_now_if_it_was_not_before(last: Decision | None) -> None:
    account = Account()
    assert World(last).run(account.noting(commit(OFFERED))) == Committed(DECIDED)
    assert account.decided
    assert list(account.committed) == [ONE, TWO]


def test_a_batch_that_is_given_up_is_not_decided() -> None:
    account = Account()
    assert World().run(account.noting(abort(OFFERED))) == GivenUp()
    assert not account.decided
    assert list(account.aborted) == [ONE, TWO]


def test_giving_up_what_is_left_open_beside_a_decided_batch_does_not_decide_it_again() -> None:
    account = Account()
    assert World(DECIDED, listed=(STRAY,)).run(account.noting(commit(SKIPPED))) == Finished(DECIDED)
    assert not account.decided
    assert list(account.committed) == [ONE, TWO]
    assert list(account.aborted) == [STRAY]
