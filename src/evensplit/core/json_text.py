"""JSON that others have written: what cannot be used is a ValueError, and never a stack that is too high."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import JSONDecodeError
from typing import Any, NoReturn

from evensplit.core.text import short

DEPTH_MAX = 100
"""How deep lists and objects may be in each other. Nothing that is read here needs ten, and what is read has to be
written again, too, where the stack is higher."""

_TOO_DEEP = f"lists and objects are more than {DEPTH_MAX} deep in each other"

_CONTAINERS = frozenset((dict, list))


class _Refused(ValueError):
    """Raised by a hook of the parser, with a sentence."""


def parse_json(
    text: str | bytes,
    *,
    strict: bool = False,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value that `text` is.

    `strict`: a name may stand once in an object, and there is no NaN and no infinity; else the last one counts, and
    these are numbers, as in `json.loads`. `object_pairs_hook`: as there; what stands twice is then for it to say.

    Raises:
        JSONDecodeError: it is not JSON, or not all of it.
        ValueError: it is, but it cannot be used: too deep, with a number of thousands of digits, or not strictly JSON.
    """
    try:
        found = json.loads(
            text,
            object_pairs_hook=object_pairs_hook or (_unique if strict else None),
            parse_constant=_refuse_constant if strict else None,
        )
    except (JSONDecodeError, UnicodeDecodeError, _Refused):
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        raise ValueError("a number in it has more digits than can be read") from None
    if _is_too_deep(found):
        raise ValueError(_TOO_DEEP)
    return found


def _is_too_deep(found: Any) -> bool:
    level = [[found]]
    for _ in range(DEPTH_MAX + 1):
        # Most have numbers alone, and these are passed over without a line of Python for each.
        having = [values for values in level if not _CONTAINERS.isdisjoint(map(type, values))]
        if not having:
            return False
        level = [
            list(one.values()) if type(one) is dict else one
            for values in having
            for one in values
            if type(one) in _CONTAINERS
        ]
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Refused(f"{short(name)!r} stands twice in one object")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is no number of JSON")
