"""Metadata documents with the security settings of clusters, and what a query makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataRefused
from evensplit.kafka.options.security import SecuritySettings
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from tests.support.clocks import Clock

PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
MODULE = 'PlainLoginModule required username="x" password="{}";'
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "OAuthBearerLoginModule required;",
}
ID_AND_SECRET = {
    "sasl.oauthbearer.client.credentials.client.id": "job",
    "sasl.oauthbearer.client.credentials.client.secret": "theirs",
}
KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
KEYTAB = 'Krb5LoginModule required useKeyTab=true keyTab="{}" principal="j";'
SSL = {"security.protocol": "SSL"}
OWN_LOGIN = {f"kafka.{name}": value for name, value in PLAIN.items()} | {
    "kafka.sasl.jaas.config": MODULE.format("${env:OWN}")
}


def login(module: str, **properties: str) -> dict[str, str]:
    return {**PLAIN, "sasl.jaas.config": module, **properties}


class Document:
    """A metadata file with clusters of these properties, and what a query makes of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *properties: Mapping[str, Any], **fields: Any) -> None:
        clusters = [
            {"clusterId": f"c{n}", "bootstrapServers": f"b{n}:1", "topics": ["t"], "properties": one, **fields}
            for n, one in enumerate(properties)
        ]
        self.path.write_text(json.dumps([{"streamId": "s", "clusterMetadataList": clusters}]))

    def fleet(self, clock: Clock, **options: str) -> MetadataPoller:
        wanted = parse_options({"metadata": str(self.path), **options})
        return MetadataPoller(wanted, scheduler=Scheduler(monotonic=clock))

    def accept(self, **options: str) -> list[SecuritySettings]:
        """The security settings of its clusters."""
        fleet = self.fleet(Clock(0.0), **options)
        fleet.refresh(EnumeratorState(), patient=True)
        return [one.settings.security for one in fleet.clusters]

    def refuse(self, **options: str) -> tuple[str, ...]:
        """The reason for which it is refused."""
        with pytest.raises(MetadataRefused) as caught:
            self.accept(**options)
        assert caught.value.source == str(self.path)
        return caught.value.problems
