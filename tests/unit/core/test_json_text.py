"""JSON that others have written: nested without end, or with numbers that are none, at every place that reads it."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit.checkpoint.history import query_id_of
from evensplit.cli.assign.cases import read_cases
from evensplit.cli.group import evensplit
from evensplit.core.json_text import DEPTH_MAX, parse_json
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CaseError, CheckpointCorrupt, EvenSplitError, MetadataError
from evensplit.kafka.auth.oauth import _answer, _life_s
from evensplit.metadata import ClusterMetadata, Metadata, Stream, parse_document, select
from evensplit.spark.listen.progress import batch_progress
from tests.support.options import problems_of

DEEP = "[" * 100_000 + "]" * 100_000
OPEN = '{"a":' * 100_000
DIGITS = "1" + "0" * 5_000
MIDDLING = "[" * 900 + "]" * 900
"""Shallow enough for Python's own reader, and too deep for its writer a few calls further in."""


def nested(levels: int) -> str:
    return '{"a":' * (levels - 1) + "[]" + "}" * (levels - 1)


def test_what_is_read() -> None:
    assert parse_json('{"a": [1, 2.5, null, true, "x"]}') == {"a": [1, 2.5, None, True, "x"]}
    assert parse_json(b"[]") == []
    assert parse_json("7") == 7
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}
    assert parse_json(nested(DEPTH_MAX)) == json.loads(nested(DEPTH_MAX))
    assert parse_json("[Infinity]") == [math.inf]
    pairs: list[object] = []
    assert parse_json('{"a": 1, "a": 2}', object_pairs_hook=pairs.append) is None
    assert pairs == [[("a", 1), ("a", 2)]]


@pytest.mark.parametrize(
    "text, said",
    [
        (DEEP, "more than 100 deep in each other"),
        (OPEN, "more than 100 deep in each other"),
        (MIDDLING, "more than 100 deep in each other"),
        (nested(DEPTH_MAX + 1), "more than 100 deep in each other"),
        (DIGITS, "a number in it has more digits than can be read"),
        ("[NaN]", "NaN is no number of JSON"),
        ("[-Infinity]", "-Infinity is no number of JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' stands twice in one object"),
        ("", "Expecting value"),
        (b"\xff", "can't decode"),
    ],
)
def test_what_is_refused_and_why(text: str | bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_json(text, strict=True)
    assert not isinstance(caught.value, RecursionError)


def test_a_name_that_stands_twice_is_found_in_one_pass() -> None:
    """A service may write a document in which it takes hours to count each name."""
    names = "".join(f'"{number}": 1, ' for number in range(50_000))
    begun_s = time.process_time()
    with pytest.raises(ValueError, match="'49999' stands twice"):
        parse_json(f'{{{names}"49999": 1}}', strict=True)
    assert time.process_time() - begun_s < 5
    long = "x" * 1_000_000
    with pytest.raises(ValueError, match="stands twice") as caught:
        parse_json(f'{{"{long}": 1, "{long}": 1}}', strict=True)
    assert len(str(caught.value)) < 1_000


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    def made(offset: str) -> Path:
        for name in ("offsets", "commits"):
            (tmp_path / name).mkdir()
        (tmp_path / "metadata").write_text('{"id":"x"}')
        (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{offset}")
        return tmp_path

    return made


@pytest.mark.parametrize("inner", [DEEP, MIDDLING, DIGITS])
def test_an_offset_file_is_damaged_by_it(inner: str, checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    made = checkpoint(f'{{"evensplit":3,"a":{inner}}}')
    target = tmp_path / "target"
    for arguments in (
        ["inspect", str(made)],
        ["offsets", str(made)],
        ["plan", str(made), "--readers", "2"],
        ["top", str(made), "--once"],
        ["report", str(made), "-o", str(tmp_path / "page.html")],
        ["why", str(made), "t/0"],
        ["migrate", str(made), str(target), "--to", "kafka"],
    ):
        result = CliRunner().invoke(evensplit, arguments)
        assert "ES-401" in result.output, (arguments, result.output)
        assert "offsets/0" in "".join(result.output.split()), arguments
        assert len(result.output) < 2_000


def test_what_is_no_offset_of_ours_is_passed_over(checkpoint: Callable[[str], Path]) -> None:
    made = checkpoint(DEEP)
    result = CliRunner().invoke(evensplit, ["inspect", str(made)])
    assert "no source of this package" in " ".join(result.output.split())
    (made / "metadata").write_text(DEEP)
    assert query_id_of(made) == ""


def test_an_offset_that_spark_hands_over() -> None:
    inner: object = []
    for _ in range(100_000):
        inner = [inner]
    document = {**encode(EnumeratorState()), "pins": inner}
    with pytest.raises(CheckpointCorrupt, match="nested too deeply"):
        decode(document)
    with pytest.raises(EvenSplitError):
        decode(inner)
    found: list[Exception] = []
    for offset in (f'{{"evensplit":4,"pins":{DEEP}}}', document, DEEP):
        source = {"endOffset": offset, "startOffset": None, "latestOffset": offset}
        assert not list(batch_progress({"sources": [source]}, lambda _, error: found.append(error)))
    assert len(found) == 2


def test_metadata_documents() -> None:
    for text, form in (
        (DEEP, "json"),
        (OPEN, "json"),
        (DEEP, "yaml"),
        ('{"a": ' * 100_000, "yaml"),
        ("- " * 9_000, "yaml"),
    ):
        with pytest.raises(MetadataError, match="deep in each other"):
            parse_document(text.encode(), "fleet", form)  # type: ignore[arg-type]
    for value in (DIGITS, "NaN"):
        with pytest.raises(MetadataError):
            parse_document(f'[{{"streamId": {value}}}]'.encode(), "fleet", "json")


def test_offsets_in_metadata_that_are_json_in_a_text() -> None:
    clusters = [ClusterMetadata("c", ("b:1",), ("t",), starting_offsets=text) for text in (OPEN, '{"t": "latest"}')]
    streams = tuple(Stream(str(number), (one,)) for number, one in enumerate(clusters))
    with pytest.raises(MetadataError, match="starting offsets"):
        select(Metadata(streams), None, None)


@pytest.mark.parametrize("text, said", [(OPEN, "deep in each other"), ('{"a": NaN}', "NaN is no number")])
def test_options(text: str, said: str) -> None:
    one = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    for options in (
        {"clusters": text},
        {**one, "pin": text},
        {**one, "startingOffsets": text},
        {**one, "endingOffsetsByTimestamp": text},
        {"kafka.bootstrap.servers": "b:1", "assign": text},
    ):
        assert any(said in problem for problem in problems_of(options)), options


def test_options_within_options_are_not_deeper(checkpoint: Callable[[str], Path]) -> None:
    (problem,) = problems_of({"clusters": f'{{"east": {MIDDLING}}}'})
    assert "deep in each other" in problem


@pytest.mark.parametrize("text", [DEEP, OPEN, MIDDLING, f'{{"readers": {DIGITS}}}', '{"readers": NaN}'])
def test_cases(text: str) -> None:
    with pytest.raises(CaseError) as caught:
        read_cases(text, "cases.json")
    assert len(str(caught.value)) < 300


def test_answers_of_a_token_endpoint() -> None:
    for text in (DEEP, OPEN, DIGITS, f'{{"access_token": {MIDDLING}}}'):
        assert _answer(text.encode()) == {}
    claims = base64.urlsafe_b64encode(f'{{"exp": {DEEP}}}'.encode()).decode()
    assert _life_s(f"a.{claims}.b") == 0.0
