"""The Python API: what docs/reference/api.md lists, with the parameters of functions and the fields of classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api.md"

CHANGING = frozenset({"evensplit.enumerator.Session"})
"""Of these only the name is promised: it ends with the process."""

_LISTED = re.compile(r"^\.\. auto(\w+):: (\S+)((?:\n +:.*)*)", re.M)
_MEMBERS = re.compile(r":members:[ ]*(.*)")


def python_api() -> dict[str, Any]:
    """Dotted name -> what is promised of it."""
    found: dict[str, Any] = {}
    for kind, name, settings in _LISTED.findall(PAGE.read_text()):
        members = _MEMBERS.search(settings)
        chosen = [one.strip() for one in members[1].split(",") if one.strip()] if members else []
        if kind == "module":
            module = import_module(name)
            for one in chosen or _public(module):
                dotted = f"{name}.{one}"
                found[dotted] = {} if dotted in CHANGING else _told(getattr(module, one), [])
        else:
            found[name] = _told(_resolved(name), chosen)
    return found


def _resolved(name: str) -> Any:
    """What a dotted name stands for: the longest part of it that is a module, and attributes of that."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def _public(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _told(value: Any, chosen: list[str]) -> Any:
    if isinstance(value, type) and issubclass(value, Enum):
        return {"values": {one.name: str(one.value) for one in value}}
    if isinstance(value, type):
        return {"parameters": dict(_parameters(value)), "members": sorted(set(chosen or _members(value)))}
    if callable(value):
        return {"parameters": dict(_parameters(value))}
    # A constant, or a union of types.
    return {"constant": type(value).__name__}


def _parameters(value: Any) -> Iterator[tuple[str, str]]:
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return
    for one in found:
        if one.name.startswith("_"):
            continue
        free = one.default is not one.empty or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        yield one.name, "optional" if free else "required"


def _members(value: type) -> Iterator[str]:
    """Attributes and methods of a class and of those of this package that it is of."""
    for base in value.__mro__:
        if base.__module__.startswith("evensplit"):
            names = {*vars(base), *inspect.get_annotations(base)}
            yield from sorted(name for name in names if not name.startswith("_"))
