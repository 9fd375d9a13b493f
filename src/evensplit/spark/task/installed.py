"""Whether the evensplit of this Python process can work, and is the one that the driver has."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def release() -> str:
    """The version of this process, by the metadata beside the package; empty where there are none, as in a checkout.

    The names of a directory are read, not the metadata: `importlib.metadata` takes longer to load than a task may take.
    Of several, which `pip install --target --upgrade` leaves, it is the highest.
    """
    package = _package()
    try:
        names = [path.name for path in package.parent.glob(f"{package.name}-*.dist-info")]
    except OSError:
        return ""
    found = (name.removeprefix(f"{package.name}-").removesuffix(".dist-info") for name in names)
    return max(found, key=_order, default="")


def _order(version: str) -> tuple[list[int], bool, list[int], str]:
    """Puts versions in the order of their numbers; one that leads to a release, as 1.2.dev3 and 1.2rc1, is below it."""
    release = re.match(r"[0-9]*(\.[0-9]+)*", version)
    rest = version[release.end() :] if release else version
    is_released = not rest or rest.startswith(("+", ".post"))
    return _numbers(version.removesuffix(rest)), is_released, _numbers(rest), version


def _numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"[0-9]+", text)]


def check_place() -> None:
    """Raise InstallationError if this package is in an archive: Python loads no compiled module from one."""
    package = _package()
    if not package.is_dir():
        from evensplit.errors import InstallationError

        archive = next((str(one) for one in package.parents if one.is_file()), str(package))
        raise InstallationError(
            f"{_here()} has evensplit from the archive {archive}, and Python cannot load its compiled kernel from "
            "there; --py-files cannot ship it. Install the wheel into the Python of the driver and of every executor, "
            "or ship such a Python with --archives"
        )


def check_installed(sent_by: str) -> None:
    """Raise InstallationError if this process cannot do what another one sends.

    `sent_by`: the `release` of that one. If it is empty, or this one is, they are not compared.
    """
    check_place()
    found = release()
    if sent_by and found and sent_by != found:
        from evensplit.errors import InstallationError

        raise InstallationError(
            f"{_here()} has evensplit {found}, and was sent work by evensplit {sent_by}; expected the same version on "
            f"the driver and on every executor. Install {sent_by} there, or set PYSPARK_PYTHON to a Python that has it"
        )


def _package() -> Path:
    return Path(__file__).parents[2]


def _here() -> str:
    import socket
    import sys

    return f"the Python {sys.executable} on {socket.gethostname()}"
