"""Kafka's Java option names, as Spark users write them behind `kafka.`, understood as settings of this client.

Every name of Kafka's own consumer is known here: it is used, or has no meaning in this client (and is reported, so that
the caller can say so), or would change what is read or how safely, and is then refused. Nothing is dropped silently.

Sources: `ConsumerConfig` of Kafka 4.3; the "Kafka Specific Configurations" of Spark's Structured Streaming + Kafka
Integration Guide.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from evensplit.core.text import short
from evensplit.kafka.options.local_access import NOTHING, Allowed
from evensplit.kafka.options.security import (
    PLAINTEXT,
    SECURITY_IGNORED,
    SECURITY_NAMES,
    SECURITY_REFUSED,
    SecuritySettings,
    parse_security,
)

INT_MAX = 2**31 - 1

BATCH_BYTES_MAX = 256 << 20
"""How long a record batch may be, as it is kept and decompressed, where nothing else is said (`maxBatchBytes`)."""

Address = tuple[str, int]
"""Host (a name, or an IPv4 or IPv6 address without brackets) and port."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to talk to one cluster. Compares and hashes by value, and can be pickled.

    - `bootstrap_servers`: `host:port` each, at least one, IPv6 addresses in brackets.
    - `client_id`: what the brokers' logs and quotas know this client by.
    - `client_rack`: where this client is, for fetching from the closest replica (KIP-392); empty if nowhere.
    - `request_timeout_ms`: how long one call may take, whatever happens in it.
    - `poll_timeout_ms`: how long a partition that is read may not get on; None: as long as one call.
    - `connect_timeout_ms`: how long one attempt to connect may take.
    - `retry_backoff_ms`, `retry_backoff_max_ms`: the pause before a second attempt; it doubles up to the maximum.
    - `receive_buffer_bytes`: SO_RCVBUF of every socket; -1 leaves it to the operating system.
    - `fetch_max_bytes`: about how much one Fetch response may hold. `max_partition_fetch_bytes`: of one partition; as
      no partition can keep others waiting here, it may fill a response, unlike in Kafka, whose default is 1 MiB.
    - `fetch_max_wait_ms`: how long a broker may wait for new records before it answers with none.
    - `read_committed`: whether records of aborted and open transactions are left out (isolation.level).
    - `security`: TLS and SASL, as they were written; no value of it is in any repr.
    """

    bootstrap_servers: tuple[str, ...]
    client_id: str = "evensplit"
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    receive_buffer_bytes: int = -1
    poll_timeout_ms: int | None = None
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 4_194_304
    fetch_max_wait_ms: int = 500
    read_committed: bool = False
    security: SecuritySettings = PLAINTEXT

    @property
    def progress_timeout_ms(self) -> int:
        """How long a partition that is read may not get on."""
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
    """Options, with the part of their names behind `kafka.` as keys, understood.

    `theirs`, `allowed`: as in `SecuritySettings`. Where nobody says whose they are, all of them are somebody else's.

    Returns:
        The settings, or None if there are problems; all problems, one sentence each without a full stop, by name; and
        the names that are Kafka's but mean nothing to this client. The value of a setting that could be a secret is in
        no sentence.
    """
    problems: list[str] = []
    ignored: list[str] = []
    given: dict[str, str | int | tuple[str, ...] | SecuritySettings] = {}
    security: dict[str, str] = {}
    slipped = False
    for name in sorted(values):
        key, value = name.strip().lower(), values[name].strip()
        if key == _BOOTSTRAP:
            given["bootstrap_servers"] = _servers(value, problems)
        elif key in _NUMBERS:
            field, least = _NUMBERS[key]
            number = _number(key, value, least, problems)
            if number is not None:
                given[field] = number
        elif key in _TEXTS:
            if value:
                given[_TEXTS[key]] = value
        elif key == _ISOLATION:
            given["read_committed"] = _is_committed(value, problems)
        elif key in _REFUSED:
            problems.append(f"kafka.{key} {_REFUSED[key]}")
        elif key in SECURITY_NAMES:
            security[key] = value
        elif key in _IGNORED:
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
    return ClientSettings(**given), [], ignored  # type: ignore[arg-type]


def is_used(name: str) -> bool:
    """Whether `name`, without `kafka.` and in lower case, is a setting that this client goes by."""
    return name in USED


def is_ignored(name: str) -> bool:
    """Whether `name`, as above, is a setting of Kafka's consumer that means nothing to this client."""
    return name in _IGNORED


