"""`evensplit init`: what is written, what is refused, and what is asked."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evensplit.cli.group import evensplit
from evensplit.cli.init.secret_options import secret_problems
from evensplit.kafka.options.security import SECURITY_NAMES
from evensplit.registry.settings import SETTING_NAMES

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{}";'
LOGIN = ("-o", "kafka.security.protocol=SASL_SSL", "-o", "kafka.sasl.mechanism=PLAIN", "-o")


def init(*arguments: str) -> Result:
    return CliRunner().invoke(evensplit, ["init", *arguments])


def code(*arguments: str) -> str:
    result = init("--print", *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def problems(*arguments: str) -> list[str]:
    """What is said to be wrong, a line each."""
    result = init("--print", *arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    said = result.stderr.partition("Error: ")[2].rpartition("\nES-101")[0]
    if said.startswith("1 option is wrong: "):
        return [said.removeprefix("1 option is wrong: ")]
    return [line.strip().partition(". ")[2] for line in said.splitlines()[1:]]


def test_a_job_is_written_and_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "new" / "job"
    result = init(str(place), "--local")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"python {place}/job.py" in result.stdout
    assert (place / "job.py").read_text() == code("--local")
    assert [path.name for path in place.iterdir()] == ["job.py"]

    (place / "job.py").write_text("mine")
    refused = init(str(place), "--local")
    assert refused.exit_code == 1
    assert "job.py is there already, and is left as it is; give --force to replace it" in refused.stderr
    assert (place / "job.py").read_text() == "mine"
    assert init(str(place), "--local", "--force").exit_code == 0
    assert (place / "job.py").read_text() == code("--local")
    assert [path.name for path in place.iterdir()] == ["job.py"]


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = init(str(tmp_path / "file" / "in-it"), "--local")
    assert result.exit_code == 1
    assert f"{tmp_path}/file/in-it/job.py cannot be written: Not a directory" in result.stderr


def test_printing_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = json.loads(init("--print", "--local", "--format", "json").stdout)
    assert (said["path"], said["written"], said["code"]) == ("job.py", False, code("--local"))
    assert list(tmp_path.iterdir()) == []


def test_all_wrong_flags_are_one_error() -> None:
    found = problems(
        *("--kind", "batched", "--servers", "a:1", "--cluster", "b", "--values", "xml", "--sink", "s3"),
        *("--topics", "x y", "--pattern", "x", "--start", "-2hh", "--schema", "id BIGINT", "-o", "subscribe=x"),
        *("-o", "maxOffsetsPerTriger=5", "-o", "columns=value"),
    )
    for said in (
        "--kind is 'batched'; expected one of stream, batch",
        "--cluster is 'b'; expected NAME=SERVERS",
        "--values is 'xml'; expected one of raw, json, avro, protobuf",
        "--sink is 's3'; expected one of console, parquet, delta, kafka, foreach",
        "--topics and --pattern are given together",
        "--servers and --cluster are given together",
        "subscribe names 'x y'",
        "start is '-2hh'",
        "--option subscribe has a flag of its own; expected --topics",
        "--option columns changes which columns there are",
        "did you mean maxOffsetsPerTrigger?",
    ):
        assert [one for one in found if said in one], (said, found)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--topics", "x"), "where Kafka is, is not given; expected one of --servers, --cluster, --metadata, --local"),
        (("--servers", "a:1"), "which topics are read is not given; expected --topics or --pattern"),
        (("--local", "--pattern", "x"), "--pattern is given with --local"),
        (("--local", "--values", "avro", "--schema", '"long"'), "--local sends values as text or JSON"),
        (("--local", "--values", "json"), "--values json is given without a schema; expected --schema or --registry"),
        (("--local", "--schema", "id BIGINT"), "--schema is given, but --values is raw"),
        (("--local", "--sink", "kafka"), "--sink kafka is given without a topic; expected --to TOPIC"),
        (("--local", "--to", "x"), "--to is given, but rows are printed"),
        (("--local", "--sink", "kafka", "--topics", "a,b", "--to", "b"), "--to is b, which is read, too"),
        (("--local", "--sink", "kafka", "--to", "x y"), "topic is 'x y'; expected "),
        (("--local", "--sink", "foreach", "--kind", "batch"), "--sink foreach is for streams"),
        (("--local", "--kind", "batch", "--trigger", "always"), "--trigger is given, but is for streams"),
        (("--local", "--kind", "batch", "--checkpoint", "x"), "--checkpoint is given, but is for streams"),
        (("--local", "--kind", "batch", "--start", "latest"), "where nothing is to be read in a batch query"),
        (("--local", "--sink", "parquet", "--to", " "), "--to is empty; expected a directory, or leave it out"),
        (("--local", "--checkpoint", ""), "--checkpoint is empty; expected a directory, or leave it out"),
        (("--local", "--sink", "parquet", "--to", "checkpoint"), "--to and --checkpoint are both 'checkpoint'"),
        (("--local", "-o", "kafka.security.protocol=SSL"), "a login is given with --local, whose broker has none"),
        (("--local", "--to-servers", "a:1"), "--to-servers is given, but no topic is written"),
        (("--cluster", "a=a:1", "--cluster", "a=b:1", "--topics", "x"), "--cluster a is given twice"),
        (
            ("--cluster", "a=a:1", "--topics", "x", "--sink", "kafka", "--to", "y"),
            "--sink kafka is given without the cluster that is written to; expected --to-servers",
        ),
        (
            ("--servers", "a:1", "--pattern", "x", "--values", "avro", "--registry", "http://r:1"),
            "value.subject is not given, and more than one topic can be read",
        ),
    ],
)
def test_what_cannot_be_is_said_with_what_is_expected(arguments: tuple[str, ...], said: str) -> None:
    found = problems(*arguments)
    assert len(found) == 1
    assert said in found[0]


COPIES = ("--sink", "kafka", "--to")
S = ("--servers", "a:9092,b:9092")


@pytest.mark.parametrize(
    "arguments",
    [
        (*S, "--pattern", "orders", *COPIES, "orders-copy"),
        (*S, "-o", 'assign={"orders": [0]}', *COPIES, "orders"),
        (*S, "--topics", "orders", *COPIES, "orders", "--to-servers", "B:9092, a:9092"),
        ("--cluster", "us=c:1", "--cluster", "eu=a:1", "--topics", "x,y", *COPIES, "y", "--to-servers", "a:1"),
        ("--local", *COPIES, "orders"),
        (*S, "--topics", "a", "--kind", "batch", *COPIES, "a"),
    ],
)
def test_no_job_reads_what_it_writes(arguments: tuple[str, ...]) -> None:
    topic = arguments[arguments.index("--to") + 1]
    assert problems(*arguments) == [
        f"--to is {topic}, which is read, too: it would never end; expected another topic",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        (*S, "--pattern", "^orders$", *COPIES, "orders-copy"),
        (*S, "-o", 'assign={"orders": [0]}', *COPIES, "order"),
        (*S, "--topics", "orders", *COPIES, "orders", "--to-servers", "c:9092"),
        ("--cluster", "us=c:1", "--cluster", "eu=a:1", "--topics", "x", *COPIES, "x", "--to-servers", "b:1"),
        ("--metadata", "/etc/fleet.yaml", *COPIES, "x", "--to-servers", "b:1"),
    ],
)
def test_a_topic_that_is_not_read_is_written(arguments: tuple[str, ...]) -> None:
    assert '"topic": ' in code(*arguments)


def test_that_a_job_reads_what_it_writes_is_said_with_all_else_that_is_wrong() -> None:
    found = problems(*S, "--topics", "orders", *COPIES, "orders", "--trigger", "never", "--start", "-2hh")
    assert len(found) == 3
    assert [one for one in found if one.startswith("--to is orders, which is read, too")]


@pytest.mark.parametrize(
    "path", ["dbfs:/mnt/ck", "file:/data/ck", "file:///data/ck", "hdfs:/ck", "s3a://b/ck", "/data/ck"]
)
def test_a_url_is_left_as_it_is(path: str) -> None:
    said = code("--servers", "a:9092", "--topics", "x", "--checkpoint", path)
    assert f'"checkpointLocation": "{path}",' in said
    assert "HERE" not in said


@pytest.mark.parametrize(
    "to, checkpoint",
    [
        *(("out/", "out"), ("./out", "out"), ("x/../out", "out"), ("file:/out", "/out//"), ("file:///a/", "FILE:/a")),
        ("s3a://b/out/", "s3a://b/out"),
    ],
)
def test_two_names_of_one_directory_are_one(to: str, checkpoint: str) -> None:
    found = problems("--local", "--sink", "parquet", "--to", to, "--checkpoint", checkpoint)
    assert found == [f"--to and --checkpoint are both {to!r}; expected two directories"]


@pytest.mark.parametrize(
    "to, checkpoint, said",
    [
        ("out", "out/checkpoint", "--checkpoint 'out/checkpoint' is inside of --to 'out', where readers look for rows"),
        (
            ".",
            "checkpoint",
            "--checkpoint 'checkpoint' is inside of --to '.', where readers look for rows; expected",
        ),
        ("s3a://b/", "s3a://b/ck/1", "such as s3a://b/_checkpoint"),
        ("/ck/rows", "/ck", "--to '/ck/rows' is inside of --checkpoint '/ck'; expected two directories"),
        ("out", "out/_checkpoint", ""),
        ("out", "out/.ck/orders", ""),
        ("out", "output", ""),
        (".", "/ck", ""),
        (".", "../ck", ""),
        (".", "s3a://b/ck", ""),
    ],
)
def test_rows_and_positions_have_a_directory_each(to: str, checkpoint: str, said: str) -> None:
    arguments = ("--local", "--sink", "parquet", "--to", to, "--checkpoint", checkpoint)
    if said:
        (found,) = problems(*arguments)
        assert said in found
    else:
        assert "checkpointLocation" in code(*arguments)


@pytest.mark.parametrize("path", ["~/ck", "~", "~me/ck"])
def test_a_home_directory_is_refused(path: str) -> None:
    said = " begins with ~, which is no home directory for Spark; expected the whole path"
    assert problems("--local", "--checkpoint", path) == [f"--checkpoint{said}"]
    assert problems("--local", "--sink", "parquet", "--to", path) == [f"--to{said}"]


@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_a_job_that_cannot_be_written_whole_is_not_there(tmp_path: Path, flags: tuple[str, ...]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        result = init(str(tmp_path), "--local", *flags)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 1
    assert "job.py cannot be written: File too large" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_no_sample(tmp_path: Path) -> None:
    (tmp_path / "schema").write_text("id BIGINT")
    found = problems("--local", "--values", "json", "--schema", f"file:{tmp_path}/schema")
    assert found == ["--schema is a file with --local, which sends values that fit it; expected the schema itself"]


@pytest.mark.parametrize(
    "option",
    [
        f"kafka.sasl.jaas.config={JAAS.format('hunter2')}",
        "kafka.sasl.jaas.config=hunter2",
        "kafka.ssl.key.password=hunter2",
        "kafka.ssl.keystore.key=hunter2",
        "kafka.sasl.oauthbearer.client.credentials.client.secret=hunter2",
        "schema.registry.basic.auth.user.info=me:hunter2",
        "schema.registry.bearer.auth.token=hunter2",
        "metadata.password=hunter2",
        "metadata.apiKey=hunter2",
        "Metadata.Auth=Basic hunter2",
        "metadata.header.Authorization=Bearer hunter2",
        "metadata.region=hunter2",
    ],
)
def test_no_secret_is_written_or_shown(option: str) -> None:
    result = init("--print", "--servers", "a:1", "--topics", "x", "-o", option)
    assert result.exit_code == 2
    assert "which is not written into a file" in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.parametrize("flag", ["--metadata", "--registry", "--checkpoint"])
@pytest.mark.parametrize("url", ["https://me:hunter2@host:1/x", "https://host:1/x?token=hunter2"])
def test_no_secret_in_a_url_is_written_or_shown(flag: str, url: str) -> None:
    result = init("--print", "--topics", "x", "--values", "avro", "--schema", '"long"', flag, url)
    assert "has a URL with a password or a token in it" in result.stderr
    assert "hunter2" not in result.output


def test_placeholders_are_written() -> None:
    said = code("--servers", "a:1", "--topics", "x", *LOGIN, f"kafka.sasl.jaas.config={JAAS.format('${env:P}')}")
    assert 'password="${env:P}"' in said
    said = code("--metadata", "my.module:Service", "-o", "metadata.apiKey=${env:KEY}", "-o", "metadata.tls=true")
    assert '"metadata.apiKey": "${env:KEY}"' in said
    assert '"metadata.tls": "true"' in said
    values = {"schema.registry.basic.auth.user.info": "me:${env:P}", "kafka.ssl.key.password": "${file:/x:y}"}
    assert list(secret_problems(values)) == []


def test_which_settings_hold_secrets() -> None:
    """All that Kafka's and Confluent's clients have: a new one has to be sorted here."""
    names = {*(f"kafka.{name}" for name in SECURITY_NAMES), *(f"schema.registry.{name}" for name in SETTING_NAMES)}
    secret = {said.partition(" ")[0] for said in secret_problems(dict.fromkeys(names, "plain"))}
    assert {name.removeprefix("kafka.").removeprefix("schema.registry.") for name in secret} == {
        *("sasl.jaas.config", "sasl.oauthbearer.client.credentials.client.secret", "ssl.key.password"),
        *("ssl.keystore.key", "ssl.keystore.password", "ssl.truststore.password"),
        *("basic.auth.user.info", "bearer.auth.token"),
    }


def test_without_a_terminal_nothing_is_asked() -> None:
    assert problems("--servers", "a:1") == ["which topics are read is not given; expected --topics or --pattern"]


def asked(place: Path, arguments: list[str], answers: list[tuple[str, str]], code: int = 0) -> str:
    """What the command prints on a terminal where each question, known by its words, gets its answer."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evensplit.cli", "init", str(place), *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown, deadline = "", time.monotonic() + 60
        for question, answer in answers:
            while question not in shown:
                assert select.select([ours], [], [], max(0, deadline - time.monotonic()))[0], f"{question}: {shown}"
                shown += os.read(ours, 4096).decode()
            shown = shown.partition(question)[2]
            os.write(ours, f"{answer}\n".encode())
        printed, _ = process.communicate(timeout=60)
        os.close(ours)
    assert process.returncode == code, printed
    return printed


