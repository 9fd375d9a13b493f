"""The programs in examples/, run as a user runs them: what they print is what an independent count finds."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest

from evensplit.testing import LocalKafka, LocalRegistry
from evensplit.testing.process.sessions import kill_session
from tests.support.connect import alone
from tests.support.queries import committed
from tests.support.records import Draft, consume, numbers, produce
from tests.support.starting import TOO_SLOW
from tests.support.waiting import wait_for
from tests.support.written import records

# A busy machine takes minutes for what an idle one does in ten seconds.
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem[0] != "_" and path.stem != "demo")


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]


def as_a_user() -> dict[str, str]:
    """The environment without what the tests set in it; Java starts quickly, with half the processor time."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    return {**own, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def run(name: str, *arguments: object, within: Path) -> list[str]:
    """The lines that an example prints. It has to end well, and to leave nothing where it was started."""
    place = within / "started-here"
    place.mkdir()
    for _ in range(2):
        with alone() if name == "spark_connect" else nullcontext():
            done = subprocess.run(
                command(name, *arguments),
                cwd=place,
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
    assert list(place.iterdir()) == []
    return done.stdout.splitlines()


def test_word_count(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    lines = [f"Is this word number {n % 3}? This word is." for n in range(500)]
    east.create_topic(topic, partitions=4)
    produce(east.bootstrap_servers, topic, [Draft(line.encode(), partition=n % 4) for n, line in enumerate(lines)])
    *rows, total = run("word_count", "--bootstrap-servers", east.bootstrap_servers, "--topic", topic, within=tmp_path)
    wanted = Counter(word for line in lines for word in re.findall(r"[\w']+", line.lower()))
    counts = {row.split()[1]: int(row.split()[0].replace(",", "")) for row in rows}
    assert counts == wanted
    assert total.split() == ["4,000", "words,", str(len(wanted)), "distinct"]


@pytest.mark.slow
def test_windows(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Closed is what ends ten minutes before the last reading, or earlier; the stragglers belong to closed windows."""
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    readings = [(begin + timedelta(seconds=5 * n), "north" if n % 3 else "south", float(n % 40)) for n in range(900)]
    stragglers = [(begin + timedelta(minutes=n), "north", 1000.0) for n in (0, 20)]
    drafts = [
        Draft(json.dumps({"time": time.isoformat(), "sensor": sensor, "celsius": celsius}).encode(), partition=n % 2)
        for n, (time, sensor, celsius) in enumerate([*readings, *stragglers])
    ]
    east.create_topic(topic, partitions=2)
    produce(east.bootstrap_servers, topic, drafts)
    *rows, late = run("windows", "--bootstrap-servers", east.bootstrap_servers, "--topic", topic, within=tmp_path)
    windows: dict[tuple[datetime, str], list[float]] = defaultdict(list)
    for time, sensor, celsius in readings:
        windows[time - timedelta(minutes=time.minute % 15, seconds=time.second), sensor].append(celsius)
    watermark = readings[-1][0] - timedelta(minutes=10)
    wanted = []
    for (start, sensor), found in sorted(windows.items()):
        end = start + timedelta(minutes=15)
        if end <= watermark:
            mean = f"{sum(found) / len(found):.2f}"
            wanted.append([f"{start:%H:%M}-{end:%H:%M}", sensor, mean, "°C", "from", str(len(found)), "readings"])
    assert len(wanted) == 8
    assert [row.split() for row in rows] == wanted
    assert late == "2 came too late"


@pytest.mark.slow
def test_two_regions(east: LocalKafka, west: LocalKafka, topic: str, tmp_path: Path) -> None:
    brokers = {"dublin": east, "oregon": west}
    cents = {"dublin": [n * 31 % 977 for n in range(300)], "oregon": [n * 17 % 499 for n in range(211)]}
    for region, broker in brokers.items():
        broker.create_topic(topic, partitions=2)
        drafts = [Draft(b'{"id": %d, "cents": %d}' % (n, one), partition=n % 2) for n, one in enumerate(cents[region])]
        produce(broker.bootstrap_servers, topic, drafts)
    clusters = {region: {"kafka.bootstrap.servers": broker.bootstrap_servers} for region, broker in brokers.items()}
    rows = run("two_regions", "--clusters", json.dumps(clusters), "--topic", topic, within=tmp_path)
    wanted = [[region, str(len(all_)), "orders", f"{sum(all_) / 100:,.2f}"] for region, all_ in cents.items()]
    assert [row.split() for row in rows] == wanted


def stored(database: Path) -> list[tuple[int, int, str]]:
    """What a database has, in order: partition, offset, value."""
    with duckdb.connect(str(database), read_only=True) as db:
        return db.execute("SELECT kafka_partition, kafka_offset, value FROM orders ORDER BY ALL").fetchall()


def witnessed(broker: LocalKafka, topic: str, partitions: int) -> list[tuple[int, int, str]]:
    """What a topic has."""
    found = consume(broker.bootstrap_servers, topic, range(partitions))
    return sorted((one.partition, one.offset, (one.value or b"").decode()) for one in found)


@pytest.mark.slow
def test_duckdb_has_each_record_once_although_a_batch_is_repeated(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(250), partitions=2)
    own = ["--database", tmp_path / "o.duckdb", "--checkpoint", tmp_path / "checkpoint", "--fail-after-batch", 1]
    servers = ["--bootstrap-servers", east.bootstrap_servers, "--topic", topic]
    assert run("duckdb_exactly_once", *servers, *own, within=tmp_path) == [
        "batch 0: 100 rows written",
        "batch 1: 100 rows written",
        "the run failed; the next one continues from its checkpoint",
        "batch 1: already written, skipped",
        "batch 2: 50 rows written",
        "250 rows, 250 distinct records",
    ]
    assert stored(tmp_path / "o.duckdb") == witnessed(east, topic, 2)


@pytest.mark.slow
def test_duckdb_has_each_record_once_although_the_program_is_killed(
    east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(4_000), partitions=2)
    database, checkpoint = tmp_path / "orders.duckdb", tmp_path / "checkpoint"
    arguments = ["--bootstrap-servers", east.bootstrap_servers, "--topic", topic, "--database", database]
    arguments += ["--checkpoint", checkpoint]
    with (tmp_path / "first").open("wb") as output:
        first = subprocess.Popen(
            command("duckdb_exactly_once", *arguments),
            cwd=tmp_path,
            env=as_a_user(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(
            lambda: len(committed(checkpoint)) >= 3 or first.poll() is not None, within_s=300, what="three batches"
        )
    finally:
        kill_session(first.pid)
    assert first.wait(60) == -signal.SIGKILL, (tmp_path / "first").read_text()[-3000:]
    *_, last = run("duckdb_exactly_once", *arguments, within=tmp_path)
    assert last == "4000 rows, 4000 distinct records"
    assert stored(database) == witnessed(east, topic, 2)


@pytest.mark.slow
def test_exactly_once_has_each_order_once_although_the_job_is_killed(
    east: LocalKafka, west: LocalKafka, topic: str, tmp_path: Path
) -> None:
    """Counted by another client. The taxes are 20 and 7 percent, and none in a country that is not known."""
    countries = {"here": ("FR", "XX"), "there": ("US", "US")}
    brokers = {"here": east, "there": west}
    for region, broker in brokers.items():
        broker.create_topic(topic, partitions=2)
        drafts = [
            Draft(
                json.dumps({"id": n, "country": countries[region][n % 2], "cents": 100 * n}).encode(), partition=n % 2
            )
            for n in range(2_000)
        ]
        produce(broker.bootstrap_servers, topic, drafts)
    east.create_topic(f"{topic}-out", partitions=2)
    clusters = {region: {"kafka.bootstrap.servers": broker.bootstrap_servers} for region, broker in brokers.items()}
    own = ["--checkpoint", tmp_path / "checkpoint", "--into", f"{topic}-out"]
    *_, last = run("exactly_once", "--clusters", json.dumps(clusters), "--topic", topic, *own, within=tmp_path)
    assert last == "4,000 orders in, 4,000 invoices out, each once"
    percent = {"FR": 20, "US": 7, "XX": 0}
    wanted = {
        f"{region}-{n}": n * (100 + percent[countries[region][n % 2]]) for region in brokers for n in range(2_000)
    }
    found = records(east, f"{topic}-out", range(2))
    assert len(found) == 4_000
    assert {(one.key or b"").decode(): json.loads(one.value or b"")["total"] for one in found} == wanted


@pytest.mark.slow
def test_dead_letters(east: LocalKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are written here with schemas of the test's own, as another program would write them."""
    monkeypatch.setenv("no_proxy", "*")
    fields = [
        {"name": name, "type": kind} for name, kind in (("id", "long"), ("customer", "string"), ("cents", "long"))
    ]
    old = {"type": "record", "name": "Order", "fields": fields}
    new = {**old, "fields": [*fields, {"name": "currency", "type": "string", "default": "CHF"}]}
    with LocalRegistry() as registry:
        numbers = {id(one): registry.register(f"{topic}-value", json.dumps(one)) for one in (old, new)}

        def avro(schema: dict[str, Any], **order: object) -> bytes:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
            return b"\0" + numbers[id(schema)].to_bytes(4, "big") + out.getvalue()

        good = [avro(old, id=n, customer=f"c{n}", cents=10 * n) for n in range(30)]
        good += [avro(new, id=n, customer=f"c{n}", cents=10 * n, currency="SEK") for n in range(20)]
        broken = [good[-1][:6], b"\0\0\x0f\x42\x40abc", b"", None]
        east.create_topic(topic)
        produce(east.bootstrap_servers, topic, [Draft(value) for value in [*good, *broken]])
        servers = ["--bootstrap-servers", east.bootstrap_servers, "--registry", registry.url, "--topic", topic]
        lines = run("dead_letters", *servers, within=tmp_path)
    assert [line.split() for line in lines[:-4]] == [
        ["30", "orders", f"{sum(range(30)) / 10:.2f}", "CHF"],
        ["20", "orders", f"{sum(range(20)) / 10:.2f}", "SEK"],
    ]
    assert lines[-4].split() == ["3", "dead", "letters", "in", f"{topic}-dead-letters:"]
    assert [line.partition(": ")[0] for line in lines[-3:]] == [f"{topic}/0/{offset}" for offset in (50, 51, 52)]
    assert "1000000: it has no such schema" in lines[-2]


@pytest.mark.slow
def test_migration(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """The checkpoint is the test's own: a query that has read some of two partitions, and all of the third one."""
    east.create_topic(topic, partitions=3)
    numbers(east.bootstrap_servers, topic, range(180), partitions=3)
    old = tmp_path / "old"
    for path, text in {
        "metadata": '{"id":"0b1d6a3c-5f0e-4f6e-9b1e-2f6c1a7d9e10"}',
        "sources/0/0": "\0v1\n" + json.dumps({topic: {"0": 0, "1": 0, "2": 0}}),
        "offsets/0": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1772352000000,"conf":{}}\n'
        + json.dumps({topic: {"2": 60, "0": 7, "1": 59}}),
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }.items():
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (old / path).write_text(text)
    servers = ["--bootstrap-servers", east.bootstrap_servers, "--topic", topic]
    lines = run("migration", *servers, "--checkpoint", old, "--migrated", tmp_path / "new", within=tmp_path)
    assert lines[-2:] == ["batch 1: partition 0, offsets 7 to 59", "batch 1: partition 1, offsets 59 to 59"]
    assert not [line for line in lines if line.startswith("batch 0")]


@pytest.mark.slow
def test_spark_connect(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    east.create_topic(topic, partitions=4)
    numbers(east.bootstrap_servers, topic, (n % 6 for n in range(360)), partitions=4)
    lines = run("spark_connect", "--bootstrap-servers", east.bootstrap_servers, "--topic", topic, within=tmp_path)
    wanted = Counter(str(n % 6) for n in range(360))
    assert [line.split() for line in lines[:6]] == [[str(wanted[page]), page] for page in sorted(wanted)]
    assert lines[6] == "batch 0: 360 records"
    assert (
        "  assigned: 2 partitions per reader, as even as possible; no partition moved that could have stayed"
        in lines[7:]
    )


@pytest.mark.slow
def test_host(tmp_path: Path) -> None:
    """What it prints is what is in its sink, whose records are numbered in each cluster."""
    sink = tmp_path / "sink.sqlite"
    lines = run("host", "--seed", 7, "--sink", sink, within=tmp_path)
    with closing(sqlite3.connect(sink)) as database:
        values = [value for (value,) in database.execute("SELECT value FROM records")]
        counted = database.execute(
            "SELECT cluster, topic, partition, reader, count(*) FROM records GROUP BY 1, 2, 3, 4"
        )
        wanted = {("/".join(map(str, split)), reader): count for *split, reader, count in counted}
    assert len(values) == 10_000
    assert set(values) == {f"{cluster} {number}" for cluster in ("east", "west") for number in range(5_000)}
    said = [line[39:] for line in lines if line[5:9] == " s  "]
    assert [line for line in said if line.startswith("reader 2 ") and "killed" not in line] == [
        "reader 2 leaves",
        "reader 2 returns",
    ]
    assert 1 <= sum(line.endswith(" is killed") for line in said) <= 5
    assert re.fullmatch(r"owners are as even as possible; \d partitions? moved for that, the minimum", said[-1])
    rows = [line.split() for line in lines[-11:-2]]
    assert len(rows) == 9
    shown = {(split, n): int(count.replace(",", "")) for split, _, _, *counts in rows for n, count in enumerate(counts)}
    assert {key: count for key, count in shown.items() if count} == wanted


LAST_LINES = {
    "dead_letters": r"orders/\d/\d+: .*",
    "duckdb_exactly_once": "350 rows, 350 distinct records",
    "exactly_once": "10,000 orders in, 10,000 invoices out, each once",
    "host": "10,000 records in the sink, each once",
    "migration": "batch 2: partition 2, offsets 40 to 99",
    "spark_connect": ".*partitions? per reader, as even as possible.*",
    "two_regions": r"us +500 orders +25,047\.50",
    "windows": "3 came too late",
    "word_count": r" +63  words, \d+ distinct",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_arguments_an_example_starts_what_it_needs(name: str, tmp_path: Path) -> None:
    assert re.fullmatch(LAST_LINES[name], run(name, within=tmp_path)[-1])


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_what_it_shows_and_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"python examples/{name}.py\n" in text.split('"""')[1]
    assert len(text.splitlines()) <= 150
    assert f"[{name}.py]({name}.py)" in (EXAMPLES / "README.md").read_text()
