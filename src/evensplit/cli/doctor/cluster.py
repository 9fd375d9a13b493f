"""One cluster step by step, by the classes that a query uses: names, connections, TLS, logins, metadata, rights."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from evensplit.cli.doctor.findings import Doubt, Finding, Status, Step, Wrong, in_order, taken
from evensplit.core.text import counted, short, some
from evensplit.errors import AuthenticationError, ClusterError
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.admin.protocol import named_topics
from evensplit.kafka.auth.tls_socket import tls_context
from evensplit.kafka.cut_off import CutOff
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.net.transport import open_transport, resolve_name
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.options.security import Access
from evensplit.kafka.wire.api import DESCRIBE_GROUPS, FETCH, FIND_COORDINATOR, METADATA
from evensplit.kafka.wire.error_codes import describe_code, is_retriable
from evensplit.kafka.wire.group_requests import write_describe_groups, write_find_coordinator
from evensplit.kafka.wire.group_responses import DescribedGroup
from evensplit.kafka.wire.requests import write_metadata
from evensplit.kafka.wire.responses import RIGHTS_UNKNOWN, MetadataTopic
from evensplit.spark.options.parse import ClusterOptions

STEP_TIMEOUT_S = 10.0
EXPIRES_SOON_DAYS = 30
NAMED_MAX = 5

READ = 1 << 3
"""Kafka's bit for that operation, among those that a user may do (KIP-430)."""

WRITE = 1 << 4
"""The same for Write."""

_SECRETS = "see what the placeholders stand for here, and that each file is there and can be read"
_NAME = "check the name in kafka.bootstrap.servers, and that this machine's name server knows it"
_TCP = "check host and port in kafka.bootstrap.servers, that the broker runs, and that no firewall is in between"
_TLS = "check kafka.ssl.* and kafka.security.protocol"
_LOGIN = "check kafka.sasl.* and kafka.security.protocol, and that the brokers know this user"
_SPEAKS = "check that the port in kafka.bootstrap.servers is that of a Kafka broker, and kafka.security.protocol"
METADATA_CURE = "check that the brokers of the cluster run, and see their logs"
ADVERTISED = (
    "let the brokers advertise addresses (advertised.listeners) that can be reached from here, and from the executors"
)
_TOPICS = "check the names, and that this user may Describe the topics (an ACL)"
_READ = "allow this user Read and Describe on the topics (an ACL)"
_COMMITTED = "allow this user Read and Describe on the group (an ACL); if brokers have just started, try again"
_GROUP = "allow this user Describe on the group (an ACL); if brokers have just started, try again"


@dataclass(frozen=True, slots=True)
class ClusterToAsk:
    """One cluster to be asked. `topics`: whether the topics were named.

    `groups`: those that are to be used, and whether positions are to be committed to them.
    """

    options: ClusterOptions
    topics: bool
    groups: Mapping[str, bool]


class ClusterSettings(NamedTuple):
    """The id of a cluster, and the settings by which it is reached."""

    id: str
    settings: ClientSettings


def cluster_findings(wanted: ClusterToAsk) -> Iterator[Finding]:
    """Each step, as it is taken: what all servers share, each server, and then what the cluster says."""
    look = _Look(wanted)
    yield from findings_of(ClusterSettings(wanted.options.id, wanted.options.settings), look.session, look.steps())


def findings_of(
    cluster: ClusterSettings, session: Session, steps: Iterable[Step], apart: Iterable[Step] = ()
) -> Iterator[Finding]:
    """Each step, as it is taken: what all servers share, each server, and the steps given if one can be used.

    `apart`: steps behind `steps` which do not depend on each other. `session`: what all of them use; it is closed.
    """
    where = f"cluster {cluster.id}"
    secrets = taken(where, Step("secrets", partial(_secrets, cluster), _SECRETS))
    yield secrets
    if secrets.status is Status.FAILED:
        yield Finding(where, "brokers", Status.SKIPPED, "not looked at, since secrets failed")
        return
    reached = False
    for address in cluster.settings.addresses:
        good = True
        for found in in_order(f"{where}, {join_address(address)}", _server_steps(cluster, address)):
            good = good and found.status in (Status.OK, Status.WARNING)
            yield found
        reached = reached or good
    if not reached:
        yield Finding(where, "metadata", Status.SKIPPED, "not looked at, since no bootstrap server can be used")
        return
    try:
        failed = ""
        for found in in_order(where, steps):
            failed = found.step if found.status is Status.FAILED else failed
            yield found
        for step in apart:
            yield Finding(where, step.name, *_not_looked_at(failed)) if failed else taken(where, step)
    finally:
        session.close()


def _not_looked_at(failed: str) -> tuple[Status, str]:
    return Status.SKIPPED, f"not looked at, since {failed} failed"


def _secrets(cluster: ClusterSettings) -> str:
    access = cluster.settings.security.resolve(cluster.id)
    if access.tls is not None:
        # Stores are files, which are read where a connection is made; whether they can be is known before.
        tls_context(cluster.id, access.tls)
    return f"kafka.security.protocol is {_protocol(access)}, and all that it needs is there"


