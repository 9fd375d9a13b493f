"""What a query needs on this machine: Java, PySpark, pyarrow, the kernel, the workers' Python, and its own address."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from evensplit.cli.doctor.findings import Doubt, Finding, Step, Wrong, taken
from evensplit.cli.doctor.packages import pyspark_here, version_of
from evensplit.core.json_text import parse_json
from evensplit.kafka.deadline import Deadline, Overdue, in_time
from evensplit.testing.process.java import HOW_TO_INSTALL, find_java

WHERE = "this machine"
SPARK_OLDEST = (4, 2)
PROBE_TIMEOUT_S = 60.0
NAME_TIMEOUT_S = 5.0

_PROBE = """
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
try:
    import evensplit._kernel
    kernel = ""
except ImportError as error:
    kernel = str(error)
names = ("evensplit", "pyspark", "pyarrow")
print(json.dumps({"python": sys.version_info[:2], "kernel": kernel, **{name: version(name) for name in names}}))
"""

_PACKAGE = "install evensplit with its parts into the environment that this command runs in: pip install 'evensplit"


def local_findings() -> Iterator[Finding]:
    """Each step, as it is taken. None depends on another one."""
    for step in (
        Step("Java", _java, HOW_TO_INSTALL),
        Step("PySpark", _pyspark, f"{_PACKAGE}[spark]'"),
        Step("pyarrow", _pyarrow, f"{_PACKAGE}'"),
        Step("kernel", _kernel, f"{_PACKAGE}'"),
        Step("workers' Python", _workers, "set PYSPARK_PYTHON to the Python that this command runs in"),
        Step("own address", _own_address, "set SPARK_LOCAL_IP=127.0.0.1 where Spark runs on this machine alone"),
    ):
        yield taken(WHERE, step)


def _java() -> str:
    java = find_java("Spark needs Java")
    return f"Java {java.release}, {java.path}"


def _pyspark() -> str:
    here = pyspark_here()
    if here is None:
        raise Wrong("PySpark is not installed", f"{_PACKAGE}[spark]'")
    name, found = here
    if here.release < SPARK_OLDEST:
        oldest = ".".join(map(str, SPARK_OLDEST))
        raise Wrong(
            f"{name} {found}; expected {oldest} or later, the first with limits for Python sources",
            f"upgrade it, and the Spark of the cluster with it: pip install -U '{name.lower()}>={oldest}'",
        )
    try:
        importlib.import_module("pyspark.sql.datasource")
    except Exception as error:
        # What is broken raises what it likes.
        raise Wrong(
            f"{name} {found} cannot be imported: {type(error).__name__}: {error}",
            f"install it anew: pip install --force-reinstall {name.lower()}=={found}",
        ) from None
    if name != "PySpark":
        return f"{name} {found}: for Spark Connect; queries run where the server is, which has to have all of this"
    return f"{name} {found}"


def _pyarrow() -> str:
    try:
        importlib.import_module("pyarrow")
        found = metadata.version("pyarrow")
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise Wrong(f"pyarrow cannot be used: {error}", f"{_PACKAGE}'") from None
    try:
        # What PySpark itself asks for is more than this package does.
        utils = importlib.import_module("pyspark.sql.pandas.utils")
        utils.require_minimum_pyarrow_version()
    except ModuleNotFoundError:
        return f"pyarrow {found} (PySpark is not there to say which it needs)"
    except ImportError as error:
        raise Wrong(f"pyarrow {found}: {error}", "upgrade it: pip install -U pyarrow") from None
    return f"pyarrow {found}"


def _kernel() -> str:
    try:
        importlib.import_module("evensplit._kernel")
        found = metadata.version("evensplit")
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise Wrong(
            f"the compiled kernel cannot be loaded: {error}",
            "install a wheel that is made for this kind of machine, for Python 3.11 or later: pip install -U evensplit",
        ) from None
    return f"the kernel of evensplit {found}"


def _workers() -> str:
    said = os.environ.get("PYSPARK_PYTHON")
    where = f"PYSPARK_PYTHON is {said}" if said else "PYSPARK_PYTHON is not set, so it is the python3 on PATH"
    cure = f"set PYSPARK_PYTHON={sys.executable}"
    path = shutil.which(said or "python3")
    if path is None:
        raise Wrong(f"{where}, and there is no such program", cure)
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Wrong(f"{where}, and it does not run: {error}", cure) from None
    found = _probed(done.stdout)
    if found is None:
        raise Wrong(f"{where}, and it is no Python: it ended with {done.returncode}", cure)
    version, own = ".".join(map(str, found["python"])), ".".join(map(str, sys.version_info[:2]))
    if version != own:
        raise Wrong(f"{where}: Python {version}, where the driver has {own}; Spark wants the same for both", cure)
    if found["kernel"]:
        raise Wrong(f"{where}, and evensplit cannot be used there: {found['kernel']}", cure)
    differ = [f"{name} {found[name]} (here {version_of(name)})" for name in _SAME if found[name] != version_of(name)]
    if differ:
        raise Doubt(f"{where}: it has {', '.join(differ)}", cure)
    return f"Python {version}, as here: {path}"


_SAME = ("evensplit", "pyspark", "pyarrow")


def _probed(printed: bytes) -> dict[str, Any] | None:
    """What the probe says, which is the last line: what starts a Python may print more. None: it says nothing."""
    try:
        found = parse_json((printed.splitlines() or [b""])[-1].decode())
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"python", "kernel", *_SAME} <= found.keys():
        return None
    python, kernel, versions = found["python"], found["kernel"], [found[name] for name in _SAME]
    is_whole = isinstance(python, list) and isinstance(kernel, str)
    return found if is_whole and all(one is None or isinstance(one, str) for one in versions) else None


def _own_address() -> str:
    cure = "set SPARK_LOCAL_IP=127.0.0.1 where Spark runs on this machine alone, else to an address of this machine"
    _talk_to("127.0.0.1", "let this machine talk to itself: Spark and its Python workers do so over 127.0.0.1")
    said = os.environ.get("SPARK_LOCAL_IP")
    if said:
        _talk_to(said, cure)
        return f"SPARK_LOCAL_IP is {said}, where this machine can listen"
    name = socket.gethostname()
    try:
        address = in_time(lambda: socket.gethostbyname(name), "own-name", Deadline.after(NAME_TIMEOUT_S))
    except Overdue:
        raise Wrong(f"no name server knows this machine's name, {name}, within {NAME_TIMEOUT_S:g} s", cure) from None
    except OSError as error:
        raise Wrong(f"this machine's name, {name}, cannot be resolved: {error.strerror or error}", cure) from None
    try:
        _talk_to(address, cure)
    except Wrong as wrong:
        raise Doubt(f"this machine's name, {name}, is {address}: {wrong.found}", cure) from None
    return f"this machine, {name}, is {address}"


def _talk_to(address: str, cure: str) -> None:
    """Listen at an address, and connect to that."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as server:
            server.bind((address, 0))
            server.listen(1)
            with socket.create_connection(server.getsockname()[:2], timeout=NAME_TIMEOUT_S):
                return
    except OSError as error:
        raise Wrong(f"nothing can listen at {address}, and be reached there: {error.strerror or error}", cure) from None
