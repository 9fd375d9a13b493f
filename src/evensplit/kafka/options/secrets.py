"""Secrets, and the placeholders for those in environment variables and files.

A placeholder is resolved when a connection is made, in the process that makes it. So only the placeholder travels
between processes, and the next connection takes up a value that has changed.

Sources: KIP-297 and KIP-887 (config providers), `ConfigTransformer`, `EnvVarConfigProvider` and `FileConfigProvider` of
Kafka 4.3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from evensplit.core.text import short
from evensplit.kafka.options.local_access import Allowed

FILE_BYTES_MAX = 4 << 20
"""No file with secrets, certificates or keys is longer."""

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][\w.-]*):([^}]*)\}", re.ASCII)
_VARIABLE = re.compile(r"[^=\0]+")
_FORMS = "${env:NAME}, ${file:PATH} or ${file:PATH:KEY}"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Secret:
    """A text that is in no repr, no log and no error. Compares, hashes and pickles by value."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)


class SecretError(Exception):
    """A value cannot be read. The message says where it should be, and never shows a value."""


def has_placeholder(text: str) -> bool:
    """Whether `text` has a placeholder."""
    return next(_found(text), None) is not None


def is_placeholder(text: str) -> bool:
    """Whether `text` is one placeholder and nothing else."""
    return _PLACEHOLDER.fullmatch(text.strip()) is not None


def placeholders(text: str) -> Iterator[tuple[str, str]]:
    """The kind of each placeholder in `text`, and what it names: a variable, the path of a file, or for others all."""
    for found in _found(text):
        yield found[1], _named(found[1], found[2])


def placeholder_problems(text: str) -> Iterator[str]:
    """Yield each problem of the placeholders in `text`, as the end of a sentence that begins with the option's name."""
    for found in _found(text):
        if found[1] not in ("env", "file"):
            # The name of the provider is not shown: it may be the middle of a password.
            yield f"has a placeholder of an unknown kind; expected {_FORMS}"
        elif not found[2].strip(":"):
            yield f"has a placeholder that names nothing; expected {_FORMS}"


def resolve(text: str, allowed: Allowed) -> str:
    """Replace the placeholders in `text` by their values, as far as that is `allowed`. Values are not parsed again.

    `${env:NAME}` is an environment variable of this process, `${file:PATH}` the content of a file without the line
    break at its end, and `${file:PATH:KEY}` one value of a file of Java properties.

    Raises:
        SecretError: a variable, a file or a key does not exist, cannot be read, or is not allowed.
    """
    end = text.rfind("}") + 1
    return _PLACEHOLDER.sub(lambda found: _value(found[1], found[2], allowed), text[:end]) + text[end:]


def _found(text: str) -> Iterator[re.Match[str]]:
    # Up to the last brace every beginning of a placeholder finds an end. Beyond it each would search in vain to the end
    # of a text that may be hostile, and long.
    return _PLACEHOLDER.finditer(text, 0, text.rfind("}") + 1)


def read_file(path: str, allowed: Allowed) -> bytes:
    """Read a file.

    Raises:
        SecretError: it cannot be read, is longer than FILE_BYTES_MAX, or is not allowed.
    """
    real = real_path(path, allowed)
    try:
        with Path(real).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has no name that a file can have"
        raise SecretError(f"the file {path!r} cannot be read here: {reason}") from None
    if len(data) > FILE_BYTES_MAX:
        raise SecretError(f"the file {path!r} has more than {FILE_BYTES_MAX} bytes; expected a smaller one")
    return data


def real_path(path: str, allowed: Allowed) -> str:
    """The path of a file that may be read. Raises SecretError if it may not."""
    real = allowed.real_path(path)
    if real is None:
        raise SecretError(
            f"the metadata names the file {short(path)!r}, which is in no place that metadata.allow names, with all "
            "links followed here"
        )
    return real


def _named(kind: str, place: str) -> str:
    if kind == "env":
        # Kafka's own form has an empty path before the name, if anything.
        return place.lstrip(":")
    return place.partition(":")[0] if kind == "file" else place


def _value(kind: str, place: str, allowed: Allowed) -> str:
    if kind not in ("env", "file"):
        # Escapes can hide one within a login module until it is taken apart.
        raise SecretError(f"a placeholder is of an unknown kind; expected {_FORMS}")
    name = _named(kind, place)
    if kind == "env":
        if not allowed.has_variable(name):
            raise SecretError(
                f"the metadata names the environment variable {short(name)!r}, and metadata.allow does not have it"
            )
        found = os.environ.get(name) if _VARIABLE.fullmatch(name) else None
        if found is None:
            raise SecretError(f"the environment variable {name!r} is not set in this process")
        if not _is_text(found):
            raise SecretError(f"the environment variable {name!r} is no text in UTF-8")
        return found
    path, separator, key = place.partition(":")
    try:
        text = read_file(path, allowed).decode()
    except UnicodeDecodeError:
        raise SecretError(f"the file {path!r} is no text in UTF-8") from None
    if not separator:
        return text.removesuffix("\n").removesuffix("\r")
    properties = parse_properties(text)
    if key not in properties:
        raise SecretError(f"the file {path!r} has no property {key!r}")
    if not _is_text(properties[key]):
        raise SecretError(f"the property {key!r} of the file {path!r} has the half of a character; expected all of it")
    return properties[key]


def _is_text(value: str) -> bool:
    # Bytes of the environment that are no UTF-8 come as halves of surrogate pairs.
    return not any("\ud800" <= character <= "\udfff" for character in value)


def parse_properties(text: str) -> dict[str, str]:
    """A file of Java properties. The last of several values of a key is the one that counts."""
    found: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\n|\r", text))
    for line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1] + next(lines, "").lstrip(" \t\f")
        key, value = _key_and_value(logical)
        found[key] = value
    return found


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _key_and_value(line: str) -> tuple[str, str]:
    end = re.match(r"(?:\\.|[^\\=: \t\f])*", line, re.DOTALL)
    assert end is not None
    key, rest = line[: end.end()], line[end.end() :].lstrip(" \t\f")
    if rest[:1] in ("=", ":") and rest:
        rest = rest[1:].lstrip(" \t\f")
    return _unescaped(key), _unescaped(rest)


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _ESCAPES.get(found[2], found[2])

    found = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.?))", character, text, flags=re.DOTALL)
    # Java has characters beyond the first 65536 as two halves, which are one here.
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
