"""Parses Kafka's Java option names, as Spark users write them after `kafka.`, into settings of this client.

Every name of Kafka's own consumer is known here. It is used, or has no effect in this client and is reported, or would
change which records are read or how safely, and is refused. No option is dropped silently.

Sources: `ConsumerConfig` of Kafka 4.3; the "Kafka Specific Configurations" of Spark's Structured Streaming + Kafka
Integration Guide.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from evensplit.core.text import short, shown
from evensplit.kafka.options import client_options as options
from evensplit.kafka.options.local_access import NOTHING, Allowed
from evensplit.kafka.options.option import Option, Text
from evensplit.kafka.options.secrets import has_placeholder
from evensplit.kafka.options.security import (
    PLAINTEXT,
    SECURITY_IGNORED,
    SECURITY_NAMES,
    SECURITY_REFUSED,
    SecuritySettings,
    parse_security,
)

BATCH_BYTES_MAX = 256 << 20
"""Default of `maxBatchBytes`: the maximum size of a record batch, both as it is kept and decompressed."""

Address = tuple[str, int]
"""Host (a name, or an IPv4 or IPv6 address without brackets) and port."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to talk to one cluster. Compares and hashes by value, and can be pickled."""

    bootstrap_servers: tuple[str, ...]
    """`host:port` each, at least one, IPv6 addresses in brackets."""

    client_id: str = options.CLIENT_ID.default
    """Name of this client in the logs and quotas of brokers."""

    client_rack: str = options.CLIENT_RACK.default
    """Where this client is, for fetching from the closest replica (KIP-392); empty if nowhere."""

    request_timeout_ms: int = options.REQUEST_TIMEOUT.default
    """How long one call may take, with all its retries."""

    connect_timeout_ms: int = options.CONNECT_TIMEOUT.default
    """How long one attempt to connect may take."""

    retry_backoff_ms: int = options.RETRY_BACKOFF.default
    """Pause before the second attempt. It doubles with each further one, up to `retry_backoff_max_ms`."""

    retry_backoff_max_ms: int = options.RETRY_BACKOFF_MAX.default

    receive_buffer_bytes: int = options.RECEIVE_BUFFER.default
    """SO_RCVBUF of every socket; -1 leaves it to the operating system."""

    poll_timeout_ms: int | None = None
    """How long a partition that is read may bring nothing; None: as long as one call may take."""

    fetch_max_bytes: int = options.FETCH_MAX_BYTES.default
    """About how much one fetch response may hold."""

    max_partition_fetch_bytes: int = options.MAX_PARTITION_FETCH_BYTES.default
    """About how much of one partition it may hold."""

    fetch_max_wait_ms: int = options.FETCH_MAX_WAIT.default
    """How long a broker may wait for new records before it sends an empty fetch response."""

    read_committed: bool = options.ISOLATION_LEVEL.default
    """Whether records of open and aborted transactions are left out."""

    security: SecuritySettings = PLAINTEXT
    """TLS and SASL, as they were written. No value of it is in any repr."""

    @property
    def progress_timeout_ms(self) -> int:
        """How long a partition that is read may bring nothing."""
        return self.request_timeout_ms if self.poll_timeout_ms is None else self.poll_timeout_ms

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap servers, taken apart."""
        return tuple(split_address(server) for server in self.bootstrap_servers)


def split_address(text: str) -> Address:
    """`host:port` or `[IPv6]:port`, taken apart.

    Raises:
        ValueError: it has another form, or the port is not in 1 .. 65535.
    """
    found = _ADDRESS.fullmatch(text)
    if not found or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(f"{text!r} is not host:port")
    if found["v6"]:
        return str(IPv6Address(found["v6"])), int(found["port"])
    return found["host"], int(found["port"])


def join_address(address: Address) -> str:
    """The reverse of `split_address`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def named(values: Mapping[str, str]) -> dict[str, str]:
    """Options by the names that Kafka has for them. Of several ways to write one name, the last one counts."""
    return {name.strip().lower(): values[name].strip() for name in sorted(values)}


