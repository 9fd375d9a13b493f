"""Spark reads from brokers that want a login over TLS, and no secret is in what it keeps, logs or explains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka, Secured
from tests.support.records import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "sentinel-of-alice"
WRONG = "sentinel-of-nobody"
LOGGING = """
rootLogger.appenderRef.stderr.ref = stderr
logger.spark.name = org.apache.spark
logger.spark.level = info
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""


def login(password: str) -> str:
    return f'ScramLoginModule required username="alice" password="{password}";'


def test_no_secret_is_kept_logged_or_explained(tmp_path: Path) -> None:
    security = Secured("SASL_SSL", users={"alice": PASSWORD}, client_certificates="required")
    with LocalKafka(security=security) as kafka:
        kafka.create_topic("t", partitions=2)
        numbers(kafka.internal_servers, "t", range(100), partitions=2)
        made = kafka.certificates
        common = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.request.timeout.ms": "120000",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.ssl.truststore.location": str(made.truststore_pkcs12),
            "kafka.ssl.truststore.password": made.password,
            "kafka.ssl.keystore.location": str(made.client_pkcs12),
            "kafka.ssl.keystore.password": f"${{file:{made.directory / 'password'}}}",
            "subscribe": "t",
            "startingOffsets": "earliest",
        }
        right, wrong = login("${env:EVENSPLIT_PASSWORD}"), login("${env:EVENSPLIT_WRONG}")
        literal = json.dumps({**common, "kafka.sasl.jaas.config": login(PASSWORD)})
        options = [{"kafka.sasl.jaas.config": right}, {}, {"kafka.sasl.jaas.config": wrong}]
        queries = [
            {"options": given, "checkpoint": str(tmp_path / f"checkpoint-{n}"), "sink": str(tmp_path / f"sink-{n}")}
            for n, given in enumerate(options)
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "EVENSPLIT_PASSWORD": PASSWORD,
            "EVENSPLIT_WRONG": WRONG,
            "SECURED_OPTIONS": literal,
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
        }
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "log4j2.properties").write_text(LOGGING)
        run = subprocess.run(
            [sys.executable, "-m", "tests.support.secured_query", json.dumps(queries)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=500,
            text=True,
            check=False,
        )
    said = run.stdout
    assert run.returncode == 0, said[-3000:]
    failures = [line for line in said.splitlines() if line.startswith("the query has failed")]
    assert said.count("the query has ended") == 2, failures
    assert "the broker refused the credentials; check the name and the password" in said
    assert "Physical Plan" in said
    assert said.count("INFO org.apache.spark") > 100
    rows = [row for n in (0, 1) for file in (tmp_path / f"sink-{n}").glob("*.json") for row in file.read_text().split()]
    assert len(rows) == 200
    checkpoints = [file.read_bytes() for file in tmp_path.glob("checkpoint-*/**/*") if file.is_file()]
    assert len(checkpoints) > 4
    kept = b"".join(checkpoints)
    for secret in (PASSWORD, WRONG, made.password):
        assert secret not in said
        assert secret.encode() not in kept
