"""Credentials that are rotated under a running query: the metadata names the new ones before the old ones are gone."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, admin

from evensplit.kafka.options.client import split_address
from evensplit.testing import LocalKafka, Secured
from evensplit.testing.admin.access import knows_users
from tests.support.relay import Relay
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(os.environ.get("EVENSPLIT_TEST_BOOTSTRAP")), reason="about brokers started here, not given ones"
    ),
]

MECHANISM = "SCRAM-SHA-512"
USERS = {"old": "goes-soon", "new": "stays-here", "writer": "writes-all"}
WITHIN_S = 60.0


def witness(kafka: LocalKafka, user: str) -> dict[str, Any]:
    """How librdkafka logs in."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
    }


def login(user: str) -> dict[str, str]:
    """How the metadata say it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "client.id": user,
        "sasl.jaas.config": f'{module} required username="{user}" password="{USERS[user]}";',
    }


def write(kafka: LocalKafka, topic: str, values: range) -> None:
    failures: list[KafkaError] = []
    producer = Producer(witness(kafka, "writer"))
    for value in values:
        partition = value % 2
        producer.produce(
            topic,
            b"%d" % value,
            partition=partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WITHIN_S) == 0
    assert failures == []


def test_nothing_is_lost_when_the_old_ones_are_gone(world: World) -> None:
    secured = Secured("SASL_PLAINTEXT", users=USERS, mechanisms=(MECHANISM,))
    with LocalKafka(security=secured) as kafka, Relay(split_address(kafka.bootstrap_servers)) as relay:
        topic = world.cluster("east", kafka).topic(partitions=2)
        write(kafka, topic.name, range(20))
        world.publish(topic, servers=relay.servers, properties=login("old"))
        with world.live() as query:

            def reads(count: int) -> None:
                query.wait_for_state(lambda _: len(query.rows()) >= count, f"{count} records")
                assert sorted(int(row.value) for row in query.rows()) == list(range(count))

            reads(20)
            world.publish(topic, servers=relay.servers, properties=login("new"))
            wait_for(lambda: "new" in relay.clients, what="a connection of the driver with the new ones")
            write(kafka, topic.name, range(20, 40))
            reads(40)
            # The old ones are gone, and so are all connections that they were good for.
            client = admin.AdminClient(witness(kafka, "writer"))
            # confluent-kafka's types do not have them.
            kinds: Any = admin
            gone = kinds.UserScramCredentialDeletion("old", kinds.ScramMechanism.SCRAM_SHA_512)
            for done in client.alter_user_scram_credentials([gone]).values():
                done.result(WITHIN_S)
            known = partial(knows_users, kafka.addresses()[0], ["old"], [MECHANISM], timeout_s=WITHIN_S)
            wait_for(lambda: not known(), what="the end of the old credentials")
            kafka.kill()
            kafka.start()
            with pytest.raises(KafkaException):
                admin.AdminClient(witness(kafka, "old")).list_topics(timeout=10)
            write(kafka, topic.name, range(40, 60))
            reads(60)
            assert query.losses() == []
            assert not any(one.moves or one.retained for one in query.changes())
