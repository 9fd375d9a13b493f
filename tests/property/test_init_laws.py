"""What `evensplit init` writes: code that ruff leaves as it is, with options that the source accepts."""

from __future__ import annotations

import base64
import itertools
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.cli.init import job as words
from evensplit.cli.init.answers import job_of
from evensplit.cli.init.job import Answers, Job
from evensplit.cli.init.job_code import code_of
from evensplit.errors import OptionError
from evensplit.spark.options.parse import check_batch, check_streaming, parse_options

PLACES = {
    "servers": Answers(servers="broker-1:9092,broker-2:9092", topics="orders,clicks"),
    "pattern": Answers(servers="[::1]:9092", pattern=r"^orders-\d+\"'$"),
    "clusters": Answers(clusters=["eu=eu-1:9092", "us=us-1:9092,us-2:9092"], topics="orders"),
    "metadata": Answers(metadata="/etc/streams/fleet.yaml"),
    "local": Answers(local=True, topics="orders, clicks"),
}
DDL = "id BIGINT, topic STRING, at TIMESTAMP, tags ARRAY<STRING>, more MAP<INT, STRUCT<x: DECIMAL(9,2), y: BINARY>>"
RECORD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def descriptors() -> str:
    """A file of Protobuf with one message, as the option has it."""
    files = FileDescriptorSet()
    message = files.file.add(name="orders.proto", syntax="proto3").message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    return base64.b64encode(files.SerializeToString()).decode()


VALUES: dict[str, dict[str, str]] = {
    words.RAW: {},
    words.JSON: {"schema": DDL},
    words.AVRO: {"schema": RECORD},
    words.PROTOBUF: {"schema": descriptors(), "message": "Order"},
    "registry": {"registry": "https://registry:8081"},
}
LOGIN = (
    "kafka.security.protocol=SASL_SSL",
    "kafka.sasl.mechanism=PLAIN",
    'kafka.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="${env:USER}" '
    'password="${env:PASSWORD}";',
)


def answers(place: str, values: str, sink: str, kind: str, trigger: str | None, login: bool) -> Answers:
    """Those answers, with what each of them needs beside it."""
    found = PLACES[place]
    options = [*LOGIN] if login else []
    if values == "registry" and place != "metadata":
        options.append("value.subject=orders-value")
    return Answers(
        **{name: getattr(found, name) for name in ("servers", "clusters", "metadata", "local", "topics", "pattern")},
        kind=kind,
        values=words.AVRO if values == "registry" else values,
        schema=VALUES[values].get("schema"),
        registry=VALUES[values].get("registry"),
        message=VALUES[values].get("message"),
        sink=sink,
        to={words.CONSOLE: None, words.KAFKA: "copies", words.DELTA: "s3a://bucket/" + 80 * "x"}.get(sink, "data/'x'"),
        to_servers="eu-1:9092" if sink == words.KAFKA and place != "local" else None,
        trigger=trigger,
        options=options,
    )


@cache
def jobs() -> tuple[tuple[str, Job], ...]:
    """Every combination that there can be, and what it is called."""
    return tuple(_jobs())


def _jobs() -> Iterator[tuple[str, Job]]:
    kinds = ((words.STREAM, words.ALWAYS), (words.STREAM, words.AVAILABLE_NOW), (words.BATCH, None))
    for place, values, sink, (kind, trigger), login in itertools.product(
        PLACES, VALUES, words.SINKS, kinds, (False, True)
    ):
        try:
            job = job_of(answers(place, values, sink, kind, trigger, login))
        except OptionError:
            continue
        yield f"{place}_{values}_{sink}_{kind}_{trigger}_{login}".replace("-", "_"), job


def ruff(*arguments: str, within: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", "."],
        cwd=within,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


@pytest.mark.lengthy
def test_ruff_leaves_every_job_as_it_is(tmp_path: Path) -> None:
    count = 0
    for name, job in jobs():
        (tmp_path / f"{name}.py").write_text(code_of(job))
        count += 1
    assert count >= 400
    assert ruff("format", "--diff", within=tmp_path) == ""
    rules = "A,B,C4,DTZ,E4,E7,E9,F,FA,FLY,I,ICN,LOG,N,PERF,PGH,PIE,PT,PTH,RET,RUF,S,SIM,SLF,UP,W"
    assert ruff("check", "--select", rules, within=tmp_path) == ""


def run(text: str, place: Path) -> ModuleType:
    """The file as a module, as an import makes it: nothing is started."""
    module = ModuleType("job")
    module.__dict__["__file__"] = str(place / "job.py")
    exec(compile(text, "job.py", "exec"), module.__dict__)
    return module


def check(job: Job, place: Path) -> None:
    """Whether the source accepts what is written, and whether it is what was asked for."""
    written = run(code_of(job), place)
    source = {**written.SOURCE, **({"kafka.bootstrap.servers": "127.0.0.1:9092"} if job.local else {})}
    (check_streaming if job.stream else check_batch)(parse_options(source))
    assert {name: value for name, value in written.SOURCE.items() if name != "clusters"} == {**job.source, **job.login}
    assert callable(written.main)
    if job.stream:
        assert written.SINK["checkpointLocation"].endswith(job.checkpoint)


@pytest.mark.lengthy
def test_the_source_accepts_what_is_written(tmp_path: Path) -> None:
    for _, job in jobs():
        check(job, tmp_path)


TEXTS = st.text(max_size=60)


@settings(deadline=None)
@given(
    st.builds(
        Answers,
        kind=st.sampled_from((None, *words.KINDS)),
        servers=st.just("a:1"),
        topics=st.one_of(st.none(), st.from_regex(r"[a-zA-Z0-9._-]{1,40}(, ?[a-z]{1,9})?", fullmatch=True)),
        pattern=st.one_of(st.none(), TEXTS),
        start=st.sampled_from((None, "-2h", "latest", '{"x": "earliest"}', "timestamp:2026-01-31T12:00:00Z")),
        values=st.just(words.JSON),
        schema=TEXTS.map(lambda name: "`" + name.replace("`", "``") + "` BIGINT"),
        sink=st.sampled_from(words.SINKS),
        to=TEXTS,
        checkpoint=st.one_of(st.none(), TEXTS),
        options=st.lists(TEXTS.map(lambda text: f"kafka.client.id={text}"), max_size=1),
    )
)
def test_whatever_is_answered_is_refused_or_written_as_it_is(said: Answers) -> None:
    """Quotes, backslashes, line breaks and braces among it."""
    try:
        job = job_of(said)
    except OptionError:
        return
    check(job, Path("/somewhere"))
