"""What this package tests itself with, for you to test your own jobs with: a real Kafka on this machine."""

from evensplit.testing.certificates import Certificates
from evensplit.testing.existing_kafka import ExistingKafka
from evensplit.testing.fake_kafka import FakeKafka
from evensplit.testing.jars import Progress, resolve_jars
from evensplit.testing.local_broker import LocalBroker
from evensplit.testing.local_kafka import LocalKafka
from evensplit.testing.prepared import Prepared, prepare
from evensplit.testing.security import Secured, unsecured_token
from evensplit.testing.topics import TopicHelpers

__all__ = [
    "Certificates",
    "ExistingKafka",
    "FakeKafka",
    "LocalBroker",
    "LocalKafka",
    "Prepared",
    "Progress",
    "Secured",
    "TopicHelpers",
    "prepare",
    "resolve_jars",
    "unsecured_token",
]
