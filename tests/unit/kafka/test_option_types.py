"""The types of options: which texts are values, and of which."""

from __future__ import annotations

import re

import pytest

from evensplit.kafka.options.option import FLAG, Choice, Duration, Names, Regex, Text, ValueType, one_of

DURATION = Duration("nothing", negative=True)
OF_SPARK = Duration("nothing", spark=True)


@pytest.mark.parametrize(
    "kind, text, expected_ms",
    [
        (DURATION, "5s", 5_000),
        (DURATION, " 250 ms ", 250),
        (DURATION, "2m", 120_000),
        (DURATION, "2 Min", 120_000),
        (DURATION, "1.5h", 5_400_000),
        (DURATION, ".5s", 500),
        (DURATION, "7d", 604_800_000),
        (DURATION, "0.0001s", 1),
        (DURATION, "0", 0),
        (DURATION, "0s", 0),
        (DURATION, "0.0", 0),
        (DURATION, "-1", 0),
        (DURATION, "- 1.5", 0),
        (DURATION, "-5s", 0),
        (OF_SPARK, "5S", 5_000),
        (OF_SPARK, "100ms", 100),
        (OF_SPARK, "250us", 0),
        (OF_SPARK, "2500us", 2),
        (OF_SPARK, "750", 750),
        (OF_SPARK, "1.5 s", 1_500),
    ],
)
def test_durations(kind: Duration, text: str, expected_ms: int) -> None:
    assert kind.parse(text) == expected_ms


@pytest.mark.parametrize("kind", [DURATION, OF_SPARK], ids=["ours", "Spark's"])
@pytest.mark.parametrize(
    "text", ["", "1.5", "s", "1,5s", "5 weeks", "5sec", "1e3s", "²s", "--5s", "nans", "9" * 15 + "d", "9" * 16]
)
def test_a_duration_that_is_none(kind: Duration, text: str) -> None:
    with pytest.raises(ValueError):
        kind.parse(text)


def test_a_number_without_a_unit_is_shown_with_one() -> None:
    with pytest.raises(ValueError, match=re.escape("write 30s or 30ms")):
        DURATION.parse("30")


@pytest.mark.parametrize(
    "value_ms, text", [(0, "0"), (1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (3_600_000, "1h"), (172_800_000, "2d")]
)
def test_a_duration_is_written_in_the_largest_unit_that_is_whole(value_ms: int, text: str) -> None:
    assert DURATION.written(value_ms) == text
    assert DURATION.parse(text) == value_ms


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (FLAG, " TRUE ", True),
        (FLAG, False, False),
        (one_of("on-rescale", "never"), "On-Rescale", "on-rescale"),
        (Names("ids"), " b, a,,b ", ("a", "b")),
        (Regex(), "^eu-.*", "^eu-.*"),
        (Text(), " a b ", "a b"),
    ],
)
def test_other_values(kind: ValueType, text: object, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    "kind, text, reason",
    [
        (one_of("whole", "level", "owners"), "lvl", "did you mean level?"),
        (one_of("whole", "level", "owners"), "xxx", ""),
        (FLAG, "1", ""),
        (Regex(), "", "it is empty"),
        (Regex(), 5, "it is not text"),
        (Regex(), "(", "missing ), unterminated subpattern at position 0"),
        (Regex(), "[[a]]", "Possible nested set at position 1"),
        (Regex(), r"\p{Alpha}", r"bad escape \p at position 0; Java's classes \p{…} are not in it"),
    ],
)
def test_why_a_value_is_wrong(kind: ValueType, text: object, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        kind.parse(text)


def test_two_words_are_expected_with_or_and_more_as_a_list() -> None:
    assert FLAG.expected == "true or false"
    assert Choice({"a": 1, "b": 2, "c": 3}).expected == "one of a, b, c"
