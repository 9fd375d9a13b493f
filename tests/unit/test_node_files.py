"""Settings, identities and ports of the nodes of a local cluster."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import LocalKafkaError
from evensplit.testing import ExistingKafka, LocalKafka
from evensplit.testing.existing_kafka import parse_address
from evensplit.testing.node_files import Node, NodeFiles, escape, node_properties, random_kafka_id
from evensplit.testing.ports import free_ports, is_free

BOTH = Node(0, 21000, 21001)
CONTROLLER = Node(9000, None, 22000)


def unescape(text: str) -> str:
    """What Java's Properties.load makes of an escaped value."""
    units = bytearray()
    position = 0
    while position < len(text):
        if text.startswith("\\u", position):
            units += int(text[position + 2 : position + 6], 16).to_bytes(2, "big")
            position += 6
        else:
            assert text[position] not in "\\:=#! \n\r\t\f"
            units += ord(text[position]).to_bytes(2, "big")
            position += 1
    return units.decode("utf-16-be")


@given(st.text())
def test_java_reads_back_what_is_escaped(text: str) -> None:
    escaped = escape(text)
    assert escaped.isascii()
    assert unescape(escaped) == text


def test_ids_are_128_bits_and_begin_with_no_dash() -> None:
    ids = {random_kafka_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(len(base64.urlsafe_b64decode(each + "==")) == 16 for each in ids)
    assert not any(each.startswith("-") for each in ids)
    assert any("-" in each for each in ids), "only the first character matters"


def test_one_node_is_broker_and_controller() -> None:
    properties = node_properties(BOTH, BOTH, 1, Path("/data"), {"num.partitions": "9", "num.io.threads": "1"})
    assert properties["process.roles"] == "broker,controller"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:21000,CONTROLLER://127.0.0.1:21001"
    assert properties["controller.quorum.voters"] == "0@127.0.0.1:21001"
    assert properties["auto.create.topics.enable"] == "false"
    assert properties["offsets.topic.replication.factor"] == "1"
    assert (properties["num.partitions"], properties["num.io.threads"]) == ("9", "1")
    assert "broker.rack" not in properties


@pytest.mark.parametrize("brokers, replicas", [(2, "2"), (3, "3"), (5, "3")])
def test_several_brokers_have_a_controller_of_their_own(brokers: int, replicas: str) -> None:
    broker = node_properties(Node(1, 21001, None, "b"), CONTROLLER, brokers, Path("/data"), {})
    assert broker["process.roles"] == "broker"
    assert broker["listeners"] == broker["advertised.listeners"] == "PLAINTEXT://127.0.0.1:21001"
    assert broker["controller.quorum.voters"] == "9000@127.0.0.1:22000"
    assert broker["broker.rack"] == "b"
    for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert broker[f"{name}.replication.factor"] == replicas
    controller = node_properties(CONTROLLER, CONTROLLER, brokers, Path("/data"), {})
    assert controller["process.roles"] == "controller"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:22000"
    assert "advertised.listeners" not in controller


def test_a_formatted_directory_knows_its_cluster(tmp_path: Path) -> None:
    bootstrap = tmp_path / "bootstrap"
    bootstrap.write_bytes(b"features")
    files = NodeFiles(tmp_path / "node", tmp_path / "tmp")
    assert files.cluster_id() is None
    files.format("some-cluster", 4, bootstrap)
    assert files.cluster_id() == "some-cluster"
    assert (files.data / "bootstrap.checkpoint").read_bytes() == b"features"
    assert "node.id=4" in files.identity.read_text().splitlines()
    files.identity.write_text("version=1\n")
    with pytest.raises(LocalKafkaError, match=r"names no cluster\.id"):
        files.cluster_id()


def test_free_ports_are_different_free_and_not_handed_out_by_the_system() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(is_free(port) for port in ports)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not is_free(taken.getsockname()[1])
        assert taken.getsockname()[1] > max(ports)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"brokers": 0}, "brokers must be 1 or more"),
        ({"brokers": 2, "racks": ["a"]}, "one rack for each of the 2 brokers"),
        ({"start_timeout_s": 0}, "start_timeout_s must be above 0"),
        ({"properties": {"node.id": "1", "listeners": "x"}}, "cannot be given: listeners, node.id"),
    ],
)
def test_arguments_that_cannot_work(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(LocalKafkaError, match=said):
        LocalKafka(**arguments)  # type: ignore[arg-type]


def test_what_needs_a_start_says_so() -> None:
    kafka = LocalKafka(brokers=2)
    assert not kafka.is_running
    kafka.close()
    for use in (lambda: kafka.bootstrap_servers, lambda: kafka.cluster_id, lambda: kafka.broker(0), kafka.stop):
        with pytest.raises(LocalKafkaError, match="not started"):
            use()


@pytest.mark.parametrize("text, address", [("a:1", ("a", 1)), ("[::1]:9092", ("::1", 9092))])
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:b", ""])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(LocalKafkaError, match="host:port"):
        parse_address(text)


def test_an_existing_cluster_that_is_not_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(LocalKafkaError, match=rf"no broker of '127\.0\.0\.1:{port}' answers.*refused"):
        ExistingKafka(f"127.0.0.1:{port}")
