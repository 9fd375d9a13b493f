"""Servers of other file systems that are not of our own making: HDFS, GCS and Azure's blobs, on this machine.

Each program is fetched once into the user's cache, beside Kafka's jars. Where that is not possible, the test is
skipped, and the reason says what is missing.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import environ
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree as ET

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import cache_directory, fetch_jars, last_lines, locked, remove_drafts
from evensplit.testing.process.java import find_java
from evensplit.testing.process.keeper import Keeper
from evensplit.testing.process.ports import HOST, free_ports
from tests.support.waiting import wait_for

T = TypeVar("T")

GCS_SERVER = "1.56.1"
AZURITE = "3.35.0"
FETCH_TIMEOUT_S = 1_500
START_TIMEOUT_S = 300.0
"""A NameNode and a DataNode take ten seconds of a processor, which others may be using."""
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that Azurite has by itself, and its key, as its documentation has them."""


@dataclass(frozen=True, slots=True)
class Hdfs:
    """A NameNode and a DataNode. `rpc`, `web`: the NameNode's addresses, for Spark and for WebHDFS."""

    rpc: str
    web: str
    classpath: str
    """The jars of its client."""


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    """HDFS of the version that PySpark has the client of. It is empty, and it asks who somebody is, not for proof."""
    import pyspark

    spark_jars = Path(pyspark.__file__).parent / "jars"
    (api,) = spark_jars.glob("hadoop-client-api-*.jar")
    version = api.stem.removeprefix("hadoop-client-api-")
    file = f"hadoop-client-minicluster-{version}.jar"
    with _skipped("HDFS"):
        java = find_java("HDFS needs Java").path
        cluster = fetch_jars(f"hadoop-{version}", _ivy_file(version), {file}) / file
    names = ("hadoop-client-*", "jcl-over-slf4j-*", "log4j-*", "slf4j-api-*", "snappy-java-*")
    classpath = ":".join(str(jar) for name in names for jar in sorted(spark_jars.glob(f"{name}.jar")))
    with Keeper() as keeper:
        settings = keeper.directory / "settings.xml"
        command = [
            *(str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"),
            *("-cp", f"{cluster}:{classpath}", "org.apache.hadoop.test.MiniDFSClusterManager"),
            *("-format", "-datanodes", "1", "-writeConfig", str(settings)),
            *("-D", f"hdfs.minidfs.basedir={keeper.directory}/data"),
        ]
        found = _started(keeper, command, lambda _: _addresses(settings))
        rpc, web = f"hdfs://{found['fs.defaultFS']}", f"webhdfs://{found['dfs.namenode.http-address']}"
        yield Hdfs(rpc, web, classpath)


def _ivy_file(version: str) -> str:
    """PySpark has the jars that it needs."""
    return f"""\
<ivy-module version="2.0">
  <info organisation="evensplit" module="local-hdfs"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{version}" transitive="false"
      conf="default->master"/>
  </dependencies>
</ivy-module>
"""


def _addresses(settings: Path) -> Mapping[str, str]:
    """The addresses in the settings that the cluster has written; none as long as they are not complete."""
    try:
        every = ET.parse(settings).getroot()
    except (FileNotFoundError, ET.ParseError):
        return {}
    found = {one.findtext("name"): one.findtext("value") or "" for one in every}
    names = ("fs.defaultFS", "dfs.namenode.http-address")
    return {name: f"{HOST}:{found[name].rpartition(':')[2]}" for name in names}


@contextmanager
def gcs() -> Iterator[str]:
    """fake-gcs-server, compiled here, by its address. It heeds `ifGenerationMatch`, so it knows conditional puts."""
    program = _fetched(f"fake-gcs-server-{GCS_SERVER}", _go)
    with Keeper() as keeper:
        (port,) = free_ports(1)
        where = ("-host", HOST, "-port", str(port))
        command = [str(program / "fake-gcs-server"), "-backend", "memory", "-scheme", "http", *where]
        _started(keeper, command, lambda _: _listens(port))
        yield f"http://{HOST}:{port}"


def _go(draft: Path) -> tuple[list[str], Mapping[str, str]]:
    # What it is compiled of is a gigabyte, which nobody needs afterwards.
    own = {"GOBIN": str(draft), "GOPATH": f"{draft.parent}/go", "GOCACHE": f"{draft.parent}/made"}
    what = f"github.com/fsouza/fake-gcs-server@v{GCS_SERVER}"
    return ["go", "install", "-ldflags=-s -w", what], {**own, "GOFLAGS": "-modcacherw"}


@contextmanager
def azure() -> Iterator[str]:
    """Azurite's server of blobs, by the connection string of its one account."""
    program = _fetched(f"azurite-{AZURITE}", _npm)
    node = _program("node")
    with Keeper() as keeper:
        main = program / "node_modules/azurite/dist/src/blob/main.js"
        # The client may know an interface that is newer than Azurite.
        quiet = ("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent")
        command = [node, str(main), "--blobHost", HOST, "--blobPort", "0", *quiet]
        found = _started(keeper, command, partial(re.search, rf"listens on (http://{re.escape(HOST)}:[0-9]+)"))
        account = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY}"
        yield f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={found[1]}/{AZURE_ACCOUNT};"


def _npm(draft: Path) -> tuple[list[str], Mapping[str, str]]:
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    # It runs without what the packages would do when they are installed.
    return ["npm", "install", "--prefix", str(draft), "--ignore-scripts", *quiet, f"azurite@{AZURITE}"], {}


def _fetched(name: str, how: Callable[[Path], tuple[list[str], Mapping[str, str]]]) -> Path:
    """The directory with a program, which a command puts there the first time; `how` says the command for a draft."""
    cache = cache_directory().with_name(name)
    program = cache / "program"
    with _skipped(name):
        if not program.is_dir():
            with locked(cache / "lock"):
                if not program.is_dir():
                    remove_drafts(cache)
                    with Keeper(cache) as keeper:
                        draft = keeper.directory / "program"
                        draft.mkdir()
                        _run(*how(draft))
                        # In one step, so that an interrupted process leaves no partial one.
                        draft.replace(program)
    return program


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            [_program(command[0]), *command[1:]],
            env={**environ, **environment},
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LocalKafkaError(f"`{' '.join(command)}` took more than {FETCH_TIMEOUT_S} s") from None
    if done.returncode:
        raise LocalKafkaError(f"`{' '.join(command)}` failed. {last_lines(done.stderr)}")


def _program(name: str) -> str:
    """Where a program is; without it, the test is skipped."""
    return shutil.which(name) or pytest.skip(f"there is no program {name!r} on PATH")


def _started(keeper: Keeper, command: list[str], ready: Callable[[str], T | None]) -> T:
    """Start a server, and wait until `ready`, which gets what it has said, has an answer."""
    log = keeper.directory / "log"
    child = keeper.spawn(command, output=log)

    def answer() -> T | None:
        said = log.read_text(errors="replace") if log.exists() else ""
        assert child.poll() is None, f"{command[0]} has ended. {last_lines(said)}"
        return ready(said)

    found = wait_for(answer, within_s=START_TIMEOUT_S, what=f"an answer of {command[0]}")
    assert found is not None
    return found


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex((HOST, port)) == 0


@contextmanager
def _skipped(what: str) -> Iterator[None]:
    """Skip the test if something is missing."""
    try:
        yield
    except LocalKafkaError as error:
        pytest.skip(f"there is no {what}: {error}")