@pytest.mark.lengthy
def test_on_a_terminal_it_asks_for_what_is_missing(tmp_path: Path) -> None:
    answers = [
        ("A stream, or a batch query?", ""),
        ("Where is Kafka?", "eu=eu-1:9092 us=us-1:9092"),
        ("Topics", "orders"),
        ("Where does it start?", "-2h"),
        ("What are the values?", "json"),
        ("Their fields", "id BIGINT"),
        ("What becomes of the rows?", "kafka"),
        ("Topic to write to", "copies"),
        ("Brokers of that topic", "eu-1:9092"),
        ("checkpoint", "/data/checkpoints/x"),
        ("Run until it is stopped", "available-now"),
    ]
    printed = asked(tmp_path / "one", [], answers)
    command = printed.rstrip().rpartition("\n")[2].strip()
    assert command.startswith(f"evensplit init {tmp_path}/one ")
    written = (tmp_path / "one" / "job.py").read_text()
    assert written == code(*shlex.split(command)[3:])
    assert '"start": "-2h"' in written


@pytest.mark.lengthy
def test_an_answer_that_is_wrong_is_asked_for_again(tmp_path: Path) -> None:
    answers = [
        ("Where is Kafka?", "broker"),
        ("Error: kafka.bootstrap.servers has the entry 'broker'; expected host:port", ""),
        ("Topics", "a b"),
        ("Error: subscribe names 'a b'", "orders"),
        ("Where does it start?", "-2hh"),
        ("Error: start is '-2hh'", "-2h"),
        ("What are the values?", "json"),
        ("Their fields", "id BIGIN"),
        ("Error: value.schema is 'id BIGIN'", "id BIGINT"),
    ]
    asked(tmp_path, ["--kind", "batch", "--sink", "console"], answers)
    expected = ("--kind", "batch", "--local", "--start", "-2h", "--values", "json", "--schema", "id BIGINT")
    assert (tmp_path / "job.py").read_text() == code(*expected)


