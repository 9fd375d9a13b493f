"""What is said of a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.loss_text import describe_loss, extent
from evensplit.core.model import Cause, HandedOut, Loss
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import changes, happened
from tests.support.enumeration import ONE


@pytest.mark.parametrize(
    "loss, said, size",
    [
        (Loss(ONE, Cause.RECREATED, 4), "deleted and created anew", "offsets from 4 on were lost is not known"),
        (Loss(ONE, Cause.DELETED, 4, 5, 1), "it was deleted", "At most 1 offset from 4 on"),
        (Loss(ONE, Cause.TRUNCATED, 4, 2), "ends at offset 2, before position 4", "is not known"),
        (Loss(ONE, Cause.AGED_OUT, 4, 9, 5), "begins at offset 9, after position 4", "At most 5 offsets from 4"),
        (
            Loss(ONE, Cause.OUT_OF_RANGE, 4, 9, 5),
            "start at offset 4.*begins at( offset)? 9",
            "At most 5 offsets from 4",
        ),
        (
            Loss(ONE, Cause.AGED_OUT, 4, 9, 5, HandedOut.BEFORE_RESTART),
            "begins at offset 9; offsets from 4 on were handed out before the restart, and whether they were read "
            "before they went is not known",
            "Up to 5 offsets from 4 on may be unread",
        ),
        (
            Loss(ONE, Cause.DELETED, 4, None, 1, HandedOut.EARLIER),
            "it was deleted; offsets from 4 on were handed out in an earlier batch, and whether they were read",
            "Up to 1 offset from 4 on may be unread",
        ),
    ],
    ids=lambda value: str(value.cause) if isinstance(value, Loss) else "",
)
def test_a_loss_says_what_happened_and_how_much(loss: Loss, said: str, size: str) -> None:
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(describe_loss(loss))
    assert size in extent(loss)


@pytest.mark.parametrize("handed_out, said", [(None, "lost"), *((one, "perhaps lost") for one in HandedOut)])
def test_what_may_have_been_read_is_only_perhaps_lost(handed_out: HandedOut | None, said: str) -> None:
    loss = Loss(ONE, Cause.AGED_OUT, 4, 9, 5, handed_out)
    sentence = f"{describe_loss(loss)}. {extent(loss)}"
    before = EnumeratorState()
    assert changes(before, replace(before, losses=(loss,))).sentences() == (f"{said} {ONE}: {sentence}",)
    assert happened(ONE, before, replace(before, losses=(loss,))) == (f"{said} records: {sentence}",)
