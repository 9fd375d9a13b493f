"""What the source and the local broker of this checkout can do, and the broker of a run."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import evensplit.testing
from bench.peer.plan import Abilities
from evensplit.errors import OptionError
from evensplit.spark.options.parse import parse_options
from evensplit.testing import LocalKafka

TLS_PACKAGE = "cryptography"

DELETED_AT_ONCE = {"log.segment.delete.delay.ms": "100"}
"""A topic that was written to is deleted with its files, instead of a minute later: the next turn then gets its memory.

On a virtual machine, memory that was not in use before may cost more than all that the broker does.
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """The broker of a run, its address without TLS, and the options that reach it over TLS (none: it has no TLS)."""

    broker: LocalKafka
    plain: str
    files: Path
    """Where it has its topics."""
    secured: dict[str, str] = field(default_factory=dict)


def find_abilities() -> Abilities:
    """Which abilities are there, each with the reason if it is not."""
    return Abilities(level=_refused({"plan": "level"}), columns=_refused({"columns": "value"}), tls=_no_tls())


@contextmanager
def running_broker(jvm_options: Sequence[str], *, tls: bool) -> Iterator[Reach]:
    """One broker for a whole run; with `tls`, it has a second address with TLS."""
    with tempfile.TemporaryDirectory(prefix="evensplit-peer-broker-") as directory:
        files = Path(directory)
        yield from _reach(
            {"jvm_options": jvm_options, "directory": files, "properties": DELETED_AT_ONCE}, files, tls=tls
        )


def _reach(arguments: dict[str, Any], files: Path, *, tls: bool) -> Iterator[Reach]:
    if not tls:
        with LocalKafka(**arguments) as broker:
            yield Reach(broker, broker.bootstrap_servers, files)
        return
    # By name, since not every version of the package has it.
    arguments["security"] = getattr(evensplit.testing, "Secured")("SSL")  # noqa: B009
    with LocalKafka(**arguments) as broker:
        both: Any = broker
        options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(both.certificates.ca),
        }
        yield Reach(broker, both.internal_servers, files, options)


def _refused(options: dict[str, str]) -> str:
    """Why the source does not accept `options`; empty if it does."""
    try:
        parse_options({"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "topic", **options})
    except OptionError:
        return f"this version has no option {' or '.join(options)}"
    return ""


def _no_tls() -> str:
    if not hasattr(evensplit.testing, "Secured"):
        return "this version's LocalKafka has no TLS"
    if importlib.util.find_spec(TLS_PACKAGE) is None:
        return f"the package {TLS_PACKAGE}, which makes certificates, is not installed"
    return ""