def _protocol(access: Access) -> str:
    if access.sasl is None:
        return "PLAINTEXT" if access.tls is None else "SSL"
    return "SASL_PLAINTEXT" if access.tls is None else "SASL_SSL"


def _server_steps(cluster: ClusterSettings, address: Address) -> Iterator[Step]:
    access = cluster.settings.security.resolve(cluster.id)
    yield Step("name", partial(_resolved, cluster, address), _NAME)
    yield Step("TCP", partial(_connected, cluster, address), _TCP)
    if access.tls is not None:
        yield Step("TLS", partial(_secured, cluster, address, access), _TLS)
    speaking = _Speaking(cluster, address, has_login=access.sasl is not None)
    yield Step("ApiVersions", speaking.versions, _SPEAKS)
    if access.sasl is not None:
        yield Step(f"login ({access.sasl.mechanism})", speaking.login, _LOGIN)


def _resolved(cluster: ClusterSettings, address: Address) -> str:
    found = resolve_name(cluster.id, address, step_deadline())
    return f"{address[0]} is {', '.join(dict.fromkeys(str(one[4][0]) for one in found))}"


def _connected(cluster: ClusterSettings, address: Address) -> str:
    begun_s = time.monotonic()
    open_transport(cluster.id, address, cluster.settings, step_deadline()).close()
    return f"connected within {1000 * (time.monotonic() - begun_s):.0f} ms"


def _secured(cluster: ClusterSettings, address: Address, access: Access) -> str:
    assert access.tls is not None
    deadline = step_deadline()
    try:
        with CutOff(deadline.at_s) as cut:
            secured = open_transport(cluster.id, address, cluster.settings, deadline, (access.tls, cut))
    except ClusterError as error:
        raise Wrong(f"{error.detail}{_presented(address)}", _TLS, error.id) from None
    with secured:
        assert isinstance(secured, ssl.SSLSocket)
        certificate: Any = secured.getpeercert() or {}
        version = secured.version()
    until = str(certificate.get("notAfter", ""))
    names = ", ".join(str(name) for _, name in certificate.get("subjectAltName", ())[:NAMED_MAX])
    said = f"{version}, a certificate for {names or 'no host'}, until {until or '?'}"
    left_days = (ssl.cert_time_to_seconds(until) - time.time()) / 86_400 if until else EXPIRES_SOON_DAYS
    if left_days < EXPIRES_SOON_DAYS:
        raise Doubt(f"{said}: {left_days:.0f} days are left", "renew the broker's certificate")
    if not access.tls.verify_host:
        raise Doubt(
            f"{said}; its host name is not verified", "leave kafka.ssl.endpoint.identification.algorithm out if you can"
        )
    return said


def _presented(address: Address) -> str:
    """What the broker shows of itself, whether that is trusted or not; nothing where that cannot be read."""
    try:
        from cryptography import x509
    except ModuleNotFoundError:
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent over this connection: it is for a look at a certificate that was refused a moment ago.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, timeout=STEP_TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname=address[0]) as secured,
        ):
            der = secured.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return ""
    try:
        return _told(x509.load_der_x509_certificate(der or b""))
    except Exception as error:
        # Of one that is odd, whatever it likes.
        return f". It shows a certificate that cannot be read: {type(error).__name__}"


def _told(shown: Any) -> str:
    """What stands in a certificate. Raises whatever `cryptography` does for one that is odd."""
    from cryptography import x509

    names: list[str] = []
    if any(one.oid == x509.SubjectAlternativeName.oid for one in shown.extensions):
        extension = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = [str(one.value) for one in extension.value]
    expired = " (it has expired)" if shown.not_valid_after_utc < datetime.now(UTC) else ""
    return (
        f". It shows a certificate for {', '.join(names[:NAMED_MAX]) or 'no host'}, issued by "
        f"{shown.issuer.rfc4514_string()!r}, valid from {shown.not_valid_before_utc:%Y-%m-%d} to "
        f"{shown.not_valid_after_utc:%Y-%m-%d}{expired}"
    )


class _Speaking:
    """Kafka's protocol at one server. The login comes behind the versions, over one connection."""

    def __init__(self, cluster: ClusterSettings, address: Address, *, has_login: bool) -> None:
        self._cluster = cluster
        self._address = address
        self._has_login = has_login
        self._refused: ClusterError | None = None

    def versions(self) -> str:
        try:
            connection = Connection(self._cluster.id, self._address, self._cluster.settings, step_deadline())
        except AuthenticationError as error:
            if not self._has_login:
                raise
            self._refused = error
            return "it speaks Kafka's protocol"
        try:
            return f"it speaks Kafka's protocol; Fetch in version {connection.version(FETCH)}"
        finally:
            connection.close()

    def login(self) -> str:
        if self._refused is not None:
            raise self._refused
        return "logged in"


