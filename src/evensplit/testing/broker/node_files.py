"""The files of one node of a `LocalKafka` cluster, and the command that runs it."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.ports import HOST
from evensplit.testing.secured.security import LISTENER

# These say what a node is and where; the harness would lose its own brokers if they were changed.
OWN_PROPERTIES = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)

# C1 alone starts in two thirds of the time; a broker that is to be fast for long gets C2 back with
# jvm_options=["-XX:TieredStopAtLevel=4"]. UsePerfData would leave a file in /tmp after SIGKILL.
JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
    "-Djava.awt.headless=true",
    "-Dlog4j2.disable.jmx=true",
)

LOG_SETTINGS = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}} %m%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a cluster: a broker if it has `port`, a controller if it has `controller_port`, or both.

    With an `internal_port`, a broker has no security there; `port` is then for clients alone, and may be secured.
    With a `proxy_port`, clients are told to come there.
    """

    node_id: int
    port: int | None
    controller_port: int | None
    rack: str | None = None
    internal_port: int | None = None
    proxy_port: int | None = None

    @property
    def roles(self) -> str:
        roles = {"broker": self.port, "controller": self.controller_port}
        return ",".join(role for role, port in roles.items() if port is not None)

    @property
    def ports(self) -> list[int]:
        return [port for port in (self.port, self.internal_port, self.controller_port) if port is not None]

    @property
    def listeners(self) -> str:
        """Where clients and other brokers find it, as Kafka writes it; nothing for a controller."""
        ports = {"PLAINTEXT": self.port}
        if self.internal_port is not None:
            ports = {LISTENER: self.port, "PLAINTEXT": self.internal_port}
        return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items() if port is not None)

    @property
    def advertised_listeners(self) -> str:
        """As `listeners`, with the proxy in the place of the listener for clients."""
        if self.proxy_port is None:
            return self.listeners
        return f"{LISTENER}://{HOST}:{self.proxy_port},PLAINTEXT://{HOST}:{self.internal_port}"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files of one node: all in `directory`, except the JVM's temporary ones in `temporary`.

    There codecs unpack their native libraries, which stay if the broker is killed.
    """

    directory: Path
    temporary: Path

    @property
    def settings(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_settings(self) -> Path:
        return self.directory / "log4j2.properties"

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.directory / "broker.log"

    @property
    def console(self) -> Path:
        """Standard output and error of the JVM; mostly empty."""
        return self.directory / "console.log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def identity(self) -> Path:
        return self.data / "meta.properties"

    def output(self) -> str:
        """All that the broker and its JVM have written, the log first."""
        texts = (file.read_text(errors="replace") for file in (self.log, self.console) if file.exists())
        return "\n".join(texts)

    def cluster_id(self) -> str | None:
        """The id of the cluster that the data belongs to; None before it is formatted."""
        if not self.identity.exists():
            return None
        lines = self.identity.read_text().splitlines()
        pairs = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        if "cluster.id" not in pairs:
            raise LocalKafkaError(f"{self.identity} names no cluster.id; is {self.directory} damaged? Remove it")
        return pairs["cluster.id"]

    def format(self, cluster_id: str, node_id: int, bootstrap: Path) -> None:
        """Do the same as `kafka-storage format`, without its JVM: `bootstrap` is a bootstrap.checkpoint made by it.

        That file holds the feature levels alone and is the same for every cluster of one Kafka version; who a
        node is stands in meta.properties (version 1: KIP-631, with the directory id of KIP-858).
        """
        self.data.mkdir(parents=True)
        shutil.copyfile(bootstrap, self.data / "bootstrap.checkpoint")
        # Written last and atomically: a directory is formatted when this file is there.
        draft = self.identity.with_suffix(".draft")
        draft.write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={random_kafka_id()}\n")
        draft.replace(self.identity)

    def write_settings(self, properties: Mapping[str, str]) -> None:
        for directory in (self.directory, self.temporary):
            directory.mkdir(parents=True, exist_ok=True)
        self.log_settings.write_text(LOG_SETTINGS.format(log=escape(str(self.log))))
        lines = (f"{escape(name)}={escape(value)}\n" for name, value in properties.items())
        # Java reads property files as Latin-1; `escape` leaves ASCII.
        # Passwords may be among them.
        self.settings.touch(0o600)
        self.settings.chmod(0o600)
        self.settings.write_text("".join(lines), encoding="ascii")

    def command(self, java: Path, jars: Sequence[Path], options: Sequence[str]) -> list[str]:
        """The broker's command line. `options` are the JVM's, after (and so above) the defaults."""
        return [
            str(java),
            *JVM_OPTIONS,
            f"-Djava.io.tmpdir={self.temporary}",
            f"-Dlog4j2.configurationFile={self.log_settings.as_uri()}",
            *options,
            "-cp",
            os.pathsep.join(str(jar) for jar in jars),
            "kafka.Kafka",
            str(self.settings),
        ]


def node_properties(
    node: Node, controller: Node, brokers: int, data: Path, changes: Mapping[str, str]
) -> dict[str, str]:
    """The settings of `node` in a cluster of that many `brokers`, whose only controller is `controller`.

    `changes` go above the defaults here.
    """
    replicas = str(min(3, brokers))
    listeners = [node.listeners] if node.listeners else []
    if node.controller_port is not None:
        listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
    properties = {
        "process.roles": node.roles,
        "node.id": str(node.node_id),
        "controller.quorum.voters": f"{controller.node_id}@{HOST}:{controller.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:PLAINTEXT",
        "log.dirs": str(data),
        # A producer's or consumer's metadata refresh would otherwise bring a deleted topic back.
        "auto.create.topics.enable": "false",
        # Records that a test gives an old time would otherwise be gone after the first few minutes.
        "log.retention.ms": "-1",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # After SIGKILL a broker is let in again only when its old session is over, 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # An idle controller would write a record to its log twice a second, which takes it, and each broker that reads
        # that, more time than all else that they do when idle.
        "metadata.max.idle.interval.ms": "0",
        # The rest keeps a broker small: fewer threads, and 2 MiB and not 128 MiB for the log cleaner.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "group.coordinator.threads": "1",
        "log.cleaner.dedupe.buffer.size": "2097152",
    }
    if node.port is not None:
        properties["advertised.listeners"] = node.advertised_listeners
        properties["inter.broker.listener.name"] = "PLAINTEXT"
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    return {**properties, **changes}


def random_kafka_id() -> str:
    """A random 128-bit id as Kafka writes it (22 characters), never with a dash first.

    Kafka's tools take a dash for an option.
    """
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        continue
    return text


def escape(text: str) -> str:
    """`text` as a key or a value of a Java property file, in ASCII."""
    encoded = text.encode("utf-16-be")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    return "".join(chr(unit) if 32 < unit < 127 and chr(unit) not in "\\:=#!" else f"\\u{unit:04x}" for unit in units)
