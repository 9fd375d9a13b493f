"""`evensplit doctor`: each step with its cure, and none behind one that failed."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509

from evensplit.cli.doctor import cluster as doctor_cluster
from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.doctor import local as doctor_local
from evensplit.cli.doctor.findings import Doubt, Finding, Status, Step, Wrong, in_order, taken
from evensplit.cli.group import evensplit
from evensplit.core.model import TopicPattern
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.wire.group_responses import DescribedGroup

SECRET = "hunter2-and-more"


def run(*options: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    result = CliRunner().invoke(evensplit, ["doctor", *options], env={"COLUMNS": "200", **(env or {})})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    return result.output


def findings(*options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    found = json.loads(run(*options, "--format", "json", code=code))
    assert found["well"] is (code == 0)
    for one in found["findings"]:
        assert one["status"] in ("ok", "skipped") or one["cure"]
    return {f"{one['where']}: {one['step']}": one for one in found["findings"]}


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong on this machine."""
    ok = [Finding(doctor_local.WHERE, "Java", Status.OK, "Java 21")]
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(ok))


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_steps_behind_one_that_failed_are_skipped() -> None:
    def refuses() -> str:
        raise ClusterUnreachable("east", "nobody is there")

    def doubts() -> str:
        raise Doubt("it is old", "renew it")

    steps = [Step("a", doubts, "no"), Step("b", refuses, "call them"), Step("c", lambda: "fine", "no")]
    assert list(in_order("east", steps)) == [
        Finding("east", "a", Status.WARNING, "it is old", "renew it"),
        Finding("east", "b", Status.FAILED, "nobody is there", "call them", "ES-201"),
        Finding("east", "c", Status.SKIPPED, "not looked at, since b failed"),
    ]


@pytest.mark.usefixtures("well")
def test_all_is_well() -> None:
    assert "All is well, with 0 warnings." in run()
    assert list(findings()) == ["this machine: Java"]


@pytest.mark.usefixtures("well")
def test_where_nothing_listens(closed: str) -> None:
    found = findings("-o", f"kafka.bootstrap.servers={closed},no-such-host.invalid:9092", code=1)
    by_status = {name: one["status"] for name, one in found.items()}
    assert by_status == {
        "this machine: Java": "ok",
        "cluster default: secrets": "ok",
        f"cluster default, {closed}: name": "ok",
        f"cluster default, {closed}: TCP": "failed",
        f"cluster default, {closed}: ApiVersions": "skipped",
        "cluster default, no-such-host.invalid:9092: name": "failed",
        "cluster default, no-such-host.invalid:9092: TCP": "skipped",
        "cluster default, no-such-host.invalid:9092: ApiVersions": "skipped",
        "cluster default: metadata": "skipped",
    }
    assert "nothing listens there" in found[f"cluster default, {closed}: TCP"]["found"]
    shown = run("-o", f"kafka.bootstrap.servers={closed}", code=1)
    assert "→ check host and port in kafka.bootstrap.servers" in shown
    assert "1 failed, 0 warnings." in shown


