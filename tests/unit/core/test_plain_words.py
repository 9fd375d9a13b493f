"""Texts of others in errors and logs: a broker, a service or a document cannot write lines of its own there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.core.model import TopicPattern
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import SAID_CHARACTERS_MAX, plain, short, some
from evensplit.errors import AuthenticationError, ClusterUnreachable, MetadataError
from evensplit.kafka.admin.cluster_session import Session
from evensplit.kafka.admin.groups import _Attempts
from evensplit.kafka.admin.protocol import TopicState, list_subscribed
from evensplit.kafka.auth.login import _refused, log_in
from evensplit.kafka.auth.oauth import open_oauth
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.wire.api import FIND_COORDINATOR, METADATA, SASL_HANDSHAKE
from evensplit.kafka.wire.responses import SaslAuthenticate, SaslHandshake
from evensplit.metadata import ClusterMetadata, Metadata, Stream, parse_document
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import parse_options
from evensplit.testing.messages import response_class, write_response
from tests.support.client_options import TOKENS, understood
from tests.support.metadata_hosts import Service

HOSTILE = "x\n2026-11-22 INFO evensplit: all is well\x1b[2J\r\x9b1m\u202e\u2066\u2028\u2029\0"
LONG = HOSTILE + "y" * 100_000


def is_plain(text: str, characters_max: int = 2_000) -> bool:
    return text.isprintable() and len(text) <= characters_max and "\\n2026" in text


def test_what_is_written_out() -> None:
    assert plain("orders [bold] é") == "orders [bold] é"
    assert plain("a\nb\x1b[0m\x9b\u202e\u2069\u2028\ud800") == r"a\nb\x1b[0m\x9b\u202e\u2069\u2028\ud800"
    assert short("abc", 3) == "abc"
    assert short("a\ncd", 3) == r"a\nc…"
    assert short("x" * SAID_CHARACTERS_MAX) == "x" * SAID_CHARACTERS_MAX
    assert len(short("x" * 1_000)) == SAID_CHARACTERS_MAX + 1


def test_the_first_of_several() -> None:
    assert some([]) == ""
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(range(1, 2_001)) == "1, 2, 3, … 2,000 in all"
    assert some("abc", 2, "; ") == "a; b; … 3 in all"


def test_why_a_broker_refuses_a_login() -> None:
    options: Any = SimpleNamespace(mechanism="PLAIN", module={"a": "b"})
    for code in (58, 35):
        answer = SaslAuthenticate(code, f"{LONG} hunter2", b"", 0)
        assert is_plain(str(_refused("c", "h:1", options, answer, ["hunter2"])))


def test_the_mechanisms_that_a_broker_has() -> None:
    settings = understood(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'PlainLoginModule required username="a" password="b";',
        }
    )
    options = settings.security.resolve("c").sasl
    assert options is not None

    def ask(api: Any, _: Any) -> Any:
        assert api is SASL_HANDSHAKE
        return SaslHandshake(33, [f"A{LONG}", *(f"B{n}" for n in range(10_000))])

    with pytest.raises(AuthenticationError) as caught:
        log_in("c", ("h", 1), options, ask, Deadline.after(5))
    assert is_plain(str(caught.value))


def test_hosts_and_cluster_ids_that_a_broker_names() -> None:
    session = Session("c", understood({}))
    version, named = METADATA.highest, response_class(METADATA)
    broker = named.MetadataResponseBroker(version=version, node_id=1, host=LONG, port=1, rack=None)
    written = write_response(METADATA, named(version=version, cluster_id=LONG, brokers=[broker], topics=[]), version)
    session._learn(METADATA.decode(memoryview(written), version, Deadline.after(5)), of_all=True)
    (found,) = session.brokers.values()
    assert is_plain(found.host)
    with pytest.raises(ClusterUnreachable) as caught:
        session.connection(found.address, Deadline.after(5))
    assert is_plain(str(caught.value), 5_000)
    assert is_plain(session._cluster_id)
    session.close()


def test_where_a_group_is_coordinated() -> None:
    version = FIND_COORDINATOR.highest
    one = response_class(FIND_COORDINATOR).Coordinator(version=version, key="group", node_id=1, host=LONG, port=1)
    written = write_response(
        FIND_COORDINATOR, response_class(FIND_COORDINATOR)(version=version, coordinators=[one]), version
    )
    answer = FIND_COORDINATOR.decode(memoryview(written), version, Deadline.after(5))
    session: Any = SimpleNamespace(settings=understood({}), coordinators={}, ask_any=lambda *_: answer)
    address = _Attempts(session, "group", Deadline.after(5))._find()
    assert address is not None
    host, _ = address
    assert is_plain(host)


def test_topics_that_cannot_be_one_are_said_and_not_read() -> None:
    topics = [TopicState(name=name, topic_id="", internal=False, partitions=[0]) for name in ("t", HOSTILE)]
    found = list_subscribed(TopicPattern("."), "c", topics)
    assert [one.topic for one in found.partitions] == ["t"]
    (sentence,) = found.incomplete
    assert sentence.isprintable()
    assert "no topic of Kafka" in sentence
    assert all(name.isprintable() for name in found.unlisted)


def test_properties_that_a_document_names() -> None:
    def documented(properties: str) -> str:
        cluster = f'{{"clusterId": "c", "bootstrapServers": "b:1", "topics": ["t"], "properties": {properties}}}'
        return f'{{"clusterMetadataList": [{cluster}], "streamId": '

    name = '"x\\n2026 all is well"'
    text = f'[{documented(f"{{{name}: 1}}")} "a"}}, {documented(f"{{{name}: 2}}")} "b"}}]'
    with pytest.raises(MetadataError) as caught:
        parse_document(text.encode(), "fleet", "json")
    assert is_plain(str(caught.value))


@pytest.mark.parametrize(
    "answer",
    [
        ValueError(LONG),
        MetadataError("there", [LONG]),
        Metadata((Stream("s", (ClusterMetadata("c", ("b:1",), ("t",), {HOSTILE: "1"}),)),)),
    ],
)
def test_what_a_service_says(answer: Metadata | Exception) -> None:
    fleet = MetadataPoller(parse_options({"metadata": "f.yaml"}), opened=lambda _: Service(answer))
    with pytest.raises(MetadataError) as caught:
        fleet.refresh(EnumeratorState(), patient=True)
    assert is_plain(str(caught.value), 10_000)


def test_a_token_endpoint_that_a_document_names() -> None:
    values = {
        **TOKENS,
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/\x1b[2J\u202ex",
        "sasl.jaas.config": 'OAuthBearerLoginModule required clientId="a" clientSecret="b";',
    }
    options = understood(values).security.resolve("c").sasl
    assert options is not None
    with pytest.raises((ClusterUnreachable, AuthenticationError)) as caught:
        open_oauth("c", options, Deadline.after(5))
    assert str(caught.value).isprintable()
