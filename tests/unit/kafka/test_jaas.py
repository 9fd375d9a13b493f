"""`sasl.jaas.config`: what is understood, and errors that say where and never what."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.kafka.options.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    "text, name, options",
    [
        (f'{PLAIN} required username="a" password="b";', PLAIN, {"username": "a", "password": "b"}),
        ("IAMLoginModule required;", "IAMLoginModule", {}),
        ("M REQUIRED a='x \"y\"';", "M", {"a": 'x "y"'}),
        ('M optional a="x;y=z // no comment" b=true c=5;', "M", {"a": "x;y=z // no comment", "b": "true", "c": "5"}),
        (r'M required a="q\"b\\c\tA\101\7";', "M", {"a": 'q"b\\c\tAA\x07'}),
        ('M/* who */required // how\n a = "x"\n;', "M", {"a": "x"}),
        ('M required a="";', "M", {"a": ""}),
        ("M required a=${env:NAME} b=${file:/run/a-b:key};", "M", {"a": "${env:NAME}", "b": "${file:/run/a-b:key}"}),
        ('M required "odd name"="x";', "M", {"odd name": "x"}),
    ],
)
def test_what_is_understood(text: str, name: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.name, dict(module.options)) == (name, options)
    assert module.simple_name == name.rpartition(".")[2]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "names no login module"),
        ("// nothing", "names no login module"),
        ("M", "at its end: expected one of required"),
        ("M username=x;", "at character 3: expected one of required"),
        ('"M" required;', "at character 1: expected the name of a login module's class"),
        ("M required", "at its end: expected a semicolon"),
        ('M required a="x"', "at its end: expected a semicolon"),
        ("M required a;", "at character 13: expected = after"),
        ("M required a", "at its end: expected = after"),
        ("M required a=;", "at character 14: expected a value"),
        ("M required =x;", "at character 12: expected the name of an option"),
        ('M required a="x" a="y";', "at character 18: the option is given twice"),
        ('M required a="hunter2;', "at character 14: a quoted text has no end"),
        ('M required a="hun"ter2";', "at character 23: a quoted text has no end"),
        ("M required a=hunter#2;", "at character 20: a character that has no place there"),
        ("M required; N required;", "at character 13: expected one login module"),
    ],
)
def test_what_is_not(text: str, said: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert said in str(caught.value)
    assert "hunter" not in str(caught.value)


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(one, one) for one in text) + '"'


@given(st.text(), st.text())
def test_every_name_and_password_comes_through(name: str, password: str) -> None:
    module = parse_jaas(f"{PLAIN} required username={quoted(name)} password={quoted(password)};")
    assert module.options == {"username": name, "password": password}


@given(st.text(max_size=30), st.integers(0, 120))
def test_a_form_that_is_wrong_never_shows_what_is_in_it(noise: str, at: int) -> None:
    whole = f'{PLAIN} required username="alice" password="SENTINEL";'
    broken = whole[:at] + noise + whole[at:]
    said = ""
    try:
        parse_jaas(broken)
    except JaasError as error:
        said = str(error)
    assert "SENTINEL" not in said
    assert "alice" not in said


@pytest.mark.parametrize("text", ['"' + "a" * 500_000 + '"', "a" * 500_000, "'" + r"\a" * 250_000 + "'"])
def test_memory_for_a_long_value_is_a_few_times_its_length(text: str) -> None:
    """Metadata may have one, and each character of it was remembered with what could be tried instead."""
    tracemalloc.start()
    try:
        assert parse_jaas(f"{PLAIN} required password={text};").options["password"]
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()
