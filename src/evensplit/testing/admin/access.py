"""Users and access rules: the requests for them, and changing them such that the change is everywhere on return."""

from __future__ import annotations

import hashlib
import secrets
import socket
import ssl
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import requests
from evensplit.testing.admin.changes import ChangeHelpers
from evensplit.testing.admin.requests import Address, ask
from evensplit.testing.admin.topics import REQUEST_TIMEOUT_S
from evensplit.testing.secured.security import Secured

# As in `admin`.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import (
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ACLResourceType,
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        CreateAclsRequest,
        CreateAclsResponse,
        DeleteAclsRequest,
        DeleteAclsResponse,
        DescribeAclsRequest,
        DescribeAclsResponse,
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )

SCRAM_VERSION = 0
ACLS_VERSION = 3
# KIP-554's numbers, and the names of the hashes.
SCRAM_TYPES = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
# The fewest that Kafka takes.
ITERATIONS = 4096


def create_users(
    address: Address, users: Mapping[str, str], mechanism: str, iterations: int = ITERATIONS, *, timeout_s: float
) -> Any:
    """Make or change SCRAM credentials; the answer's `results` carry `error_code` and `error_message`.

    A request may name a user once, whatever the mechanism.
    """
    number, algorithm = SCRAM_TYPES[mechanism]
    upsertions = []
    for name, password in users.items():
        salt = secrets.token_bytes(16)
        upsertions.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=name,
                mechanism=number,
                iterations=iterations,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations),
            )
        )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    return ask(address, request, AlterUserScramCredentialsResponse, SCRAM_VERSION, timeout_s=timeout_s)


def knows_users(
    address: Address,
    users: Sequence[str],
    mechanisms: Sequence[str],
    iterations: int | None = None,
    *,
    timeout_s: float,
) -> bool:
    """Whether the broker at `address` knows the credentials of all these users; with so many `iterations`, if given."""
    request = DescribeUserScramCredentialsRequest(
        users=[DescribeUserScramCredentialsRequest.UserName(name=name) for name in users]
    )
    answer = ask(address, request, DescribeUserScramCredentialsResponse, SCRAM_VERSION, timeout_s=timeout_s)
    known = {
        (each.user, info.mechanism)
        for each in answer.results
        for info in each.credential_infos
        if iterations is None or info.iterations == iterations
    }
    return {(name, SCRAM_TYPES[mechanism][0]) for name in users for mechanism in mechanisms} <= known


@dataclass(frozen=True, slots=True)
class Rule:
    """One access rule: what a user may, or (if not `allowed`) may not do to a topic, a group or a transactional id.

    `*` is every one.
    """

    user: str
    resource_type: int
    resource_name: str
    operation: int
    allowed: bool

    @property
    def principal(self) -> str:
        return f"User:{self.user}"

    @property
    def permission(self) -> int:
        return int(ACLPermissionType.ALLOW if self.allowed else ACLPermissionType.DENY)


def rules_for(
    user: str,
    topic: str | None,
    group: str | None,
    operations: Sequence[str],
    *,
    allowed: bool,
    transactional_id: str | None = None,
) -> list[Rule]:
    """A rule for each resource and operation. Raises `LocalKafkaError` for no resource or an unknown operation."""
    known = {each.name.lower(): int(each) for each in ACLOperation if each > ACLOperation.ANY}
    unknown = [operation for operation in operations if operation not in known]
    if unknown:
        raise LocalKafkaError(f"operations must be of {', '.join(known)}, not {', '.join(map(repr, unknown))}")
    named = [
        (ACLResourceType.TOPIC, topic),
        (ACLResourceType.GROUP, group),
        (ACLResourceType.TRANSACTIONAL_ID, transactional_id),
    ]
    rules = [
        Rule(user, int(kind), name, known[operation], allowed)
        for kind, name in named
        if name is not None
        for operation in operations
    ]
    if not rules:
        raise LocalKafkaError(
            f"an access rule for user {user!r} needs a topic, a group or a transactional id, and an operation"
        )
    return rules


def create_rules(address: Address, rules: Sequence[Rule], *, timeout_s: float) -> Any:
    """The broker's answer; its `results` carry `error_code` and `error_message`."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=rule.resource_type,
            resource_name=rule.resource_name,
            resource_pattern_type=int(ACLResourcePatternType.LITERAL),
            principal=rule.principal,
            host="*",
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    return ask(address, CreateAclsRequest(creations=creations), CreateAclsResponse, ACLS_VERSION, timeout_s=timeout_s)


def delete_rules(address: Address, rules: Sequence[Rule], *, timeout_s: float) -> Any:
    """The broker's answer; its `filter_results` carry `error_code` and `error_message`."""
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=rule.resource_type,
            resource_name_filter=rule.resource_name,
            pattern_type_filter=int(ACLResourcePatternType.LITERAL),
            principal_filter=rule.principal,
            host_filter="*",
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    return ask(address, DeleteAclsRequest(filters=filters), DeleteAclsResponse, ACLS_VERSION, timeout_s=timeout_s)


