"""`sasl.jaas.config`: one login module and its options, in the form `Class required name="value" ...;`.

Tokens are those of Java's StreamTokenizer as Kafka sets it up: words, texts in double or single quotes with escapes,
and comments. Unlike there, a number need not be quoted.

Source: `JaasConfig` and `JaasContext` of Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_FLAGS = ("required", "requisite", "sufficient", "optional")
_FORM = 'LoginModuleClass required name="value" ...;'
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\n\r]*|/\*.*?\*/)
    |(?P<word>(?:\$\{[^}"'=;]*\}|[A-Za-z0-9_$.\-\u00a0-\uffff])++)
    |(?P<text>"(?:\\.|[^"\\\n\r]++)*+"|'(?:\\.|[^'\\\n\r]++)*+')
    |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)


class JaasError(Exception):
    """The text has another form. The message says at which character, counted from 1, and never shows the text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: the name of its class, and its options, whose values may be secrets."""

    name: str
    options: Mapping[str, str]

    @property
    def simple_name(self) -> str:
        """The name without the package."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.simple_name!r})"


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_jaas(text: str) -> LoginModule:
    """Parse the one login module in `text`.

    Raises:
        JaasError: there is none, there are several, or the form is another one.
    """
    tokens = list(_tokens(text))
    if not tokens:
        raise JaasError(f"names no login module; expected {_FORM}")
    end = _Token("end", "", len(text))
    module, flag = tokens[0], (tokens[1] if len(tokens) > 1 else end)
    if module.kind != "word":
        raise JaasError(f"{_at(module)}: expected the name of a login module's class, as in {_FORM}")
    if flag.text.lower() not in _FLAGS:
        raise JaasError(f"{_at(flag)}: expected one of {', '.join(_FLAGS)}, as in {_FORM}")
    options: dict[str, str] = {}
    place = 2
    while (key := tokens[place] if place < len(tokens) else end).text != ";" or key.kind != "sign":
        if key.kind == "end":
            raise JaasError(f"{_at(key)}: expected a semicolon at the end")
        sign, value = (tokens[place + n] if place + n < len(tokens) else end for n in (1, 2))
        if key.kind == "sign":
            raise JaasError(f"{_at(key)}: expected the name of an option, or a semicolon at the end")
        if (sign.kind, sign.text) != ("sign", "="):
            raise JaasError(f"{_at(sign)}: expected = after the name of an option")
        if value.kind not in ("word", "text"):
            raise JaasError(f'{_at(value)}: expected a value, such as "value", after =')
        if key.text in options:
            raise JaasError(f"{_at(key)}: the option is given twice")
        options[key.text] = value.text
        place += 3
    if place + 1 < len(tokens):
        raise JaasError(f"{_at(tokens[place + 1])}: expected one login module, found more after it")
    return LoginModule(module.text, options)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            what = "a quoted text has no end" if text[at] in "\"'" else "a character that has no place there"
            raise JaasError(f"at character {at + 1}: {what}; expected {_FORM}")
        kind = str(found.lastgroup)
        if kind == "text":
            yield _Token(kind, _unescaped(found[0][1:-1]), at)
        elif kind != "space":
            yield _Token(kind, found[0], at)
        at = found.end()


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8))
        return _ESCAPES.get(found[2], found[2])

    return re.sub(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", character, text, flags=re.DOTALL)


def _at(token: _Token) -> str:
    return "at its end" if token.kind == "end" else f"at character {token.at + 1}"
