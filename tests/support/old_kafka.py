"""Kafka 2.1, the oldest that is supported, as a process of this machine: a broker and the ZooKeeper that it needs.

Its own ZooKeeper client (3.4) cannot read addresses as Java 14 and later write them, so it gets that of 3.5, which it
works with as well.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from evensplit.errors import LocalKafkaError
from evensplit.testing.broker.node_files import JVM_OPTIONS, LOG_SETTINGS, escape
from evensplit.testing.process.jars import cache_directory, find_ivy, last_lines, locked, remove_drafts
from evensplit.testing.process.java import find_java
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.ports import HOST, free_ports, is_free

VERSION = "2.1.1"
CHECKSUMS = Path(__file__).parents[1] / "data" / f"kafka-{VERSION}" / "jars.sha256"

_IVY_FILE = f"""\
<ivy-module version="2.0">
  <info organisation="evensplit" module="old-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.12" rev="{VERSION}" conf="default->default,runtime"/>
    <dependency org="org.apache.zookeeper" name="zookeeper" rev="3.5.10" conf="default->default,runtime"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default,runtime"/>
  </dependencies>
</ivy-module>
"""
_RESOLVE_TIMEOUT_S = 600.0
_START_TIMEOUT_S = 120.0


class OldKafka:
    """One broker of Kafka 2.1 on a free port of 127.0.0.1, for as long as the `with` block lasts."""

    def __init__(self) -> None:
        self._broker_port, self._zookeeper_port = free_ports(2)
        self._keeper: Keeper | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._broker_port}"

    def __enter__(self) -> Self:
        jars = sorted(_resolve().glob("*.jar"))
        self._keeper = keeper = Keeper()
        try:
            zookeeper = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._zookeeper_file())]
            self._await(self._spawn("zookeeper", jars, zookeeper), self._zookeeper_port, "zookeeper")
            self._await(
                self._spawn("kafka", jars, ["kafka.Kafka", str(self._broker_file())]), self._broker_port, "kafka"
            )
            AdminClient({"bootstrap.servers": self.bootstrap_servers}).list_topics(timeout=_START_TIMEOUT_S)
        except BaseException:
            keeper.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            self._keeper.close()

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """It is there, with a leader for each partition, on return."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(60)
        deadline = time.monotonic() + 60
        while any(one.leader < 0 for one in admin.list_topics(name, 10).topics[name].partitions.values()):
            assert time.monotonic() < deadline, f"{name} has no leaders"

    def _home(self) -> Path:
        assert self._keeper is not None
        return self._keeper.directory

    def _zookeeper_file(self) -> Path:
        return _write(
            self._home() / "zookeeper.properties",
            dataDir=str(self._home() / "zookeeper"),
            clientPort=str(self._zookeeper_port),
            clientPortAddress=HOST,
            tickTime="500",
            admin_enableServer="false",
        )

    def _broker_file(self) -> Path:
        return _write(
            self._home() / "server.properties",
            broker_id="0",
            listeners=f"PLAINTEXT://{HOST}:{self._broker_port}",
            zookeeper_connect=f"{HOST}:{self._zookeeper_port}",
            log_dirs=str(self._home() / "data"),
            auto_create_topics_enable="false",
            log_retention_ms="-1",
            offsets_topic_replication_factor="1",
            offsets_topic_num_partitions="1",
            transaction_state_log_replication_factor="1",
            transaction_state_log_min_isr="1",
            transaction_state_log_num_partitions="1",
            group_initial_rebalance_delay_ms="0",
            log_cleaner_dedupe_buffer_size="2097152",
        )

    def _spawn(self, name: str, jars: list[Path], main: list[str]) -> Child:
        assert self._keeper is not None
        home = self._home()
        settings = home / f"{name}-log4j2.properties"
        settings.write_text(LOG_SETTINGS.format(log=escape(str(home / f"{name}.log"))))
        options = ["-Dzookeeper.jmx.log4j.disable=true", f"-Dlog4j2.configurationFile={settings.as_uri()}"]
        options.append(f"-Djava.io.tmpdir={home}")
        classes = ["-cp", os.pathsep.join(str(jar) for jar in jars)]
        command = [str(find_java().path), *JVM_OPTIONS, *options, *classes, *main]
        return self._keeper.spawn(command, output=home / f"{name}.out", cwd=home)

    def _await(self, child: Child, port: int, name: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while is_free(port):
            if child.poll() is not None or time.monotonic() > deadline:
                files = (self._home() / f"{name}.log", self._home() / f"{name}.out")
                said = "\n".join(file.read_text(errors="replace") for file in files if file.exists())
                raise LocalKafkaError(f"{name} did not start. {last_lines(said)}")
            time.sleep(0.05)


def _write(path: Path, **properties: str) -> Path:
    """A property file; `_` in a name stands for a full stop."""
    path.write_text("".join(f"{name.replace('_', '.')}={escape(value)}\n" for name, value in properties.items()))
    return path


def _resolve() -> Path:
    """The directory with exactly the jars of `CHECKSUMS`, from Maven Central through PySpark's Ivy where need be."""
    cache = cache_directory().parent / f"kafka-{VERSION}"
    libs = cache / "libs"
    with locked(cache / "lock"):
        if not libs.is_dir():
            remove_drafts(cache)
            with Keeper(cache) as keeper:
                home = keeper.directory
                (home / "ivy.xml").write_text(_IVY_FILE)
                jvm = [str(find_java().path), f"-Djava.io.tmpdir={home}", "-jar", str(find_ivy())]
                what = ["-ivy", str(home / "ivy.xml"), "-confs", "default", "-cache", str(home / "ivy-cache")]
                command = [*jvm, *what, "-retrieve", f"{home}/libs/[artifact]-[revision].[ext]"]
                code = keeper.spawn(command, output=home / "ivy.log").wait(_RESOLVE_TIMEOUT_S)
                if code != 0:
                    said = last_lines((home / "ivy.log").read_text(errors="replace"))
                    raise LocalKafkaError(
                        f"the jars of Kafka {VERSION} could not be resolved: Ivy ended with {code}. {said}"
                    )
                (home / "libs").replace(libs)
    listed = (line.split() for line in CHECKSUMS.read_text().splitlines())
    expected = {name: checksum for checksum, name in listed}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in libs.glob("*.jar")}
    if found != expected:
        differ = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise LocalKafkaError(f"{libs} holds other jars than {CHECKSUMS.name} says: {', '.join(differ)}")
    return libs