def parse_settings(
    values: Mapping[str, str], theirs: tuple[str, ...] | None = None, allowed: Allowed = NOTHING
) -> tuple[ClientSettings | None, list[str], list[str]]:
    """Parse options whose keys are the part of their names after `kafka.`.

    `theirs`, `allowed`: as in `SecuritySettings`. Without `theirs`, all of them count as coming from metadata.

    Returns:
        The settings, or None if there are problems; all problems, one sentence each without a full stop, by name; and
        the names that are Kafka's but have no effect in this client. No sentence has the value of a setting that could
        be a secret.
    """
    problems: list[str] = []
    ignored: list[str] = []
    given: dict[str, Any] = {}
    security: dict[str, str] = {}
    slipped = False
    for name in sorted(values):
        key, value = name.strip().lower(), values[name].strip()
        declared = options.BY_KAFKAS_NAME.get(key)
        if key in SECURITY_NAMES:
            security[key] = value
        elif declared is options.BOOTSTRAP_SERVERS:
            given["bootstrap_servers"] = _servers(value, problems)
        elif declared is not None:
            _read(declared, value, given, problems)
        elif key in REFUSED:
            problems.append(f"kafka.{key} {REFUSED[key]}")
        elif key in IGNORED:
            ignored.append(key)
        else:
            near = _nearest(name)
            slipped |= near == _BOOTSTRAP
            hint = f"did you mean kafka.{near}?" if near else "expected a setting of Kafka's consumer"
            problems.append(f"kafka.{short(name)} is not an option; {hint}")
    # One slip is one problem: not another one for the name that was meant.
    if "bootstrap_servers" not in given and not slipped:
        problems.insert(0, NO_SERVERS)
    theirs = tuple(security) if theirs is None else theirs
    given["security"], insecure = parse_security(security, theirs, allowed)
    problems.extend(insecure)
    if problems:
        return None, problems, ignored
    return ClientSettings(**given), [], ignored


_BOOTSTRAP = "bootstrap.servers"

NO_SERVERS = (
    f"kafka.{_BOOTSTRAP} is missing, and must be specified; expected host:port of one or more brokers, separated by "
    "commas"
)
"""The sentence of `parse_settings` about missing servers."""

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^]]+)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})", re.ASCII)

_BYTES = (
    "is given, but it is not supported, as keys and values are always read as byte arrays; leave it out, and convert "
    "the columns in the query, with DataFrame operations"
)

REFUSED: Mapping[str, str] = {
    "auto.offset.reset": (
        "is given, but it is not supported: where reading starts is decided here and not in Kafka's client, so that "
        "nothing is left out silently; use the option startingOffsets"
    ),
    "config.providers": (
        "is given, but such providers are Java; leave it out: ${env:NAME}, ${file:PATH} and ${file:PATH:KEY} are "
        "understood without it"
    ),
    "enable.auto.commit": (
        "is given, but it is not supported: it would commit what is fetched and not yet processed; leave it out, and "
        "give commitGroup to have the positions of finished batches committed"
    ),
    "interceptor.classes": (
        "is given, but it is not supported: an interceptor could change what is read, and is Java; leave it out, and "
        "transform the rows in the query"
    ),
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    **SECURITY_REFUSED,
}
"""Settings that are an error whatever their value -> why, as a clause after the name."""


USED = frozenset({*options.BY_KAFKAS_NAME, *SECURITY_NAMES})
"""The settings that this client uses, in lower case and without `kafka.`, as in the other tables."""


IGNORED = SECURITY_IGNORED | frozenset(
    (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "check.crcs",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "socket.connection.setup.timeout.max.ms",
    )
)

"""Settings of Kafka's consumer that have no effect in this client."""

_KNOWN = sorted({*USED, *REFUSED, *IGNORED})


def _servers(value: str, problems: list[str]) -> tuple[str, ...]:
    expected = f"expected {options.BOOTSTRAP_SERVERS.type.expected}"
    entries = [entry.strip() for entry in value.split(",")]
    if not entries[-1]:
        # A comma at the end does no harm; one in between is more likely a server that was forgotten.
        entries.pop()
    servers: list[str] = []
    for entry in entries if any(entries) else ():
        try:
            servers.append(join_address(split_address(entry)))
        except ValueError:
            # A password in an address must not get into a log.
            problems.append(f"kafka.{_BOOTSTRAP} has the entry {shown(entry.rpartition('@')[2])}; {expected}")
    if not any(entries):
        problems.append(f"kafka.{_BOOTSTRAP} is empty; {expected}")
    return tuple(dict.fromkeys(servers))


def _read(option: Option, value: str, given: dict[str, Any], problems: list[str]) -> None:
    """Put the value of `option` into `given`. An empty text counts as not given."""
    if isinstance(option.type, Text):
        if not value:
            return
        if has_placeholder(value):
            problems.append(
                f"{option.name} has a placeholder, which only settings of TLS and SASL may have; "
                "write what it stands for"
            )
            return
    try:
        given[option.field] = option.type.parse(value)
    except ValueError as error:
        reason = f": {error}" if str(error) else ""
        problems.append(f"{option.name} is {shown(value)}; expected {option.type.expected}{reason}")


def _nearest(name: str) -> str:
    """The setting of Kafka's consumer that is most like `name`; empty if there is none."""
    return next(iter(difflib.get_close_matches(name.strip().lower()[:100], _KNOWN, n=1, cutoff=0.7)), "")
