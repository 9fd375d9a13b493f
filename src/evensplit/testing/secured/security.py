"""How the brokers of a `LocalKafka` are secured: what they require of clients, and the settings for that."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evensplit.errors import LocalKafkaError
from evensplit.testing.secured.certificates import BROKER_CERTIFICATES, Certificates

# The listener that clients are to use. Brokers among themselves, and this package, use the one named PLAINTEXT.
LISTENER = "SECURED"
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
CLIENT_CERTIFICATES = ("none", "requested", "required")
KEYSTORE = "ssl.keystore.location"

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True, slots=True)
class Secured:
    """What the brokers of a `LocalKafka` require of clients.

        Secured("SASL_SSL", users={"alice": "secret"})

    `protocol`: SSL (TLS alone), SASL_PLAINTEXT (users and passwords, in clear) or SASL_SSL (both).
    `users`: the password of each user, for SASL. They exist for every mechanism in `mechanisms`.
    `mechanisms`: one or more of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. The last takes the tokens of
    `unsecured_token`, for any name: it tests a client's side and secures nothing.
    `client_certificates`: with TLS, "none", "requested" (checked if there is one) or "required". Without SASL, the
    user is the certificate's common name: `client` for those of `LocalKafka.certificates`.
    `broker_certificate`: with TLS, "valid" (for 127.0.0.1 and localhost), "renewed" (another one that is
    valid), or one that no client should accept: "expired", or "other-host", which is for another host's name.
    `acls`: users may do only what `LocalKafka.allow` lets them do; without it, everything. Needs to know users: SASL,
    or certificates that are required.
    `session_lifetime_ms`: with SASL, how long a client may stay before it must authenticate again (KIP-368); None:
    for ever.

    Raises `LocalKafkaError`, with everything that is wrong at once. Its repr shows no password.
    """

    protocol: str
    users: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    mechanisms: Sequence[str] = ("SCRAM-SHA-512",)
    client_certificates: str = "none"
    broker_certificate: str = "valid"
    acls: bool = False
    session_lifetime_ms: int | None = None

    def __post_init__(self) -> None:
        problems = [*self._wrong_words(), *self._wrong_users(), *self._wrong_together()]
        if problems:
            raise LocalKafkaError(f"brokers cannot be secured like this: {'; '.join(problems)}")
        object.__setattr__(self, "users", dict(self.users))
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def scram_mechanisms(self) -> list[str]:
        """Those of `mechanisms` that keep their users in the cluster's metadata."""
        return [mechanism for mechanism in self.mechanisms if self.has_sasl and mechanism in SCRAM_MECHANISMS]

    def properties(self, certificates: Certificates | None) -> dict[str, str]:
        """The settings of every node. `certificates` is there if there is TLS. Holds PLAIN's passwords."""
        listener: dict[str, str] = {}
        if certificates is not None:
            listener |= {
                "ssl.keystore.type": "PEM",
                KEYSTORE: str(certificates.broker_pem(self.broker_certificate)),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.ca),
                "ssl.client.auth": self.client_certificates,
            }
        if self.has_sasl:
            listener["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            for mechanism in self.mechanisms:
                listener[f"{mechanism.lower()}.sasl.jaas.config"] = self._jaas_config(mechanism)
        properties = {of_listener(name): value for name, value in listener.items()}
        properties["listener.security.protocol.map"] = (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:{self.protocol}"
        )
        if self.has_tls:
            properties["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/"
            # Without this, Kafka refuses to replace a certificate by one for other hosts (KIP-978).
            properties["ssl.allow.san.changes"] = "true"
        if self.session_lifetime_ms is not None:
            properties["connections.max.reauth.ms"] = str(self.session_lifetime_ms)
        if self.acls:
            properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            properties["allow.everyone.if.no.acl.found"] = "false"
            # The user of the internal listener and of the controller.
            properties["super.users"] = "User:ANONYMOUS"
        return properties

    def _jaas_config(self, mechanism: str) -> str:
        if mechanism in SCRAM_MECHANISMS:
            return f"{SCRAM_MODULE} required;"
        if mechanism == "OAUTHBEARER":
            return f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="broker";'
        users = " ".join(f"{_quoted('user_' + name)}={_quoted(password)}" for name, password in self.users.items())
        return f"{PLAIN_MODULE} required {users};"

    def _wrong_words(self) -> list[str]:
        if isinstance(self.mechanisms, str):
            return [f"mechanisms must be a sequence of names, not the text {self.mechanisms!r}"]
        chosen = {
            "protocol": ([self.protocol], PROTOCOLS),
            "mechanisms": (self.mechanisms, MECHANISMS),
            "client_certificates": ([self.client_certificates], CLIENT_CERTIFICATES),
            "broker_certificate": ([self.broker_certificate], BROKER_CERTIFICATES),
        }
        problems = [
            f"{name} must be {'of' if name == 'mechanisms' else 'one of'} {', '.join(words)}, not {word!r}"
            for name, (given, words) in chosen.items()
            for word in given
            if word not in words
        ]
        lifetime = self.session_lifetime_ms
        if lifetime is not None and lifetime < 1:
            problems.append(f"session_lifetime_ms must be 1 or more, not {lifetime}")
        return problems

    def _wrong_users(self) -> list[str]:
        problems = []
        for name, password in self.users.items():
            if not name or "\0" in name:
                problems.append(f"a user needs a name without NUL characters, not {name!r}")
            if not password or "\0" in password:
                problems.append(f"user {name!r} needs a password without NUL characters")
        return problems

    def _wrong_together(self) -> list[str]:
        problems = []
        if self.has_sasl:
            if not self.mechanisms:
                problems.append(f"{self.protocol} needs a mechanism")
            if not self.users and set(self.mechanisms) - {"OAUTHBEARER"}:
                problems.append(f"{self.protocol} needs users")
        elif self.users or self.session_lifetime_ms is not None:
            problems.append("users and session_lifetime_ms need SASL_PLAINTEXT or SASL_SSL")
        if not self.has_tls and (self.client_certificates, self.broker_certificate) != ("none", "valid"):
            problems.append("certificates need SSL or SASL_SSL")
        if self.acls and not self.has_sasl and self.client_certificates != "required":
            problems.append('acls need users: SASL_PLAINTEXT, SASL_SSL, or client_certificates="required"')
        return problems


def of_listener(name: str) -> str:
    """A setting's name where it is to be for the secured listener alone."""
    return f"listener.name.{LISTENER.lower()}.{name}"


def unsecured_token(user: str, *, lifetime_s: float = 3600.0) -> str:
    """A token (RFC 7519, unsigned) with which `user` can log in by OAUTHBEARER for `lifetime_s` from now.

    A negative lifetime gives one that has expired.
    """
    now = time.time()
    begin, end = (now, now + lifetime_s) if lifetime_s > 0 else (now + lifetime_s - 1, now + lifetime_s)
    parts = ({"alg": "none"}, {"sub": user, "iat": begin, "exp": end})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join((*encoded, ""))


def _quoted(text: str) -> str:
    """`text` as a quoted word of a JAAS configuration, which Kafka splits as Java's StreamTokenizer does."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'
