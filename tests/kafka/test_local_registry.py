"""LocalRegistry with the real one: outages, what it keeps, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.errors import LocalKafkaError, RegistryUnreachable
from evensplit.registry.client import Registry
from evensplit.registry.kept import KEPT, MISSED
from evensplit.registry.settings import RegistrySettings
from evensplit.testing import LocalRegistry
from evensplit.testing.process.ports import HOST, free_ports
from evensplit.testing.registry import local_registry
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

RECORD = '{"type":"record","name":"A","fields":[{"name":"x","type":"long"}]}'


def test_outages_leave_url_and_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    KEPT.clear()
    MISSED.clear()
    with LocalRegistry() as registry:
        url, first = registry.url, registry.register("a", RECORD)
        registry.set_compatibility("a", "BACKWARD")
        with pytest.raises(LocalKafkaError, match=r"status 409: .*[Ii]ncompatible"):
            registry.register("a", RECORD.replace('"x"', '"y"'))
        client = Registry(RegistrySettings.of({"url": url}, timeout_ms=300))
        registry.pause()
        with pytest.raises(RegistryUnreachable, match=r"expected a whole answer within 0\.1 s"):
            client.latest("a")
        registry.resume()
        patient = Registry(RegistrySettings.of({"url": url}, timeout_ms=60_000))
        assert patient.latest("a").schema.id == first
        registry.kill()
        assert (registry.is_running, registry.pid) == (False, None)
        with pytest.raises(RegistryUnreachable, match="ConnectionRefusedError"):
            client.latest("a")
        with pytest.raises(LocalKafkaError, match="does not run"):
            registry.pause()
        registry.start()
        assert registry.url == url
        assert (patient.latest("a").schema.id, patient.schema_by_id(first).text) == (first, RECORD)
        registry.stop()
        assert registry.pid is None
        # What a process has seen it need not ask for.
        assert client.schema_by_id(first).text == RECORD
        directory = registry.log.parent
        assert directory.is_dir()
    assert not directory.exists()
    with pytest.raises(LocalKafkaError, match="not started"):
        _ = registry.url
    registry.close()


@pytest.mark.slow
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from evensplit.testing import LocalRegistry\n"
        "registry = LocalRegistry().start()\n"
        "print(registry.pid, registry.log.parent, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, directory = process.stdout.readline().split()
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() and not Path(directory).exists())


@pytest.mark.slow
def test_a_port_that_is_taken_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    (free,) = free_ports(1)
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        ports = iter([other.getsockname()[1], free])
        monkeypatch.setattr(local_registry, "free_ports", lambda _: [next(ports)])
        with LocalRegistry() as registry:
            assert f":{free}/" in registry.url
            assert registry.register("a", RECORD) == 1


def test_a_death_while_it_starts_is_told_with_what_it_said() -> None:
    with pytest.raises(LocalKafkaError, match=r"ended with 1 while starting\. It said at the end:\n.*Unrecognized"):
        LocalRegistry(jvm_options=["-XX:+NoSuchOption"]).start()
    with pytest.raises(LocalKafkaError, match="must be above 0"):
        LocalRegistry(start_timeout_s=0)


def test_a_start_that_takes_too_long_leaves_nothing() -> None:
    registry = LocalRegistry(start_timeout_s=0.01)
    with pytest.raises(LocalKafkaError, match=r"did not answer within 0\.01 s"):
        registry.start()
    assert registry.pid is None
    assert repr(registry) == "LocalRegistry(not started)"


@pytest.mark.slow
def test_a_process_that_was_killed_by_others_can_be_started_again() -> None:
    with LocalRegistry() as registry:
        pid = registry.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not registry.is_running)
        registry.start()
        assert registry.is_running
        assert registry.register("a", RECORD) == 1
