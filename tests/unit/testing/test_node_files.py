"""Settings, identities and ports of the nodes of a local cluster."""

from __future__ import annotations

import base64
import errno
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import LocalKafkaError
from evensplit.testing import ExistingKafka, LocalKafka
from evensplit.testing.broker import local_kafka
from evensplit.testing.broker.existing_kafka import parse_address
from evensplit.testing.broker.node_files import Node, NodeFiles, escape, node_properties, random_kafka_id
from evensplit.testing.process.directory_lock import LOCK_FILE, locked_directory
from evensplit.testing.process.ports import free_ports, is_free, kept_ports

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


def test_kept_ports_are_those_of_the_last_time_if_they_are_free(tmp_path: Path) -> None:
    file = tmp_path / "ports"
    first = kept_ports(file, 2)
    assert kept_ports(file, 2) == first
    with socket.create_server(("127.0.0.1", first[1])):
        second = kept_ports(file, 2)
        assert first[1] not in second
    assert kept_ports(file, 2) == second
    assert len(kept_ports(file, 3)) == 3
    file.write_text("70000 1 nonsense\n")
    assert 70000 not in kept_ports(file, 2)


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


# --- a directory of one's own --------------------------------------------------------------------------------------

HOLDER = """
import os, sys
from pathlib import Path
from evensplit.testing.process.directory_lock import locked_directory

with locked_directory(Path(sys.argv[1])):
    if sys.argv[2] == "alone" or os.fork() == 0:
        print(os.getpid(), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def unprepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is prepared, and so no broker is started: whoever tries fails."""

    def prepare(progress: object) -> NoReturn:
        raise AssertionError("it went on")

    monkeypatch.setattr(local_kafka, "prepare", prepare)


def holder(directory: Path, how: str) -> subprocess.Popen[str]:
    """A process that holds the directory until it is told a line."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.lengthy
@pytest.mark.usefixtures("unprepared")
def test_a_directory_that_another_broker_has_is_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    with holder(home, "alone") as other:
        assert other.stdout is not None
        other.stdout.readline()
        expected = f"{home} is in use by the broker of process {other.pid}; stop it, or give another directory"
        with pytest.raises(LocalKafkaError) as caught:
            LocalKafka(directory=home).start()
        assert str(caught.value) == expected
        assert [path.name for path in home.iterdir()] == [LOCK_FILE]
        assert (home / LOCK_FILE).read_text() == str(other.pid)
        other.communicate("", timeout=60)
    with locked_directory(home):
        pass


def test_a_second_one_in_the_same_process_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with locked_directory(tmp_path):
        with (
            pytest.raises(LocalKafkaError, match=f"in use by the broker of process {os.getpid()};"),
            locked_directory(tmp_path),
        ):
            pass
        # It has not let go of what is not its own.
        with pytest.raises(LocalKafkaError, match="in use"), locked_directory(tmp_path):
            pass
    with locked_directory(tmp_path):
        pass


@pytest.mark.usefixtures("unprepared")
def test_a_start_that_fails_lets_go(tmp_path: Path) -> None:
    kafka = LocalKafka(directory=tmp_path)
    for _ in range(2):
        with pytest.raises(AssertionError, match="it went on"):
            kafka.start()
    with locked_directory(tmp_path):
        pass


@pytest.mark.lengthy
def test_whoever_is_killed_holds_nobody_up_nor_do_those_that_it_forked(tmp_path: Path) -> None:
    with holder(tmp_path, "fork") as other:
        assert other.stdout is not None
        forked = int(other.stdout.readline())
        other.kill()
        other.wait(60)
        try:
            with locked_directory(tmp_path):
                assert (tmp_path / LOCK_FILE).read_text() == str(os.getpid())
        finally:
            os.kill(forked, signal.SIGKILL)


def test_a_program_that_is_started_meanwhile_holds_nobody_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()"]
    with ExitStack() as programs:
        with locked_directory(tmp_path):
            child = programs.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False))
        with locked_directory(tmp_path):
            assert child.poll() is None
        child.communicate(b"\n", timeout=60)


@pytest.mark.usefixtures("unprepared")
@pytest.mark.parametrize(
    "name, reason", [("file", errno.EEXIST), ("file/x", errno.ENOTDIR), ("x" * 300, errno.ENAMETOOLONG)]
)
def test_a_directory_that_cannot_be_made(tmp_path: Path, name: str, reason: int) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalKafkaError) as caught:
        LocalKafka(directory=tmp_path / name).start()
    assert str(caught.value).startswith(f"{tmp_path / name} cannot be used: {os.strerror(reason)}")
    assert "; expected a directory that can be written to, or made. Give another one" in str(caught.value)


@pytest.mark.usefixtures("unprepared")
def test_a_directory_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Path.open

    def refused(path: Path, *arguments: Any) -> Any:
        if path.parent == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return known(path, *arguments)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(LocalKafkaError, match=rf"cannot be used: Permission denied \(.*{LOCK_FILE}\); expected"):
        LocalKafka(directory=tmp_path).start()
