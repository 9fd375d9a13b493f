"""LocalKafka with real brokers: outages, clusters, and that nothing is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.testing import ExistingKafka, LocalKafka
from evensplit.testing.admin import requests
from evensplit.testing.process.keeper import Keeper
from evensplit.testing.process.ports import free_ports
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        bool(os.environ.get("EVENSPLIT_TEST_BOOTSTRAP")), reason="about brokers started here, not given ones"
    ),
]

UNKNOWN_TOPIC = 3
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
GONE_WITHIN_S = 60.0


def produce(kafka: LocalKafka, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all", "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def consume(kafka: LocalKafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            messages = consumer.consume(count - len(values), timeout=0.5)
            values += [value for message in messages if (value := message.value()) is not None]
        return values
    finally:
        consumer.close()


def listed(address: tuple[str, int], topic: str) -> Any:
    return requests.metadata(address, [topic], timeout_s=60).topics[0]


def was_recovered(kafka: LocalKafka, topic: str) -> bool:
    """Whether a broker found the topic's log as a crash leaves it."""
    lines = kafka.broker(0).log.read_text().splitlines()
    return any("Recovering unflushed segment" in line and f"partition={topic}-0" in line for line in lines)


def is_up(kafka: LocalKafka) -> bool:
    """`is_running` as a call, so that it is not taken for unchanged since it was last looked at."""
    return kafka.is_running


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for its parent to notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def paused(kafka: LocalKafka) -> Iterator[None]:
    kafka.pause()
    try:
        yield
    finally:
        kafka.resume()


# --- outages -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_data_survive_sigkill_and_a_restart_on_the_same_port(own_kafka: LocalKafka) -> None:
    own_kafka.create_topic("kept")
    values = [b"%d" % number for number in range(500)]
    produce(own_kafka, "kept", values)
    before, pid = own_kafka.bootstrap_servers, own_kafka.broker(0).pid
    assert pid is not None

    own_kafka.kill()
    assert not is_alive(pid)
    assert not is_up(own_kafka)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", own_kafka.broker(0).port), 1).close()

    own_kafka.start()
    assert is_up(own_kafka)
    assert own_kafka.bootstrap_servers == before
    assert consume(own_kafka, "kept", len(values)) == values
    assert was_recovered(own_kafka, "kept"), "otherwise it was no SIGKILL"


@pytest.mark.slow
def test_stop_and_start_keep_data_and_ports(own_kafka: LocalKafka) -> None:
    own_kafka.create_topic("kept", partitions=3)
    before, cluster = own_kafka.bootstrap_servers, own_kafka.cluster_id
    own_kafka.stop()
    assert not is_up(own_kafka)
    own_kafka.stop()  # it is down already: nothing to do
    own_kafka.start()
    assert (own_kafka.bootstrap_servers, own_kafka.cluster_id) == (before, cluster)
    assert len(listed(own_kafka.addresses()[0], "kept").partitions) == 3
    assert not was_recovered(own_kafka, "kept"), "an orderly shutdown leaves nothing to recover"


def test_a_paused_broker_answers_when_it_is_resumed(own_kafka: LocalKafka) -> None:
    address = own_kafka.addresses()[0]
    answers: list[Any] = []
    patient = threading.Thread(target=lambda: answers.append(requests.metadata(address, [], timeout_s=120)))
    with paused(own_kafka):
        assert own_kafka.broker(0).is_paused
        assert is_up(own_kafka)
        with pytest.raises(TimeoutError):
            requests.metadata(address, [], timeout_s=0.3)
        with pytest.raises(LocalKafkaError, match=r"no broker of .* is running"):
            own_kafka.create_topic("nobody-answers")
        patient.start()
    patient.join(120)
    assert [answer.cluster_id for answer in answers] == [own_kafka.cluster_id]
    assert not own_kafka.broker(0).is_paused


@pytest.mark.slow
def test_a_broker_that_dies_by_itself_is_noticed() -> None:
    with LocalKafka() as kafka:
        directory = kafka.broker(0).log.parent
        pid = kafka.broker(0).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not kafka.is_running, what="the death is noticed")
        with pytest.raises(
            LocalKafkaError, match=r"(?s)broker 0 at 127\.0\.0\.1:\d+ died by itself with -9.*Kafka Server"
        ):
            kafka.stop()
        kafka.start()
        second = kafka.broker(0).pid
        assert second is not None
        os.kill(second, signal.SIGKILL)
        wait_for(lambda: not kafka.is_running, what="the death is noticed")
        with pytest.raises(LocalKafkaError, match="died by itself"):
            kafka.close()
        assert not directory.exists()


