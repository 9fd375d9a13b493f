"""What a `$ref` of JSON Schema refers to.

Source: JSON Schema core of drafts 4 to 2020-12 (`$id`, `$anchor`, `$ref`), RFC 3986 for URLs, RFC 6901 for pointers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_URL_CHARACTERS_MAX = 4_000

_LEGACY = re.compile(r"https?://json-schema\.org/draft-0[1-7]/")
"""Drafts in which what stands beside a `$ref` does not count."""

_DRAFT_4 = re.compile(r"https?://json-schema\.org/draft-0[1-4]/")
"""Drafts in which `$id` is called `id`."""

_URL = re.compile(r"([^:/?#]+:)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
"""Scheme, authority, path, query and fragment, as in RFC 3986, appendix B."""

_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class Place:
    """A schema and where it stands."""

    schema: Any
    base: str
    """The URL that relative ones in it start from."""

    legacy: bool
    """Whether what stands beside a `$ref` does not count."""

    above: tuple[int, ...]
    """The identities of the schemas that references have led through."""

    def inner(self, schema: Any) -> Place:
        """A schema that this one has in it."""
        base = self.base
        if isinstance(schema, dict) and not (self.legacy and "$ref" in schema):
            base = _based(schema.get("$id"), base)
        return replace(self, schema=schema, base=base)


class Documents:
    """A schema, and those that it may refer to by the names that a registry has for them."""

    def __init__(self, main: Any, others: Mapping[str, Any]) -> None:
        """Raises ValueError for a URL that is none."""
        self._resources: dict[str, Place] = {}
        self._anchors: dict[tuple[str, str], Place] = {}
        self._found: dict[tuple[str, str], Place] = {}
        self.main = self._root(main, "")
        roots = [self.main]
        for name, document in others.items():
            roots.append(self._root(document, _joined(self.main.base, name)))
            # A schema may say a name that is no URL relative to its own.
            self._resources.setdefault(name, roots[-1])
        for root in roots:
            self._index(root)

    def referred(self, reference: object, place: Place) -> Place | None:
        """What a `$ref` at a place refers to; None if it is not there. Raises ValueError for one that is no URL."""
        if not isinstance(reference, str):
            raise ValueError("has a $ref that is no text")
        key = place.base, reference
        if key not in self._found:
            found = self._resolved(reference, place.base)
            if found is None:
                return None
            self._found[key] = found
        return replace(self._found[key], above=place.above)

    def _root(self, document: Any, url: str) -> Place:
        said = document.get("$schema") if isinstance(document, dict) else None
        legacy = isinstance(said, str) and _LEGACY.match(said) is not None
        place = Place(document, url, legacy, ()).inner(document)
        if isinstance(said, str) and _DRAFT_4.match(said):
            place = replace(place, base=_based(document.get("id"), url))
        for name in (url, place.base):
            self._resources.setdefault(name, place)
        return place

    def _index(self, root: Place) -> None:
        """Note what has a name inside a document."""
        rest = [root]
        while rest:
            place = rest.pop()
            schema = place.schema
            if isinstance(schema, dict):
                if isinstance(schema.get("$id"), str):
                    self._resources.setdefault(place.base, place)
                    self._anchors.setdefault((place.base, _parts(schema["$id"])[1]), place)
                for word in ("$anchor", "$dynamicAnchor"):
                    if isinstance(schema.get(word), str):
                        self._anchors.setdefault((place.base, schema[word]), place)
            inside = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
            rest.extend(place.inner(one) for one in inside if isinstance(one, dict | list))

    def _resolved(self, reference: str, base: str) -> Place | None:
        url, fragment = _parts(_joined(base, reference))
        root = self._resources.get(url) or self._resources.get(_parts(reference)[0])
        if root is None or not fragment:
            return root
        if not fragment.startswith("/"):
            return self._anchors.get((root.base, fragment))
        place = root
        for part in fragment.split("/")[1:]:
            key, within = part.replace("~1", "/").replace("~0", "~"), place.schema
            if isinstance(within, dict) and key in within:
                place = place.inner(within[key])
            elif isinstance(within, list) and re.fullmatch(r"[0-9]{1,7}", key) and int(key) < len(within):
                place = place.inner(within[int(key)])
            else:
                return None
        return place


def _based(given: object, base: str) -> str:
    return _parts(_joined(base, given))[0] if isinstance(given, str) else base


def _joined(base: str, url: str) -> str:
    """A URL that may be relative to another one. Raises ValueError for one that is too long."""
    if max(len(url), len(base)) > _URL_CHARACTERS_MAX:
        raise ValueError(f"has a URL of more than {_URL_CHARACTERS_MAX:,} characters")
    scheme, authority, path, query, fragment = _split(url)
    if scheme:
        return url
    of_scheme, of_authority, of_path, of_query, _ = _split(base)
    if authority:
        return of_scheme + url
    if path:
        above = "/" if of_authority and not of_path else of_path[: of_path.rfind("/") + 1]
        path = _without_dots(path if path.startswith("/") else above + path)
    else:
        path, query = of_path, query or of_query
    return of_scheme + of_authority + path + query + fragment


def _split(url: str) -> tuple[str, ...]:
    match = _URL.fullmatch(url)
    # Every text matches.
    return match.groups("") if match else ()


def _without_dots(path: str) -> str:
    parts = path.split("/")
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept and kept != [""]:
            kept.pop()
        elif part not in (".", ".."):
            kept.append(part)
    return "/".join([*kept, ""] if parts[-1] in (".", "..") else kept)


def _parts(url: str) -> tuple[str, str]:
    """The URL of a document, and what is meant in it."""
    document, _, fragment = url.partition("#")
    return document, _ENCODED.sub(_decoded, fragment)


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")
