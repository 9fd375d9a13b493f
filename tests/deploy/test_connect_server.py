"""The recipe for Spark Connect of docs/howto/deploy.md: a server, and a client whose Python has no evensplit."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from evensplit.testing.process.ports import free_ports
from evensplit.testing.process.sessions import kill_session
from tests.support import recipes
from tests.support.records import numbers
from tests.support.waiting import wait_for
from tests.support.wheels import environment, site_packages, wheel

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def test_a_client_needs_nothing_of_it(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(30), partitions=2)
    packages = site_packages(Path(sys.prefix))
    server = environment(tmp_path / "server", packages, wheel=wheel(tmp_path))
    client = environment(tmp_path / "client", packages)
    (port,) = free_ports(1)
    (start,) = recipes.section("Spark Connect")
    names = {"/opt/evensplit/bin/python": str(server), "--master spark://spark-1:7077": "--master local[2]"}
    # In the foreground, so that it ends with this test.
    script = "exec env SPARK_NO_DAEMONIZE=1 " + recipes.here(start, names).rstrip()
    script += f" --conf spark.connect.grpc.binding.port={port} --conf spark.ui.enabled=false"
    with (tmp_path / "server.log").open("wb") as log:
        running = subprocess.Popen(
            ["/bin/bash", "-euc", script],
            cwd=tmp_path,
            env=recipes.clean(str(server.parent)),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(lambda: answers(port) or running.poll() is not None, within_s=180, what="the server listens")
        assert running.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
        (program,) = recipes.section("Spark Connect", "python")
        names = {"sc://spark-1:15002": f"sc://127.0.0.1:{port}", "eu-1:9092": east.bootstrap_servers}
        names |= {'"subscribe", "orders"': f'"subscribe", "{topic}"'}
        (tmp_path / "client.py").write_text(recipes.here(program, names))
        environ = recipes.clean(str(client.parent))
        assert "ModuleNotFoundError" in recipes.run(f"! {client} -c 'import evensplit'", tmp_path, environ).well()
        said = recipes.run(f"{client} -W ignore client.py", tmp_path, environ).well()
        assert said.splitlines()[-1] == "30"
    finally:
        kill_session(running.pid)
        running.wait(60)
