"""Options of Kafka's clients: what they mean, and what is said of wrong ones. SENTINEL stands for what is secret."""

from __future__ import annotations

from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.kafka.options.local_access import EVERYTHING, Allowed

SERVERS = {"bootstrap.servers": "b1:9092"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="SENTINEL";'
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
KERBEROS = {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"}
OAUTH_MODULE = "OAuthBearerLoginModule required"
TOKENS = {**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://login.example/token"}
TOKENS_MODULE = f'{OAUTH_MODULE} clientId="a" clientSecret="b"'


def understood(values: dict[str, str], theirs: tuple[str, ...] = (), allowed: Allowed = EVERYTHING) -> ClientSettings:
    settings, problems, _ = parse_settings({**SERVERS, **values}, theirs, allowed)
    assert problems == []
    assert settings is not None
    return settings


def problems(values: dict[str, str]) -> list[str]:
    settings, found, _ = parse_settings({**SERVERS, **values})
    assert (settings is None) == bool(found)
    assert "SENTINEL" not in "".join(found)
    return found
