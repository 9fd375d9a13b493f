"""What is made once for one Kafka and one Java, so that every later broker starts in half the time.

Two things, measured on two cores as time until the broker answers (3.9 s plus 1.4 s for formatting without them):

- `bootstrap.checkpoint`, the only part of a formatted directory that takes Kafka's own StorageTool. It is the same
  for every cluster of a Kafka version, so one run of that tool, a JVM of 1.4 s, serves all.
- an archive of loaded classes (JEP 350), which takes more than a second off a start of 2.9 s. Java checks that it
  fits and goes without where it does not.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import requests
from evensplit.testing.broker.node_files import Node, NodeFiles, node_properties, random_kafka_id
from evensplit.testing.process.jars import Progress, cache_directory, last_lines, locked, remove_drafts, resolve_jars
from evensplit.testing.process.java import Java, find_java
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.ports import HOST, free_ports

# A part of the key: raise it when what is prepared changes.
RECIPE = "1"
FORMAT_TIMEOUT_S = 60.0
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that starting a broker needs. `archive` is None where this Java makes none."""

    java: Java
    jars: tuple[Path, ...]
    bootstrap: Path
    archive: Path | None

    @property
    def jvm_options(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []


def prepare(progress: Callable[[Progress], None] | None = None) -> Prepared:
    """Jars, Java and what is made from them: from the cache, or made now (some 10 s, after `resolve_jars`).

    Raises `LocalKafkaError` where `find_java` and `resolve_jars` do, and when Kafka cannot be run.
    """
    libs = resolve_jars(progress)
    java = find_java()
    jars = tuple(sorted(libs.glob("*.jar")))
    cache = cache_directory()
    place = cache / f"prepared-{_key(jars, java)}"
    if not place.is_dir():
        with locked(cache / "lock"):
            if not place.is_dir():
                remove_drafts(cache)
                report = progress or (lambda _: None)
                report(Progress(0, 2, "formatting a first directory"))
                with Keeper(cache) as keeper:
                    _make(keeper, java, jars, report).replace(place)
                report(Progress(2, 2, "brokers can be started"))
    archive = place / "classes.jsa"
    return Prepared(java, jars, place / "bootstrap.checkpoint", archive if archive.exists() else None)


def _key(jars: tuple[Path, ...], java: Java) -> str:
    digest = hashlib.sha256(f"{RECIPE}\n{java.path}\n{java.banner}\n".encode())
    for jar in jars:
        stat = jar.stat()
        # An archive of classes fits the jars at their paths and times alone.
        digest.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _make(keeper: Keeper, java: Java, jars: tuple[Path, ...], report: Callable[[Progress], None]) -> Path:
    result = keeper.directory / "result"
    result.mkdir()
    node = NodeFiles(keeper.directory / "node", keeper.directory / "tmp")
    broker_port, controller_port = free_ports(2)
    both = Node(0, broker_port, controller_port)
    node.write_settings(node_properties(both, both, 1, node.data, {}))
    command = node.command(java.path, jars, [])
    cut = command.index("kafka.Kafka")
    arguments = ["kafka.tools.StorageTool", "format", "-t", random_kafka_id(), "-c", str(node.settings)]
    code = keeper.spawn([*command[:cut], *arguments], output=node.console).wait(FORMAT_TIMEOUT_S)
    if code != 0:
        raise LocalKafkaError(f"Kafka's StorageTool ended with {code}. {last_lines(node.output())}")
    shutil.copyfile(node.data / "bootstrap.checkpoint", result / "bootstrap.checkpoint")
    report(Progress(1, 2, "archiving the classes that a broker loads"))
    archive = result / "classes.jsa"
    broker = keeper.spawn(node.command(java.path, jars, [f"-XX:ArchiveClassesAtExit={archive}"]), output=node.console)
    _live_a_little(broker, (HOST, broker_port), node)
    broker.send(signal.SIGTERM)
    if broker.wait(STOP_TIMEOUT_S) is None:
        raise LocalKafkaError(f"a broker did not stop within {STOP_TIMEOUT_S:g} s. {last_lines(node.output())}")
    return result


def _live_a_little(broker: Child, address: requests.Address, node: NodeFiles) -> None:
    """Have the broker do what every broker does, so that the classes for it are in the archive as well."""

    def answers(left_s: float) -> bool:
        if (code := broker.poll()) is not None:
            raise LocalKafkaError(f"a broker ended with {code} while starting. {last_lines(node.output())}")
        return bool(requests.metadata(address, timeout_s=min(left_s, requests.ATTEMPT_TIMEOUT_S)).brokers)

    requests.wait_until(answers, "the first broker answers", START_TIMEOUT_S)
    requests.create_topic(address, "first", 1, 1, {}, timeout_s=START_TIMEOUT_S)