def refusal(name: str) -> str | None:
    """Why `name`, as above, is an error, in a clause behind the name; None: it is none, or only for what is given."""
    return _REFUSED.get(name)


_BOOTSTRAP = "bootstrap.servers"
_ISOLATION = "isolation.level"

NO_SERVERS = (
    f"kafka.{_BOOTSTRAP} is missing, and must be specified; expected host:port of one or more brokers, separated by "
    "commas"
)
"""What `parse_settings` says where nobody has named a server."""

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^]]+)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})", re.ASCII)

# Name -> field and least value.
_NUMBERS: Mapping[str, tuple[str, int]] = {
    "fetch.max.bytes": ("fetch_max_bytes", 1),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", 0),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", 1),
    "receive.buffer.bytes": ("receive_buffer_bytes", -1),
    "request.timeout.ms": ("request_timeout_ms", 1),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", 0),
    "retry.backoff.ms": ("retry_backoff_ms", 0),
    "socket.connection.setup.timeout.ms": ("connect_timeout_ms", 1),
}

_TEXTS: Mapping[str, str] = {"client.id": "client_id", "client.rack": "client_rack"}

_BYTES = (
    "is given, but it is not supported, as keys and values are always read as byte arrays; leave it out, and convert "
    "the columns in the query, with DataFrame operations"
)

_REFUSED: Mapping[str, str] = {
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


USED = frozenset({_BOOTSTRAP, _ISOLATION, *_NUMBERS, *_TEXTS, *SECURITY_NAMES})
"""The settings that this client goes by."""


def _is_committed(value: str, problems: list[str]) -> bool:
    if value.lower() not in ("read_committed", "read_uncommitted"):
        problems.append(f"kafka.{_ISOLATION} is {_shown(value)}; expected read_uncommitted or read_committed")
    return value.lower() == "read_committed"


_IGNORED = SECURITY_IGNORED | frozenset(
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

_KNOWN = sorted({*USED, *_REFUSED, *_IGNORED})


def _servers(value: str, problems: list[str]) -> tuple[str, ...]:
    expected = "expected host:port, or [address]:port for IPv6, with a port from 1 to 65535, separated by commas"
    entries = [entry.strip() for entry in value.split(",")]
    if not entries[-1]:
        # A comma at the end does no harm; one in between is more likely a server that was forgotten.
        entries.pop()
    servers: list[str] = []
    for entry in entries if any(entries) else ():
        try:
            servers.append(join_address(split_address(entry)))
        except ValueError:
            # Whoever pastes an address with a password in it shall not find that in a log.
            shown = entry.rpartition("@")[2]
            problems.append(f"kafka.{_BOOTSTRAP} has the entry {_shown(shown)}; {expected}")
    if not any(entries):
        problems.append(f"kafka.{_BOOTSTRAP} is empty; {expected}")
    return tuple(dict.fromkeys(servers))


def _number(name: str, value: str, least: int, problems: list[str]) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,10}", value, re.ASCII) and least <= int(value) <= INT_MAX:
        return int(value)
    problems.append(f"kafka.{name} is {_shown(value)}; expected a whole number from {least} to {INT_MAX}")
    return None


def _nearest(name: str) -> str:
    """The setting of Kafka's consumer that is most like `name`; empty if none is."""
    return next(iter(difflib.get_close_matches(name.strip().lower()[:100], _KNOWN, n=1, cutoff=0.7)), "")


def _shown(value: str) -> str:
    return repr(value if len(value) <= 100 else f"{value[:100]}…")
