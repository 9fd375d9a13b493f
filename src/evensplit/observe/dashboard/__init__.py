"""The dashboard: one page in a browser that shows what a source does. Needs the extra `dashboard`.

`Dashboard` is loaded when it is first used, so `PORT_DEFAULT` can be had without the extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evensplit.observe.web.address import PORT_DEFAULT

if TYPE_CHECKING:
    from evensplit.observe.dashboard.server import Dashboard

NEEDED = frozenset({"anyio", "h11", "jinja2", "starlette", "uvicorn"})


def __getattr__(name: str) -> Any:
    if name != "Dashboard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from evensplit.observe.dashboard.server import Dashboard
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        said = f"the dashboard needs {error.name}: pip install 'evensplit[dashboard]'"
        raise ModuleNotFoundError(said, name=error.name) from error
    return Dashboard


__all__ = ["PORT_DEFAULT", "Dashboard"]