def test_how_to_check_it_is_said(tmp_path: Path) -> None:
    clusters = ("--cluster", "eu=eu-1:9092", "--cluster", "us=us-1:9092")
    said = init(str(tmp_path), *clusters, "--topics", "orders", "-o", "kafka.security.protocol=SSL").stdout
    command = shlex.split(said.rstrip().rpartition("\n")[2])
    assert command[:2] == ["evensplit", "doctor"]
    assert command[2::2] == ["-o"] * 3
    assert set(command[3::2]) == {
        "subscribe=orders",
        "kafka.security.protocol=SSL",
        'clusters={"eu": {"kafka.bootstrap.servers": "eu-1:9092"}, "us": {"kafka.bootstrap.servers": "us-1:9092"}}',
    }


@pytest.mark.lengthy
def test_a_question_that_a_flag_answers_is_not_asked(tmp_path: Path) -> None:
    answers = [("Where is Kafka?", "local"), ("Topics", ""), ("What are the values?", "")]
    asked(tmp_path, ["--kind", "batch", "--start", "earliest", "--sink", "console"], answers)
    assert (tmp_path / "job.py").read_text() == code("--local", "--kind", "batch")


@pytest.mark.lengthy
def test_nothing_is_asked_for_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("mine")
    asked(tmp_path, [], [("is there already, and is left as it is", "")], code=1)
    assert (tmp_path / "job.py").read_text() == "mine"
