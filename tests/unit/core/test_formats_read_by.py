"""Which version reads what: the promise as a table, and what earlier versions of the code have made of it.

`tools.old_formats` runs these versions and has written down what they do. Here that is compared with the promise, and
with what is written now: so it is evidence of today's code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from evensplit.core.state.codec import SIGNATURE, VERSION, encode
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules, simulate
from tools import old_formats
from tools.old_formats import EVIDENCE, GOES_ON, READ, VERSIONS, digest, offsets

TOLD: dict[str, dict[str, str]] = json.loads(EVIDENCE.read_text())["offsets"]

SEEDS = 40
UNKNOWN, DAMAGED = "CheckpointVersionUnknown", "CheckpointCorrupt"

ON = (READ, GOES_ON)
NO = (UNKNOWN,)
PROMISED: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    1: {"1": ON, "2": ON, "3": ON, "4": ON, "5": ON},
    2: {"1": NO, "2": ON, "3": ON, "4": ON, "5": ON},
    3: {"1": NO, "2": NO, "3": ON, "4": ON, "5": ON},
    4: {"1": NO, "2": NO, "3": NO, "4": ON, "5": ON},
    5: {"1": NO, "2": NO, "3": NO, "4": NO, "5": ON},
    6: {"1": NO, "2": NO, "3": NO, "4": NO, "5": NO},
}
"""Format of an offset -> the latest format that a version knows -> what it does: it goes on, or says that it cannot."""

GROWN = ("with readerOffsetsMin", "with valueSchema", "with the defaults of a query")
"""Offsets with what format 4 has had only since it was first written, before any version was released."""


@pytest.fixture(scope="module")
def documents() -> Mapping[str, Mapping[str, Any]]:
    return offsets()


def test_the_evidence_is_of_what_is_written_now(documents: Mapping[str, Mapping[str, Any]]) -> None:
    assert {name: one["sha256"] for name, one in TOLD.items()} == {
        name: digest(one) for name, one in documents.items()
    }, "run: python -m tools.old_formats"


def test_each_version_does_what_was_promised(documents: Mapping[str, Mapping[str, Any]]) -> None:
    for name, one in documents.items():
        for version, allowed in PROMISED[one[SIGNATURE]].items():
            assert TOLD[name][version] in allowed, (name, version)


def test_the_promise_is_about_every_format_and_every_version() -> None:
    assert sorted(PROMISED) == list(range(1, VERSION + 1))
    assert all(list(row) == [name for name in VERSIONS if name.isdigit()] for row in PROMISED.values())


def test_what_goes_on_here_and_has_nothing_of_format_5_goes_on_there(
    documents: Mapping[str, Mapping[str, Any]],
) -> None:
    """The way back: with a version that knows format 4, from what this one has made of any earlier checkpoint."""
    after = [name for name, one in documents.items() if name.startswith("after v") and one[SIGNATURE] == 4]
    assert len(after) > 10
    assert {TOLD[name]["4"] for name in after} == {GOES_ON}
    assert TOLD["with the defaults of a query"]["4"] == GOES_ON


def test_the_first_version_with_format_4_reads_it_as_it_was_then_and_refuses_what_came_later() -> None:
    """It never takes such an offset for another one."""
    for name, one in TOLD.items():
        if name in GROWN:
            assert one["4 at first"] == DAMAGED
        elif PROMISED[4]["4"] == ON and one["4"] in ON:
            assert one["4 at first"] == READ
        else:
            assert one["4 at first"] == UNKNOWN


def test_a_clone_without_the_history_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(old_formats, "has", lambda version: version != VERSIONS["3"])
    assert old_formats.main(["--check"]) == 2
    assert "does not have the versions that know formats 3" in capsys.readouterr().out


@pytest.mark.slow
def test_earlier_versions_do_what_is_written_down() -> None:
    """With the history of the repository. Without it, the tests above still compare what was written down."""
    lacking = [name for name, version in VERSIONS.items() if not old_formats.has(version)]
    if lacking:
        pytest.skip(f"a clone without the versions that know formats {', '.join(lacking)}: there is the evidence alone")
    assert old_formats.main(["--check"]) == 0


@pytest.mark.slow
def test_earlier_versions_do_as_promised_with_all_that_simulated_queries_write() -> None:
    """Hundreds of offsets of queries whose clusters lie, whose readers fail and whose drivers die, edited and not."""
    written: dict[str, dict[str, Any]] = {}

    def encoded(state: EnumeratorState) -> dict[str, Any]:
        found = encode(state)
        written[found["check"]] = found
        return found

    for seed in range(SEEDS):
        simulate(seed, 300, Rules(encode=encoded))
    formats = {one[SIGNATURE] for one in written.values()}
    assert formats == {4, 5, 6}
    assert len(written) > 500
    for name in ("4", "5"):
        if not old_formats.has(VERSIONS[name]):
            pytest.skip(f"a clone without the version that knows format {name}")
        found = old_formats.verdicts_of(VERSIONS[name], written)
        wrong = {check: one for check, one in found.items() if one not in PROMISED[written[check][SIGNATURE]][name]}
        assert wrong == {}
