"""Whether what there is now keeps what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REQUIRED = "required"
"""What is said of a parameter that a caller has to give: a new one of these breaks calls."""


def broken(promised: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each promise that is not kept: what is gone, and what is another. What is new breaks nothing, but for
    a parameter that has to be given."""
    return list(_broken(promised, now, ""))


def _broken(promised: Any, now: Any, where: str) -> Iterator[str]:
    if isinstance(promised, Mapping) and isinstance(now, Mapping):
        for name, before in promised.items():
            place = f"{where}/{name}"
            if name in now:
                yield from _broken(before, now[name], place)
            else:
                yield f"{place} is gone"
        for name, after in now.items():
            if name not in promised and after == REQUIRED:
                yield f"{where}/{name} has to be given, and had not to"
        yield from _moved(list(promised), list(now), where)
    elif isinstance(promised, list) and isinstance(now, list):
        yield from (f"{where} has no {one!r} any more" for one in promised if one not in now)
    elif promised != now and not (promised == REQUIRED and now == "optional"):
        yield f"{where} is {now!r}, and was {promised!r}"


def _moved(before: list[str], after: list[str], where: str) -> Iterator[str]:
    """Parameters that can be given by place, and columns, stand where they stood."""
    if where.endswith(("/parameters", "/columns")) and [one for one in after if one in before] != [
        one for one in before if one in after
    ]:
        yield f"{where} stand in another order"
