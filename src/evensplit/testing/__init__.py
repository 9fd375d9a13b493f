"""What this package tests itself with, for you to test your own jobs with: a real Kafka on this machine."""

from evensplit.testing.jars import Progress, resolve_jars
from evensplit.testing.local_broker import LocalBroker
from evensplit.testing.local_kafka import LocalKafka

__all__ = ["LocalBroker", "LocalKafka", "Progress", "resolve_jars"]
