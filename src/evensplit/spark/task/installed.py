"""Whether the evensplit of this Python process can work, and is the one that the driver has."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def release() -> str:
    """The version of this process, by the metadata beside the package; empty where there are none, as in a checkout.

    The names of a directory are read, not the metadata: `importlib.metadata` takes longer to load than a task may take.
    """
    package = _package()
    try:
        found = sorted(path.name for path in package.parent.glob(f"{package.name}-*.dist-info"))
    except OSError:
        return ""
    return found[-1].removeprefix(f"{package.name}-").removesuffix(".dist-info") if found else ""


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