@pytest.mark.usefixtures("well")
def test_a_placeholder_that_stands_for_nothing(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    options = (
        *("-o", f"kafka.bootstrap.servers={closed}", "-o", "kafka.security.protocol=SASL_PLAINTEXT"),
        *("-o", "kafka.sasl.mechanism=PLAIN"),
        *("-o", f'kafka.sasl.jaas.config={module} required username="a" password="${{env:NO_SUCH_VARIABLE}}";'),
    )
    found = findings(*options, code=1)
    assert "NO_SUCH_VARIABLE" in found["cluster default: secrets"]["found"]
    assert found["cluster default: brokers"]["status"] == "skipped"
    monkeypatch.setenv("NO_SUCH_VARIABLE", SECRET)
    assert findings(*options, code=1)["cluster default: secrets"]["status"] == "ok"


@pytest.mark.usefixtures("well")
@pytest.mark.parametrize(
    "options, told",
    [
        (("-o", "subscribe=orders"), "kafka.bootstrap.servers is missing"),
        (("-o", "kafka.bootstrap.servers=x"), "has the entry 'x'; expected host:port"),
        (("-o", f"kafka.sasl.jaas.config={SECRET}", "-o", "kafka.bootstrap.servers=x:1"), "kafka.security.protocol is"),
        (("-o", f"no name={SECRET}"), "--option: expected NAME=VALUE"),
        (("-o", "commitGroup=g"), "One of the following options must be specified"),
    ],
)
def test_wrong_options_are_wrong_use(options: tuple[str, ...], told: str) -> None:
    assert told in run(*options, code=2)


@pytest.mark.usefixtures("well")
def test_metadata_that_cannot_be_read(tmp_path: Path) -> None:
    found = findings("-o", f"metadata={tmp_path / 'none.yaml'}", code=1)
    assert found["metadata: metadata"]["status"] == "failed"
    assert str(tmp_path / "none.yaml") in found["metadata: metadata"]["found"]


def local(name: str) -> Finding:
    return next(one for one in doctor_local.local_findings() if one.step == name)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is started but those that a test is about."""
    monkeypatch.setattr(doctor_local, "_java", lambda: "Java 21")
    monkeypatch.setattr(doctor_local, "_pyarrow", lambda: "pyarrow")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("only")
def test_the_workers_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert local("workers' Python").status is Status.OK
    said = {"python": list(sys.version_info[:2]), "kernel": "", "evensplit": "0.0", "pyspark": "1", "pyarrow": "2"}
    other = {**said, "python": [3, 2]}
    for name, text, status, told in (
        ("none", None, Status.FAILED, "there is no such program"),
        ("broken", "exit 3", Status.FAILED, "it is no Python: it ended with 3"),
        ("another", "printf '\\377'", Status.FAILED, "it is no Python: it ended with 0"),
        ("one", "echo 1", Status.FAILED, "it is no Python: it ended with 0"),
        ("empty", "echo '{}'", Status.FAILED, "it is no Python: it ended with 0"),
        ("odd", f"echo '{json.dumps({**said, 'python': 3})}'", Status.FAILED, "it is no Python: it ended with 0"),
        ("greets", f"echo Welcome; echo '{json.dumps(said)}'", Status.WARNING, "evensplit 0.0 (here "),
        ("old", f"echo '{json.dumps(other)}'", Status.FAILED, "Python 3.2, where the driver has 3."),
        (
            "bare",
            f"echo '{json.dumps({**said, 'kernel': 'no module'})}'",
            Status.FAILED,
            "cannot be used there: no module",
        ),
        ("older", f"echo '{json.dumps(said)}'", Status.WARNING, "evensplit 0.0 (here "),
    ):
        path = str(tmp_path / name) if text is None else script(tmp_path / name, text)
        monkeypatch.setenv("PYSPARK_PYTHON", path)
        found = local("workers' Python")
        assert (found.status, told in found.found, found.cure) == (status, True, f"set PYSPARK_PYTHON={sys.executable}")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "PYSPARK_PYTHON is not set, so it is the python3 on PATH" in local("workers' Python").found


def test_java_is_found_and_old_ones_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(doctor_local, "_workers", lambda: "fine")
    monkeypatch.setattr(doctor_local, "_pyarrow", lambda: "pyarrow")
    found = local("Java")
    assert found.status is Status.FAILED
    assert found.found.startswith("Spark needs Java; JAVA_HOME is")
    script(tmp_path / "bin" / "java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    assert "Spark needs Java 17 or later, and this is Java 8" in local("Java").found
    script(tmp_path / "bin" / "java", "echo 'openjdk version \"21.0.1\"' >&2")
    assert local("Java").found == f"Java 21, {tmp_path / 'bin' / 'java'}"


@pytest.mark.usefixtures("only")
def test_pyspark_that_is_too_old_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_local, "_workers", lambda: "fine")
    known = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.1.2" if name == "pyspark" else known(name))
    found = local("PySpark")
    assert (found.status, "PySpark 4.1.2; expected 4.2 or later" in found.found) == (Status.FAILED, True)

    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    assert local("PySpark").cure.endswith("pip install 'evensplit[spark]'")
    assert local("kernel").status is Status.FAILED


@pytest.mark.usefixtures("only")
def test_the_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_local, "_workers", lambda: "fine")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert local("own address").found == "SPARK_LOCAL_IP is 127.0.0.1, where this machine can listen"
    # A network for documentation, of which no machine has an address.
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    found = local("own address")
    assert (found.status, "nothing can listen at 192.0.2.1" in found.found) == (Status.FAILED, True)
    monkeypatch.delenv("SPARK_LOCAL_IP")
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "192.0.2.1")
    assert local("own address").status is Status.WARNING

    def unknown(name: str) -> str:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert "cannot be resolved: Name or service not known" in local("own address").found
    assert os.environ.get("SPARK_LOCAL_IP") is None


def test_what_is_wrong_has_its_own_cure() -> None:
    def wrong() -> str:
        raise Wrong("it is not there", "get it")

    assert next(iter(in_order("x", [Step("a", wrong, "another")]))).cure == "get it"


@pytest.mark.usefixtures("well")
def test_errors_have_their_ids(closed: str) -> None:
    options = ("-o", f"kafka.bootstrap.servers={closed}")
    assert findings(*options, code=1)[f"cluster default, {closed}: TCP"]["id"] == "ES-201"
    assert "(ES-201)\n" in run(*options, code=1)
    assert "ES-101" in run("-o", "subscribe=orders", code=2)


def test_who_begins_from_a_group_needs_less_than_who_commits(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    described = DescribedGroup(0, "Empty", 1 << 8)
    monkeypatch.setattr(doctor_cluster._Look, "_describe", lambda *_: described)
    said = {"kafka.bootstrap.servers": closed, "subscribe": "orders", "startingGroup": "from"}
    options = doctor_module._options(said)
    assert doctor_module._groups(options, options.clusters[0]) == {"from": False}
    options = doctor_module._options({**said, "commitGroup": "to"})
    assert doctor_module._groups(options, options.clusters[0]) == {"from": False, "to": True}
    assert doctor_module._groups(doctor_module._options({**said, "commitGroup": "from"}), options.clusters[0]) == {
        "from": True
    }
    look = doctor_cluster._Look(doctor_cluster.ClusterToAsk(options.clusters[0], True, {"from": False, "to": True}))
    begins, commits = [step for step in look.steps() if step.name.startswith("group ")]
    assert taken("east", begins).status is Status.OK
    refused = taken("east", commits)
    assert (refused.status, "Read and Describe" in refused.cure) == (Status.FAILED, True)
    described.authorized_operations = 1 << 3 | 1 << 8
    assert taken("east", commits).status is Status.OK
    described.error_code = 30
    assert taken("east", begins).cure.startswith("allow this user Describe on the group")


@pytest.mark.usefixtures("well")
def test_stores_that_cannot_be_read(closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "trust.p12"
    options = (
        *("-o", f"kafka.bootstrap.servers={closed}", "-o", "kafka.security.protocol=SSL"),
        *("-o", f"kafka.ssl.truststore.location={store}", "-o", f"kafka.ssl.truststore.password={SECRET}"),
    )

    def said() -> str:
        found = findings(*options, code=1)
        assert found["cluster default: secrets"]["id"] == "ES-205"
        assert found["cluster default: brokers"]["status"] == "skipped"
        return str(found["cluster default: secrets"]["found"])

    assert f"kafka.ssl.truststore.location: the file '{store}'" in said()
    store.write_bytes(b"nothing")
    assert "is no keystore; expected PEM, PKCS12 or JKS" in said()
    store.write_bytes(b"\x30nothing")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    assert "needs the package cryptography: pip install 'evensplit[keystores]'" in said()


@pytest.mark.usefixtures("well")
def test_clusters_without_topics(closed: str) -> None:
    clusters = {
        "east": {"kafka.bootstrap.servers": closed},
        "west": {"kafka.bootstrap.servers": closed, "subscribe": "orders"},
    }
    said = json.dumps(clusters)
    found = findings("-o", f"clusters={said}", code=1)
    assert found["cluster east: secrets"]["status"] == found["cluster west: secrets"]["status"] == "ok"
    parsed = doctor_module._options({"clusters": said})
    assert [one.subscription == TopicPattern(doctor_module.ANY) for one in parsed.clusters] == [True, False]


def test_a_certificate_that_is_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        @property
        def extensions(self) -> None:
            raise x509.UnsupportedGeneralNameType("an odd name", 9)

    context = SimpleNamespace(wrap_socket=lambda *_, **__: nullcontext(SimpleNamespace(getpeercert=lambda **_: b"")))
    monkeypatch.setattr(ssl, "SSLContext", lambda _: context)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: nullcontext())
    monkeypatch.setattr(x509, "load_der_x509_certificate", lambda _: Odd())
    assert doctor_cluster._presented(("east", 1)) == (
        ". It shows a certificate that cannot be read: UnsupportedGeneralNameType"
    )


@pytest.mark.usefixtures("only")
def test_pyspark_that_is_broken_or_for_connect_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_local, "_workers", lambda: "fine")
    known = metadata.version

    def client(name: str) -> str:
        if name == "pyspark":
            raise metadata.PackageNotFoundError(name)
        return "4.2.0" if name == "pyspark-client" else known(name)

    monkeypatch.setattr(metadata, "version", client)
    found = local("PySpark")
    assert (found.status, found.found.split(":")[0]) == (Status.OK, "pyspark-client 4.2.0")
    monkeypatch.setattr(metadata, "version", known)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    found = local("PySpark")
    assert (found.status, "cannot be imported: ModuleNotFoundError" in found.found) == (Status.FAILED, True)
