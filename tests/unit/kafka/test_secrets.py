"""Secrets and the placeholders that stand for them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.kafka.options.local_access import EVERYTHING, NOTHING
from evensplit.kafka.options.secrets import (
    FILE_BYTES_MAX,
    Secret,
    SecretError,
    has_placeholder,
    is_placeholder,
    parse_properties,
    placeholder_problems,
    placeholders,
    read_file,
    resolve,
)


@given(st.text(min_size=4))
def test_a_secret_is_a_value_that_nobody_sees(text: str) -> None:
    secret = Secret(text)
    assert repr(secret) == str(secret) == f"{secret}" == "Secret(***)"
    assert secret.reveal() == text
    assert secret == pickle.loads(pickle.dumps(secret))
    assert hash(secret) == hash(Secret(text))
    assert secret != Secret(text + "x")
    assert secret != text


def test_placeholders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "${env:OTHER}")
    file = tmp_path / "secret"
    file.write_text("a b\r\n")
    properties = tmp_path / "secrets.properties"
    properties.write_text("user=alice\npass\\ word : 100\\u00a5\n")
    assert resolve("<${env:PASSWORD}>", EVERYTHING) == "<${env:OTHER}>"
    assert resolve(f"${{file:{file}}}", EVERYTHING) == "a b"
    assert resolve(f"${{file:{properties}:user}}/${{file:{properties}:pass word}}", EVERYTHING) == "alice/100¥"
    assert resolve("$HOME {x} ${} $${", EVERYTHING) == "$HOME {x} ${} $${"
    assert [has_placeholder(text) for text in ("${env:A}", "x${file:/a}y", "$env:A", "${env}")] == [
        True,
        True,
        False,
        False,
    ]
    assert [is_placeholder(text) for text in (" ${env:A} ", "x${env:A}", "${env:A}${env:B}")] == [True, False, False]


@pytest.mark.parametrize(
    "text, said",
    [
        ("${env:EVENSPLIT_NOT_THERE}", "the environment variable 'EVENSPLIT_NOT_THERE' is not set"),
        ("${env:=}", "the environment variable '=' is not set"),
        ("${file:/no/such/file}", "the file '/no/such/file' cannot be read here: No such file"),
        ("${file:/no/such/file:key}", "the file '/no/such/file' cannot be read here"),
        ("${file:/tmp}", "the file '/tmp' cannot be read here: Is a directory"),
        ("${file:a\0b}", "cannot be read here"),
    ],
)
def test_what_is_not_there_is_named(text: str, said: str) -> None:
    with pytest.raises(SecretError) as caught:
        resolve(f"SENTINEL{text}", EVERYTHING)
    assert said in str(caught.value)
    assert "SENTINEL" not in str(caught.value)


def test_files_that_cannot_be_what_they_should(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("password=SENTINEL")
    with pytest.raises(SecretError, match="has no property 'passwort'") as caught:
        resolve(f"${{file:{file}:passwort}}", EVERYTHING)
    assert "SENTINEL" not in str(caught.value)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SecretError, match="is no text in UTF-8"):
        resolve(f"${{file:{file}}}", EVERYTHING)
    file.write_bytes(bytes(FILE_BYTES_MAX + 1))
    with pytest.raises(SecretError, match="more than"):
        read_file(str(file), EVERYTHING)


@pytest.mark.parametrize("text", ["${vault:secret/kafka:password}", "${directory:/run:x}", "${env:}", "${file::}"])
def test_placeholders_that_cannot_be_resolved_are_told_at_once(text: str) -> None:
    (problem,) = placeholder_problems(text)
    assert "expected ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}" in problem
    assert "kafka" not in problem


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [300_000 * "${a:", 300_000 * "${a", "}" + 300_000 * "${a:", "${a:" + 900_000 * "}"])
def test_a_long_text_is_looked_through_once(text: str) -> None:
    """Each beginning of a placeholder that has no end was followed to the end of the text: minutes, for metadata."""
    assert has_placeholder(text) == text.endswith("}}")
    assert len(list(placeholders(text))) == len(list(placeholder_problems(text))) == text.endswith("}}")
    if not has_placeholder(text):
        assert resolve(text, NOTHING) == text


def test_properties_as_java_reads_them() -> None:
    text = "# no\n ! no\n\na=1\nb : 2\nc 3\nd\ne\\=f=4\\\n   5\ng=\\t\\u0041\\\\\nh==\na=6\ni=x\\\\\nj=end\\"
    expected = {"a": "6", "b": "2", "c": "3", "d": "", "e=f": "45", "g": "\tA\\", "h": "=", "i": "x\\", "j": "end"}
    assert parse_properties(text) == expected


def test_escaped_characters_of_two_halves(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("whole=a\\ud83d\\ude00\\u00e4\\ufeff\nhalf=SENTINEL\\ud83d\n\\ud83d\\ude00=key\n")
    assert resolve(f"${{file:{file}:whole}}", EVERYTHING) == "a\U0001f600ä\ufeff"
    assert resolve(f"${{file:{file}:\U0001f600}}", EVERYTHING) == "key"
    with pytest.raises(SecretError, match=r"the property 'half' of the file .* has the half of a character") as caught:
        resolve(f"${{file:{file}:half}}", EVERYTHING)
    assert "SENTINEL" not in str(caught.value)


@given(st.text())
def test_any_text_is_some_properties(text: str) -> None:
    parse_properties(text)