# --- clusters ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_three_brokers_on_racks_fail_over_and_come_back() -> None:
    with LocalKafka(brokers=3, racks=["a", "b", "c"]) as kafka:
        assert len(kafka.bootstrap_servers.split(",")) == 3
        for address in kafka.addresses():
            known = requests.metadata(address, [], timeout_s=60)
            assert [(each.node_id, each.rack) for each in known.brokers] == [(0, "a"), (1, "b"), (2, "c")]
        kafka.create_topic("replicated", partitions=3, replication_factor=3)

        kafka.kill(0)
        kafka.pause(1)
        assert not is_up(kafka)
        survivor = ("127.0.0.1", kafka.broker(2).port)
        wait_for(
            lambda: {each.leader_id for each in listed(survivor, "replicated").partitions} == {2},
            what="the last broker leads all partitions",
        )
        kafka.resume()
        kafka.broker(0).start()
        assert is_up(kafka)
        assert len(kafka.addresses()) == 3
        kafka.stop()
        assert not any(broker.is_running for broker in kafka.brokers)


def test_two_clusters_at_once_and_helpers(own_kafka: LocalKafka, kafka: LocalKafka, topic: str) -> None:
    assert own_kafka.cluster_id != kafka.cluster_id
    assert not set(own_kafka.bootstrap_servers.split(",")) & set(kafka.bootstrap_servers.split(","))
    own_kafka.create_topic(topic, partitions=2, config={"cleanup.policy": "compact"})
    assert len(listed(own_kafka.addresses()[0], topic).partitions) == 2
    assert listed(kafka.addresses()[0], topic).error_code == UNKNOWN_TOPIC

    existing = ExistingKafka(own_kafka.bootstrap_servers)
    assert existing.cluster_id == own_kafka.cluster_id
    existing.add_partitions(topic, 5)
    assert len(listed(own_kafka.addresses()[0], topic).partitions) == 5
    refusals: list[tuple[Callable[[], None], int]] = [
        (lambda: own_kafka.create_topic(topic), TOPIC_EXISTS),
        (lambda: own_kafka.add_partitions(topic, 5), INVALID_PARTITIONS),
        (lambda: own_kafka.delete_topic("never-was"), UNKNOWN_TOPIC),
    ]
    for refused, code in refusals:
        with pytest.raises(BrokerError) as caught:
            refused()
        assert (caught.value.code, caught.value.cluster) == (code, own_kafka.cluster_id)
    own_kafka.delete_topic(topic)
    assert listed(own_kafka.addresses()[0], topic).error_code == UNKNOWN_TOPIC


@pytest.mark.slow
def test_a_directory_of_ones_own_is_kept_and_used_again(tmp_path: Path) -> None:
    with LocalKafka(directory=tmp_path / "kafka") as first:
        cluster, servers = first.cluster_id, first.bootstrap_servers
        first.create_topic("kept", partitions=7)
    with LocalKafka(directory=tmp_path / "kafka") as second:
        assert (second.cluster_id, second.bootstrap_servers) == (cluster, servers)
        assert len(listed(second.addresses()[0], "kept").partitions) == 7


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_port_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        mine = taken.getsockname()[1]
        calls: list[int] = []

        def racing(count: int) -> list[int]:
            calls.append(count)
            return [mine, *free_ports(count - 1)] if len(calls) == 1 else free_ports(count)

        monkeypatch.setattr("evensplit.testing.process.ports.free_ports", racing)
        with LocalKafka() as kafka:
            assert len(calls) == 2
            assert kafka.broker(0).port != mine
            kafka.create_topic("works")


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def keeper() -> Keeper:
        started = Keeper(tmp_path)
        made.append(started.directory)
        return started

    monkeypatch.setattr("evensplit.testing.broker.local_kafka.Keeper", keeper)
    kafka = LocalKafka(properties={"num.io.threads": "none"})
    with pytest.raises(LocalKafkaError, match=r"(?s)broker 0 .* ended with 1\. .*num\.io\.threads"):
        kafka.start()
    assert not is_up(kafka)
    assert [directory.parent for directory in made] == [tmp_path]
    assert not list(tmp_path.iterdir())
    with pytest.raises(LocalKafkaError, match="not started"):
        kafka.bootstrap_servers  # noqa: B018


