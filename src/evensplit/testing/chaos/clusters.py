"""The two clusters of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evensplit.testing.broker.local_kafka import LocalKafka
from evensplit.testing.chaos.history.events import ClusterStarted
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.secured.security import Secured

USERS = {"reader": "reads-at-first", "other-reader": "reads-later"}
CLIENT_ID = "evensplit-chaos"
HEAP = ("-Xmx320m",)
QUICK = {
    # Rules of topics are looked at this often, so retention and compaction happen within a run.
    "log.retention.check.interval.ms": "2000",
    "log.cleaner.backoff.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    # Transactions that a writer has left open hold up all readers.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "replica.lag.time.max.ms": "5000",
    # Brokers forget an idempotent producer by the timestamps of its records: while the clocks of writers are days late,
    # what they send again would be there twice.
    "producer.id.expiration.ms": "2000000000",
}


@dataclass(slots=True)
class ChaosCluster:
    """One cluster of a run. Its brokers have proxies for the job; writers and administration go past them."""

    name: str
    """In the run, whatever the metadata call it."""
    kafka: LocalKafka
    user: str = ""
    """The user that the job logs in as; empty if no login is asked for."""
    passwords: dict[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        """The addresses for the job."""
        return self.kafka.bootstrap_servers

    @property
    def replicas(self) -> int:
        """How many replicas a topic gets."""
        return min(3, len(self.kafka.brokers))

    def source_properties(self) -> dict[str, str]:
        """The properties with which the job can read now, as metadata have them: without `kafka.`."""
        found = {"client.id": CLIENT_ID}
        if self.user:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            login = f'{module} required username="{self.user}" password="{self.passwords[self.user]}";'
            found |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": login,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.kafka.certificates.ca),
            }
        return found

    def writer_settings(self) -> dict[str, Any]:
        """Settings of librdkafka for a client that goes past proxies and logins."""
        return {"bootstrap.servers": self.kafka.internal_servers, "log_level": 0}


@contextmanager
def start_clusters(directory: Path, recorder: Recorder) -> Iterator[dict[str, ChaosCluster]]:
    """Start both clusters, below `directory`, for the `with` block: by name.

    `east` has three brokers, a controller of its own, and no security. `west` has one broker, which asks for TLS and a
    login, and has access rules.
    """
    secured = Secured("SASL_SSL", users=USERS, acls=True)
    with ExitStack() as stack:
        east = _local(directory / "east", brokers=3, properties={**QUICK, "min.insync.replicas": "2"})
        west = _local(directory / "west", security=secured, properties=QUICK)
        clusters = {
            "east": ChaosCluster("east", stack.enter_context(east)),
            "west": ChaosCluster("west", stack.enter_context(west), "reader", dict(USERS)),
        }
        for user in USERS:
            west.allow(user, topic="*")
        for name, one in clusters.items():
            kafka = one.kafka
            recorder.record(ClusterStarted(cluster=name, cluster_id=kafka.cluster_id, brokers=len(kafka.brokers)))
        yield clusters


def _local(directory: Path, **settings: Any) -> LocalKafka:
    return LocalKafka(directory=directory, proxied=True, jvm_options=HEAP, start_timeout_s=240, **settings)