def knows_rules(address: Address, rules: Sequence[Rule], there: bool, *, timeout_s: float) -> bool:
    """Whether the broker at `address` applies all these rules, or (if they are not to be `there`) none of them."""
    request = DescribeAclsRequest(
        resource_type_filter=int(ACLResourceType.ANY),
        resource_name_filter=None,
        pattern_type_filter=int(ACLResourcePatternType.ANY),
        principal_filter=None,
        host_filter=None,
        operation=int(ACLOperation.ANY),
        permission_type=int(ACLPermissionType.ANY),
    )
    answer = ask(address, request, DescribeAclsResponse, ACLS_VERSION, timeout_s=timeout_s)
    known = {
        (acl.principal, resource.resource_type, resource.resource_name, acl.operation, acl.permission_type)
        for resource in answer.resources
        for acl in resource.acls
    }
    wanted = {
        (rule.principal, rule.resource_type, rule.resource_name, rule.operation, rule.permission) for rule in rules
    }
    return wanted <= known if there else wanted.isdisjoint(known)


def presented(address: Address, *, timeout_s: float) -> str:
    """The certificate, in PEM, that the server at `address` presents."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only read, so any certificate is accepted.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(address, timeout_s) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as connection,
    ):
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")


class AccessHelpers(ChangeHelpers):
    """Users and access rules for tests, besides topics. `security`: what the brokers require of clients."""

    def __init__(self, security: Secured | None) -> None:
        self._security = security

    def allow(
        self,
        user: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        operations: Sequence[str] = ("read", "describe"),
    ) -> None:
        """Let a user do this to a topic, a group, a transactional id or several of them (`*`: every one).

        On return every running broker knows it.

        `operations`: Kafka's words in lower case: read, write, describe, all ... Rules stay as long as the data.
        Raises `BrokerError` when Kafka refuses, `LocalKafkaError` for other words, without `Secured(acls=True)`, and
        when it is not done in time.
        """
        self._add_rules(rules_for(user, topic, group, operations, allowed=True, transactional_id=transactional_id))

    def deny(
        self,
        user: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        operations: Sequence[str] = ("read", "describe"),
    ) -> None:
        """Forbid it, whatever else allows it; otherwise as `allow`."""
        self._add_rules(rules_for(user, topic, group, operations, allowed=False))

    def remove_rules(
        self,
        user: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        operations: Sequence[str] = ("read", "describe"),
        allowed: bool,
    ) -> None:
        """Take back what `allow` (`allowed=True`) or `deny` (`allowed=False`) did; on return every running broker has.

        A rule that is not there does no harm. Raises as they do.
        """
        rules = rules_for(user, topic, group, operations, allowed=allowed)
        what = self._about_rules(rules)
        for result in self._ask(what, REQUEST_TIMEOUT_S, delete_rules, rules).filter_results:
            requests.check(result, self.cluster_id, what)
        self._wait_for_all(what, knows_rules, rules, False)

    def change_password(self, user: str, password: str) -> None:
        """Give a SCRAM user another password, or make a new user; on return every running broker knows it.

        The old password opens no connection any more; those that are open stay. PLAIN keeps its own.
        Raises `BrokerError` when Kafka refuses, `LocalKafkaError` without SCRAM, and when it is not done in time.
        """
        mechanisms = self._security.scram_mechanisms if self._security is not None else []
        if not mechanisms:
            raise LocalKafkaError("passwords can be changed with one of SCRAM's mechanisms in Secured(...) alone")
        what = f"the password of user {user!r}"
        for mechanism in mechanisms:
            # Brokers tell everything of a password but itself, so a number of its own shows that it is known.
            iterations = ITERATIONS + secrets.randbelow(ITERATIONS)
            answer = self._ask(what, REQUEST_TIMEOUT_S, create_users, {user: password}, mechanism, iterations)
            for result in answer.results:
                requests.check(result, self.cluster_id, what)
            self._wait_for_all(what, knows_users, [user], [mechanism], iterations)

    def _about_rules(self, rules: Sequence[Rule]) -> str:
        if self._security is None or not self._security.acls:
            raise LocalKafkaError("brokers have access rules with security=Secured(..., acls=True) alone")
        return f"access rules for user {rules[0].user!r}"

    def _add_rules(self, rules: list[Rule]) -> None:
        what = self._about_rules(rules)
        for result in self._ask(what, REQUEST_TIMEOUT_S, create_rules, rules).results:
            requests.check(result, self.cluster_id, what)
        self._wait_for_all(what, knows_rules, rules, True)

    def create_users(self) -> None:
        """Create the SCRAM credentials; PLAIN has its users in the settings, OAUTHBEARER has none. For `LocalKafka`."""
        if self._security is None or not self._security.scram_mechanisms or not self._security.users:
            return
        users, mechanisms = self._security.users, self._security.scram_mechanisms
        what = f"users {', '.join(map(repr, users))}"
        for mechanism in mechanisms:
            for result in self._ask(what, REQUEST_TIMEOUT_S, create_users, users, mechanism).results:
                requests.check(result, self.cluster_id, what)
        self._wait_for_all(what, knows_users, list(users), mechanisms)

    def _wait_for_all(self, what: str, knows: Callable[..., bool], *arguments: Any) -> None:
        def all_know(left_s: float) -> bool:
            timeout_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
            return all(knows(address, *arguments, timeout_s=timeout_s) for address in self.addresses())

        requests.wait_until(all_know, what, REQUEST_TIMEOUT_S)