# --- nothing is left -----------------------------------------------------------------------------------------------

USER = """
import json, os, sys
from evensplit.testing import LocalKafka

def main():
    with LocalKafka() as kafka:
        broker = kafka.broker(0)
        print(json.dumps({"pid": broker.pid, "directory": str(broker.log.parent.parent)}), flush=True)
        end = sys.stdin.readline().strip()
        if end == "raise":
            raise RuntimeError("on purpose")
        if end == "hang":
            sys.stdin.readline()
main()
"""


def process_of(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *([] if not code else ["-c", code]), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


@pytest.mark.parametrize(
    "end, number, code",
    [
        pytest.param("return", None, 0, id="the block ends"),
        pytest.param("raise", None, 1, id="an exception"),
        pytest.param("hang", signal.SIGINT, -signal.SIGINT, id="Ctrl-C"),
        pytest.param("hang", signal.SIGTERM, -signal.SIGTERM, id="SIGTERM"),
        pytest.param("hang", signal.SIGKILL, -signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_nothing_is_left_when_the_using_process_ends(end: str, number: signal.Signals | None, code: int) -> None:
    with process_of(USER) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        told = json.loads(user.stdout.readline())
        pids = [told["pid"], *children_of(user.pid)]
        directory = Path(told["directory"])
        assert len(pids) == 2, "the broker, and the keeper as the only child"
        assert all(map(is_alive, pids))
        assert directory.is_dir()
        if number is None:
            user.stdin.write(end + "\n")
            user.stdin.flush()
        else:
            user.send_signal(number)
        _, errors = user.communicate(timeout=120)
    assert user.returncode == code, errors
    assert ("RuntimeError: on purpose" in errors) == (end == "raise")
    wait_for(lambda: not any(map(is_alive, pids)), within_s=GONE_WITHIN_S, what="broker and keeper are gone")
    wait_for(lambda: not directory.exists(), within_s=GONE_WITHIN_S, what="the directory is gone")


def test_the_command_runs_brokers_until_ctrl_c() -> None:
    arguments = ["--topic", "clicks:3", "--topic", "plain", "--property", "num.partitions=2"]
    with process_of("", "-m", "evensplit.cli", "broker", *arguments) as command:
        assert command.stdout is not None
        bootstrap = command.stdout.readline().strip()
        kafka = ExistingKafka(bootstrap)
        assert len(listed(kafka.addresses()[0], "clicks").partitions) == 3
        assert len(listed(kafka.addresses()[0], "plain").partitions) == 1
        keeper = children_of(command.pid)
        pids = [*keeper, *(child for pid in keeper for child in children_of(pid))]
        assert len(pids) == 2
        command.send_signal(signal.SIGINT)
        output, errors = command.communicate(timeout=120)
    assert command.returncode == 0, errors
    assert output == ""
    assert bootstrap in errors
    assert "Ctrl-C" in errors
    wait_for(lambda: not any(map(is_alive, pids)), within_s=GONE_WITHIN_S, what="broker and keeper are gone")


def test_the_command_goes_on_with_its_directory(tmp_path: Path) -> None:
    arguments = ["broker", "--topic", "clicks:3", "--directory", str(tmp_path / "kept")]
    for attempt in range(2):
        with process_of("", "-m", "evensplit.cli", *arguments) as command:
            assert command.stdout is not None
            bootstrap = command.stdout.readline().strip()
            kafka = ExistingKafka(bootstrap)
            assert len(listed(kafka.addresses()[0], "clicks").partitions) == 3
            with process_of("", "-m", "evensplit.cli", *arguments) as second:
                output, errors = second.communicate(timeout=120)
            assert (second.returncode, output) == (1, "")
            told = f"Error: {tmp_path / 'kept'} is in use by the broker of process {command.pid}; stop it, or give"
            assert errors.startswith(told)
            assert len(listed(kafka.addresses()[0], "clicks").partitions) == 3
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=120)
        assert command.returncode == 0, errors
        assert ("topic clicks is in the directory from before" in errors) == (attempt == 1)


def test_the_command_shows_errors_as_messages() -> None:
    with process_of("", "-m", "evensplit.cli", "broker", "--property", "node.id=7") as command:
        output, errors = command.communicate(timeout=120)
    assert (command.returncode, output) == (1, "")
    assert errors.startswith("Error: properties that LocalKafka sets itself cannot be given: node.id")