class _Look:
    """What the cluster says, over one session."""

    def __init__(self, wanted: ClusterToAsk) -> None:
        self._wanted = wanted
        self.session = Session(wanted.options.id, wanted.options.settings)
        self._topics: list[MetadataTopic] = []

    def steps(self) -> Iterator[Step]:
        yield Step("metadata", self._metadata, METADATA_CURE)
        yield Step("advertised addresses", self._advertised, ADVERTISED)
        if self._wanted.topics:
            yield Step("topics", self._described, _TOPICS)
            yield Step("read", self._readable, _READ)
        for group, commits in self._wanted.groups.items():
            look = partial(self._group, group, commits=commits)
            yield Step(f"group {group}", look, _COMMITTED if commits else _GROUP)

    def _metadata(self) -> str:
        names = named_topics(self._wanted.options.subscription)
        if names is None and not self._wanted.topics:
            names = []
        said, self._topics = metadata_of(self.session, names)
        return said

    def _advertised(self) -> str:
        return advertised(self.session)

    def _described(self) -> str:
        from evensplit.kafka.admin.client import ClusterClient

        client = ClusterClient(self._wanted.options.id, self._wanted.options.settings)
        try:
            listing = client.list_partitions(self._wanted.options.subscription)
        finally:
            client.close()
        problems = (*listing.missing, *listing.incomplete)
        if problems:
            raise Wrong("; ".join(map(str, problems[:NAMED_MAX])), _TOPICS)
        topics = {one.topic for one in listing.partitions}
        if not topics:
            raise Doubt(
                "the pattern matches no topic that this user may see",
                "check subscribePattern, and that this user may Describe the topics (an ACL)",
            )
        self._topics = [topic for topic in self._topics if topic.name in topics]
        return f"{counted(len(topics), 'topic')}, {counted(len(listing.partitions), 'partition')}"

    def _readable(self) -> str:
        rights = {topic.name: topic.authorized_operations for topic in self._topics}
        if RIGHTS_UNKNOWN in rights.values():
            raise Doubt("the brokers do not say what this user may do (Kafka before 2.3)", "read a batch to find out")
        refused = sorted(name for name, one in rights.items() if not one & READ)
        if refused:
            raise Wrong(f"this user may not Read {some(refused, NAMED_MAX)}", _READ)
        return "this user may Read and Describe"

    def _group(self, group: str, *, commits: bool) -> str:
        # The first use of any group lets the brokers create the topic that commits are in, which takes them seconds.
        deadline = Deadline.after(self._wanted.options.settings.request_timeout_ms / 1000)
        backoff = Backoff(self._wanted.options.settings)
        described = self._describe(group, deadline)
        while described.error_code and is_retriable(described.error_code) and not deadline.passed:
            backoff.pause(deadline)
            described = self._describe(group, deadline)
        if code := described.error_code:
            raise Wrong(describe_code(code), _COMMITTED if commits else _GROUP)
        rights = described.authorized_operations
        may_read = rights & READ
        if rights == RIGHTS_UNKNOWN or not (may_read or commits):
            return f"this user may Describe it; it is {short(described.group_state) or 'not there yet'}"
        if not may_read:
            raise Wrong("this user may Describe it, but not Read it, which committing needs", _COMMITTED)
        return f"this user may Read and Describe it; it is {short(described.group_state) or 'not there yet'}"

    def _describe(self, group: str, deadline: Deadline) -> DescribedGroup:
        """What the group's coordinator says of it, or the error with which it cannot be found."""
        answer = self.session.ask_any(FIND_COORDINATOR, partial(write_find_coordinator, [group]), deadline)
        found = answer.coordinators[0]
        if found.error_code:
            return DescribedGroup(found.error_code, "", RIGHTS_UNKNOWN)
        connection = self.session.connection((found.host, found.port), deadline)
        return connection.request(DESCRIBE_GROUPS, partial(write_describe_groups, group), deadline).groups[0]


def metadata_of(session: Session, names: Collection[str] | None) -> tuple[str, list[MetadataTopic]]:
    """What a cluster says of itself; and of the topics with these names, None for all, with what this user may do."""
    deadline = step_deadline()
    session.metadata(names, deadline)
    # The same question again, and with it what this user may do.
    response = session.ask_any(METADATA, partial(write_metadata, names, rights=True), deadline)
    found = response.cluster_id or "not known"
    return f"Kafka's cluster id is {found}, {counted(len(response.brokers), 'broker')}", list(response.topics)


def advertised(session: Session) -> str:
    """Whether all brokers can be reached where they say. Raises Wrong for those that cannot."""
    wrong: list[str] = []
    for node in sorted(session.brokers):
        address = session.brokers[node].address
        try:
            open_transport(session.cluster, address, session.settings, step_deadline()).close()
        except ClusterError as error:
            wrong.append(f"broker {node}: {error.detail}")
    if wrong:
        raise Wrong("; ".join(wrong[:NAMED_MAX]), ADVERTISED)
    return f"reached {', '.join(join_address(session.brokers[node].address) for node in sorted(session.brokers))}"


def step_deadline() -> Deadline:
    """That of one step."""
    return Deadline.after(STEP_TIMEOUT_S)
