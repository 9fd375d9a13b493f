"""Jobs that `evensplit init` writes, run as a user runs them: what comes out is what was written to the topics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.testing import LocalKafka
from tests.support.pages import as_a_user
from tests.support.records import Draft, produce
from tests.support.starting import TOO_SLOW
from tests.support.written import records

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

ORDERS = [{"id": number, "amount": number / 2} for number in range(60)]


def write(place: Path, *arguments: str) -> Path:
    """The file of a job, as the command writes it."""
    done = CliRunner().invoke(evensplit, ["init", str(place), *arguments])
    assert done.exit_code == 0, done.output
    return place / "job.py"


def run(job: Path) -> str:
    """What the job prints until it ends."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(job)],
            cwd=job.parent,
            env=as_a_user(),
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        # Once more, where Spark was too impatient for its machine.
        if TOO_SLOW not in done.stderr:
            break
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture
def orders(east: LocalKafka, topic: str) -> str:
    """A topic of three partitions that has ORDERS, in JSON."""
    east.create_topic(topic, partitions=3)
    add(east, topic, ORDERS)
    return topic


def add(kafka: LocalKafka, topic: str, values: list[dict[str, float]]) -> None:
    drafts = [Draft(json.dumps(one).encode(), key=b"%d" % one["id"], partition=int(one["id"]) % 3) for one in values]
    produce(kafka.bootstrap_servers, topic, drafts)


def test_with_a_broker_of_its_own_it_prints_what_is_new(tmp_path: Path) -> None:
    job = write(tmp_path, "--local")
    for first in (True, False):
        shown = re.findall(r"\|orders *\|([0-9]) *\|([0-9]+) *\|[^|]+\|([0-9]) *\|text ([0-9]) *\|", run(job))
        assert sorted(value for *_, value in shown) == [str(number) for number in range(10)]
        assert all(key == value for *_, key, value in shown)
        assert ("0" in [offset for _, offset, *_ in shown]) is first


def test_typed_values_come_into_parquet_files_each_once(east: LocalKafka, orders: str, tmp_path: Path) -> None:
    servers = ("--servers", east.bootstrap_servers, "--topics", orders)
    typed = ("--values", "json", "--schema", "id BIGINT, amount DOUBLE", "--sink", "parquet")
    job = write(tmp_path, *servers, *typed, "--trigger", "available-now")
    run(job)
    more = [{"id": number, "amount": number / 2} for number in range(60, 80)]
    add(east, orders, more)
    run(job)
    table = pq.read_table(tmp_path / "data")
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "id", "amount"]
    found = table.select(["id", "amount"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [*ORDERS, *more]


def test_each_batch_is_stored_once_by_the_function(east: LocalKafka, orders: str, tmp_path: Path) -> None:
    servers = ("--servers", east.bootstrap_servers, "--topics", orders)
    limit = ("-o", "maxOffsetsPerTrigger=30")
    job = write(tmp_path, *servers, "--sink", "foreach", "--trigger", "available-now", *limit)
    run(job)
    assert len(list((tmp_path / "data").glob("batch=*"))) >= 2
    values = pq.read_table(tmp_path / "data").column("value").to_pylist()
    assert sorted(map(json.loads, values), key=lambda row: row["id"]) == ORDERS


def test_rows_are_in_a_topic_exactly_once(east: LocalKafka, orders: str, tmp_path: Path) -> None:
    into = f"{orders}-copies"
    east.create_topic(into, partitions=2)
    servers = ("--servers", east.bootstrap_servers, "--topics", orders)
    typed = ("--values", "json", "--schema", "id BIGINT, amount DOUBLE", "--sink", "kafka", "--to", into)
    job = write(tmp_path, *servers, *typed, "--trigger", "available-now")
    run(job)
    run(job)
    written = records(east, into, (0, 1))
    assert all(one.key == str(json.loads(one.value or b"")["id"]).encode() for one in written)
    found = [json.loads(one.value or b"") for one in written]
    assert sorted(found, key=lambda row: row["id"]) == ORDERS


def test_a_batch_query_over_two_clusters_prints_both(
    east: LocalKafka, west: LocalKafka, topic: str, tmp_path: Path
) -> None:
    for broker in (east, west):
        broker.create_topic(topic)
        produce(broker.bootstrap_servers, topic, [Draft(broker.bootstrap_servers.encode())])
    clusters = (f"eu={east.bootstrap_servers}", f"us={west.bootstrap_servers}")
    flags = [part for one in clusters for part in ("--cluster", one)]
    shown = run(write(tmp_path, "--kind", "batch", *flags, "--topics", topic))
    for one in clusters:
        name, _, servers = one.partition("=")
        assert re.search(rf"\|{name} *\|{topic} *\|.*\|{servers} *\|", shown), shown
