"""Opens the metadata service that the user names: a file, a URL, or a class of the user's own."""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from evensplit.core.text import shown
from evensplit.errors import MetadataError
from evensplit.metadata import checks
from evensplit.metadata.hiding import hidden
from evensplit.metadata.streams import Metadata, MetadataService

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_MISTYPED = re.compile(r"(https?):(?!//)", re.IGNORECASE)
_CLASS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*(?:[.:][^\W\d]\w*)(?:\.[^\W\d]\w*)*")
_SUFFIXES = (".json", ".yaml", ".yml")
_EXPECTED = (
    "expected a path or a file:// URL of a YAML or JSON file, an http:// or https:// URL, or the name of a class, "
    "such as package.module.Class"
)


def open_service(
    location: str,
    *,
    token_env: str = "",
    token_file: str = "",
    timeout_s: float = 10.0,
    options: Mapping[str, str] = MappingProxyType({}),
) -> MetadataService:
    """The service at `location`; nothing is read yet.

    - A path, or a URL file:///path: a document in YAML or JSON, see `FileService`.
    - A URL http://… or https://…: the same in JSON. `token_env` and `token_file` say where the bearer token is, and
      `timeout_s` how long one answer may take, see `HttpService`.
    - `package.module.Class` or `package.module:Class`: a class with `read`, and `close` if it has something to give up,
      that is called with `options`. What its `read` returns is checked; what it raises is passed on, so values of
      `options` may be in it (see `hidden`).

    A name with one of the endings .json, .yaml and .yml, with a slash, or of a file that exists, is a path.

    Raises MetadataError: it is nothing of these, or there is no such class, or a token is given where none is used.
    """
    scheme = _scheme(location)
    if scheme in ("http", "https"):
        # It takes time to load, and most queries do not need it.
        from evensplit.metadata.web import HttpService

        return HttpService(location, token_env=token_env, token_file=token_file, timeout_s=timeout_s)
    mistyped = _MISTYPED.match(location)
    if mistyped and not _CLASS.fullmatch(location):
        scheme = mistyped[1].lower()
        problem = f"expected a URL such as {scheme}://host:port/path, with two slashes after {scheme}:"
        raise MetadataError(shown_location(location), [problem])
    if token_env or token_file:
        raise MetadataError(shown_location(location), ["a token is given, but only http:// and https:// take one"])
    if scheme == "file":
        return _file(_file_url_path(location))
    if scheme is None and _is_path(location):
        return _file(Path(location), shown_location(location))
    if scheme is None and _CLASS.fullmatch(location):
        return _UserService(location, options)
    raise MetadataError(shown_location(location), [_EXPECTED])


def shown_location(location: str) -> str:
    """A location for messages and logs: of a URL, or of what was to be one, nothing that may be secret."""
    if _scheme(location) is None or "://" not in location:
        if ":" in location or not location.startswith(("/", ".", "~")) or location.startswith("//"):
            # No plain path: what stands where a user, a password or a token stands in a URL may be one.
            before, _, place = location.rpartition("@")
            location = re.sub(r"([?#]).*", r"\1…", f"…@{place}" if before else place, flags=re.DOTALL)
        return location if location.isprintable() and len(location) <= 250 else shown(location)
    from evensplit.http.urls import shown_url

    return shown_url(location)


def _scheme(location: str) -> str | None:
    found = _SCHEME.match(location)
    if not found or (found[2] is None and found[1].lower() != "file"):
        return None
    return found[1].lower()


def _is_path(location: str) -> bool:
    if "/" in location or "\\" in location or location.lower().endswith(_SUFFIXES):
        return True
    try:
        return bool(location.strip()) and Path(location).is_file()
    except ValueError:
        return False


def _file(path: Path, shown: str = "") -> MetadataService:
    from evensplit.metadata.files import FileService

    return FileService(path, shown)


def _file_url_path(location: str) -> Path:
    expected = "expected file:///path, with an absolute path on this machine"
    try:
        parts = urlsplit(location)
    except ValueError:
        raise MetadataError(shown_location(location), [expected]) from None
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise MetadataError(shown_location(location), [f"{expected}; # and ? are %23 and %3F in it"])
    return Path(unquote(parts.path))


class _UserService:
    """A service of the user's own, whose answers are checked."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self._name = name
        made = _find(name)
        try:
            self._service: Any = made(dict(options))
        except Exception as error:
            problem = f"expected a class that can be called with its options, found {_told(error, options)}"
            whole = "".join(traceback.format_exception(error))
            raise MetadataError(name, [problem]) from (error if hidden(whole, options) == whole else None)
        if not callable(getattr(self._service, "read", None)):
            raise MetadataError(name, [f"expected a method read(), found none in {type(self._service).__name__}"])

    def __repr__(self) -> str:
        return f"MetadataService({self._name})"

    def read(self) -> Metadata:
        answer: Metadata = self._service.read()
        problems = checks.check_answer(answer)
        if problems:
            raise MetadataError(self._name, checks.limited(problems))
        return answer

    def close(self) -> None:
        close = getattr(self._service, "close", None)
        if callable(close):
            close()


def _find(name: str) -> Callable[[dict[str, str]], object]:
    module_name, colon, inner = name.partition(":")
    if not colon:
        module_name, _, inner = name.rpartition(".")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        told = (
            f"expected a module {module_name} that can be imported, found {_told(error)}; there is no such file either"
        )
        raise MetadataError(name, [told]) from error
    for part in inner.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise MetadataError(name, [f"expected a class {inner} in module {module_name}, found none"])
    made: Callable[[dict[str, str]], object] = found
    return made


def _told(error: Exception, options: Mapping[str, str] = MappingProxyType({})) -> str:
    return f"{type(error).__name__}: {shown(hidden(str(error), options))}"
