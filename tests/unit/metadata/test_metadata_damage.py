"""Metadata documents that do not parse, are cut off or far too large: an error with its line, never half an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evensplit.errors import MetadataError
from evensplit.metadata import Metadata, parse_document, yaml_nodes
from evensplit.metadata.document import Format
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from tests.support.metadata_answers import FLINK, SECRET, parse, problems


@pytest.mark.parametrize(
    "text",
    [
        f"- streamId: {SECRET}\n  x: *{SECRET}\n",
        f"- password: !{SECRET}!x y\n",
        f"- password: '{SECRET}\n",
        f'- password: "{SECRET}\\q"\n',
        f"- password: @{SECRET}\n",
        f"- {SECRET}\n- : : {SECRET}\n",
        f"- password: {SECRET}\x00\n",
    ],
)
@pytest.mark.parametrize("loader", [yaml_nodes._LOADER, yaml.SafeLoader])
def test_what_does_not_parse_shows_nothing_of_itself(text: str, loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "_LOADER", loader)
    assert len(problems(text)) == 1


@pytest.mark.parametrize(
    "text, line, expected",
    [
        ("", 0, "it is empty"),
        ("[{", 1, "expected a name in double quotes, found its end, as in a document that is being written"),
        ('[\n{"a": hunter2}]', 2, "expected a value, found something else"),
        ("[1,]", 1, "expected a value, found something else"),
        ("[1\n2]", 2, "expected a comma or ], found something else"),
        ('{"a" 1}', 1, "expected a colon, found something else"),
        ("[] []", 1, "expected the end, found something else"),
        ('["hunter2', 1, "a text has no end, as in a document that is being written"),
        ('["hunter2\\q"]', 1, "a text has a line break, or an escape that there is not"),
        ('["hunter2\n"]', 1, "a text has a line break, or an escape that there is not"),
        ('["\\ud800"]', 1, "a text has half of a surrogate pair, which is no character"),
        ("[NaN]", 1, "expected a value, found something else"),
        ("[01]", 1, "expected a value, found something else"),
        ("[" * 100_000, 1, "lists and mappings are more than 16 deep in each other"),
    ],
)
def test_json_that_does_not_parse(text: str, line: int, expected: str) -> None:
    (found,) = problems(text, "json")
    assert found.startswith(f"line {line}: " if line else "it is")
    assert expected in found


def test_json_is_strict_about_types() -> None:
    cluster = {"clusterId": 1, "bootstrapServers": True, "topics": [2024], "startingOffsets": 5}
    found = problems(json.dumps([{"streamId": "s", "clusterMetadataList": [cluster]}]), "json")
    assert [one.rpartition(", found ")[2] for one in found] == ["true or false", "a number", "a number", "a number"]


def test_a_name_twice_in_json() -> None:
    assert problems('[{"streamId": "s", "clusterMetadataList": [],\n"streamId": "s"}]', "json") == (
        "line 2, [0]: expected each name once, found 'streamId' again, after line 1",
    )


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_bytes_that_are_no_text_and_too_many_bytes(form: Format) -> None:
    with pytest.raises(MetadataError, match=r"fleet: line 2: byte 3 is not UTF-8"):
        parse_document(b"[\n \xff]", "fleet", form)
    with pytest.raises(MetadataError, match=r"fleet: it has more than 16777216 bytes"):
        parse_document(b" " * DOCUMENT_BYTES_MAX + b"[]", "fleet", form)
    assert parse_document(b"\xef\xbb\xbf[]", "fleet", form) == Metadata(())


def test_a_few_aliases_that_stand_for_very_much() -> None:
    lines = ["- &a0 [t, t, t, t, t, t, t, t, t, t]"]
    lines += [f"- &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 10)]
    assert problems("\n".join(lines) + "\n") == (
        "line 6: there are more than 1000000 values in it, with aliases taken out",
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_very_many_values(form: Format) -> None:
    assert problems("[" + "1," * 1_000_000 + "1]", form) == (
        "line 1: there are more than 1000000 values in it, with aliases taken out",
    )


def parses(data: bytes, form: Format) -> Metadata | None:
    try:
        return parse_document(data, "fleet", form)
    except MetadataError:
        return None


def test_a_document_cut_anywhere_names_nothing_that_the_whole_does_not() -> None:
    whole = FLINK.encode()
    full = {(one.id, topic) for stream in parse(FLINK).streams for one in stream.clusters for topic in one.topics}
    answers = [parses(whole[:end], "yaml") for end in range(len(whole))]
    assert sum(answer is None for answer in answers) > 0.9 * len(whole)
    for answer in answers:
        if answer is not None:
            assert {
                (one.id, topic) for stream in answer.streams for one in stream.clusters for topic in one.topics
            } <= full


def test_json_cut_anywhere_is_an_error() -> None:
    whole = json.dumps(yaml.safe_load(FLINK)).encode()
    assert all(parses(whole[:end], "json") is None for end in range(len(whole)))


PIECES = [
    "- ", "[", "]", "{", "}", ": ", ", ", "\n", "  ", "'", '"', "&a ", "*a", "!x ", "? ", "|", "streamId", "s", "\\",
    "clusterMetadataList", "bootstrapServers", "topics", "b:1", "t", "null", "1", "---\n", "...\n", "#", "\t", "%",
]  # fmt: skip
DOCUMENTS = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(str.encode),
    st.lists(st.sampled_from(PIECES), max_size=60).map(lambda pieces: "".join(pieces).encode()),
    st.tuples(st.integers(0, len(FLINK)), st.integers(0, len(FLINK)), st.binary(max_size=3)).map(
        lambda cut: FLINK.encode()[: cut[0]] + cut[2] + FLINK.encode()[cut[1] :]
    ),
)


@given(DOCUMENTS, st.sampled_from(["yaml", "json"]), st.booleans())
@example(b'"\\UFFFFFFFF"', "yaml", True)
@example(b"%YAML " + b"9" * 5000 + b".1\n--- []\n", "yaml", True)
def test_any_bytes_are_an_answer_or_an_error(data: bytes, form: Format, pure: bool) -> None:
    loader = yaml_nodes._LOADER
    try:
        yaml_nodes._LOADER = yaml.SafeLoader if pure else loader
        parses(data, form)
    finally:
        yaml_nodes._LOADER = loader


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_json_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    """Through the offsets, which are any mappings of texts and whole numbers."""
    data = json.dumps([{"streamId": "s", "clusterMetadataList": [], "startingOffsets": {"x": value}}]).encode()
    if is_offsets(value):
        (stream,) = parse_document(data, "fleet", "json").streams
        assert stream.starting_offsets == {"x": value}
    else:
        assert parses(data, "json") is None


def is_offsets(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_offsets(one) for one in value.values())
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**19)
