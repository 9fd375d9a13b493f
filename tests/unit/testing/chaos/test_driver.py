"""What our own job records of an error."""

from __future__ import annotations

from evensplit.testing.chaos.job.driver import ERROR_CHARACTERS_MAX, shortened


def test_an_error_is_kept_without_the_plans_that_follow_it() -> None:
    error = "It failed\nevensplit.errors.AuthenticationError: refused\n\n=== Streaming Query ===\nIdentifier: 1\nplan"
    assert shortened(error) == "It failed\nevensplit.errors.AuthenticationError: refused"


def test_a_long_error_has_its_beginning_and_its_end() -> None:
    error = "begin" + "x" * 2 * ERROR_CHARACTERS_MAX + "end"
    found = shortened(error)
    assert len(found) <= ERROR_CHARACTERS_MAX + 3
    assert found.startswith("begin")
    assert found.endswith("end")
