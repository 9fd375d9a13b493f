"""What this package tests itself with, for you to test your own jobs with: a real Kafka on this machine,
and a real schema registry."""

from evensplit.testing.admin.topics import TopicHelpers
from evensplit.testing.broker.existing_kafka import ExistingKafka
from evensplit.testing.broker.local_broker import LocalBroker
from evensplit.testing.broker.local_kafka import LocalKafka
from evensplit.testing.broker.prepared import Prepared, prepare
from evensplit.testing.fake_kafka import FakeKafka
from evensplit.testing.network.proxy import NetworkProxy, Trouble
from evensplit.testing.process.jars import Progress, resolve_jars
from evensplit.testing.registry.local_registry import LocalRegistry
from evensplit.testing.secured.certificates import Certificates
from evensplit.testing.secured.security import Secured, unsecured_token

__all__ = [
    "Certificates",
    "ExistingKafka",
    "FakeKafka",
    "LocalBroker",
    "LocalKafka",
    "LocalRegistry",
    "NetworkProxy",
    "Prepared",
    "Progress",
    "Secured",
    "TopicHelpers",
    "Trouble",
    "prepare",
    "resolve_jars",
    "unsecured_token",
]
