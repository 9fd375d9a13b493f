"""The code of a job: what a colleague would write, in the layout of `ruff format`.

What the user has said is in constants at the top, a line for each option, so that no line below depends on its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evensplit.cli.init.job import CONSOLE, DELTA, FOREACH, KAFKA, PARQUET, RAW, Job
from evensplit.cli.init.literals import beside, is_elsewhere, literal
from evensplit.cli.init.local_code import LOCAL_IMPORTS, local_functions

_ABOUT = {
    CONSOLE: "prints them",
    PARQUET: "stores them in Parquet files",
    DELTA: "stores them in a Delta table",
    KAFKA: "writes them to a topic",
    FOREACH: "stores each batch with a function of its own",
}

_START = """    # Where a new query starts: earliest, latest, -2h (two hours ago), or a time as in
    # timestamp:2026-01-31T12:00:00Z."""
_GOES_ON = " A query that has a checkpoint goes on from there."
_SOURCE = """# What is read, and where it starts. More options: docs/reference/options.md, and
# `evensplit explain NAME` for one of them."""
_LOGIN = """# TLS and login. Placeholders are looked up where a connection is made, in the driver
# and in the executors: ${env:NAME} is a variable there, ${file:PATH} a file."""
_CHECKPOINT = """    # The positions of the query. Keep it as long as the query lives, and give it to no
    # other one. On a cluster: where all machines see it, such as s3a://bucket/path."""
_WRITTEN = """    # The topic has to exist. Rows are there exactly once for readers of committed
    # records: isolation.level=read_committed."""
_DELTA = """    # Needs Delta's package: spark-submit --packages io.delta:delta-spark_2.13:VERSION,
    # with the version for your Spark."""


def code_of(job: Job) -> str:
    """The text of the file."""
    parts = [_docstring(job), _imports(job), _constants(job), *local_functions(job), _rows(job)]
    if job.sink == FOREACH:
        parts.append(_STORE)
    parts += [_main(job), 'if __name__ == "__main__":\n    main()\n']
    # Two empty lines around functions, one elsewhere.
    head, rest = parts[:3], parts[3:]
    return "\n".join(head) + "\n\n" + "\n\n".join(rest)


def _docstring(job: Job) -> str:
    if job.stream:
        how = "each run reads what is new, and ends." if job.available_now else "it runs until you stop it (Ctrl-C)."
        how = f"    python job.py\n\nWith its checkpoint it goes on where it stopped: {how}"
    else:
        how = "    python job.py\n\nEach run reads the records from start to stop."
    local = "\nIt brings a Kafka broker of its own, to try things on." if job.local else ""
    return f'"""Reads records from Kafka, and {_ABOUT[job.sink]}.\n\n{how}{local}\n"""\n'


def _imports(job: Job) -> str:
    standard = set(LOCAL_IMPORTS if job.local else ())
    if not job.local or not job.sample:
        standard.discard("import json")
    if job.clusters:
        standard.add("import json")
    if _has_here(job):
        standard.add("from pathlib import Path")
    third = ["import evensplit"]
    if job.local:
        third += ["from evensplit.errors import BrokerError", "from evensplit.testing import LocalKafka"]
        third.append("from kafka import KafkaProducer")
    third.append("from pyspark.sql import DataFrame, SparkSession")
    groups = [_sorted(standard), third] if standard else [third]
    return "\n\n".join("\n".join(group) for group in groups) + "\n"


def _sorted(imports: set[str]) -> list[str]:
    return sorted(imports, key=lambda line: (line.startswith("from "), line))


def _has_here(job: Job) -> bool:
    return job.local or any(path and not is_elsewhere(path) for path in _paths(job))


def _paths(job: Job) -> tuple[str, ...]:
    return (job.checkpoint, job.target if job.sink != KAFKA else "")


def _constants(job: Job) -> str:
    parts: list[str] = []
    if _has_here(job):
        parts.append("HERE = Path(__file__).resolve().parent")
    if job.clusters:
        each = {name: f'{{"kafka.bootstrap.servers": {literal(where)}}}' for name, where in job.clusters.items()}
        parts.append(_mapping("CLUSTERS", each))
    if job.login:
        parts.append(f"{_LOGIN}\n{_mapping('LOGIN', _literals(job.login))}")
    parts.append(f"{_SOURCE}\n{_dictionary('SOURCE', _source(job))}")
    sink = list(_sink(job))
    if sink:
        parts.append(_dictionary("SINK", sink))
    if job.sink == FOREACH:
        parts.append(f"# Where batches are stored.\nTARGET = {_wrapped(beside(job.target), len('TARGET = '))}")
    return "\n\n".join(parts) + "\n"


def _source(job: Job) -> Iterator[str]:
    if job.clusters:
        yield '    "clusters": json.dumps(CLUSTERS),'
    for name, value in job.source.items():
        if name == "start":
            yield _START + ("\n    #" + _GOES_ON if job.stream else "")
        yield f"    {literal(name)}: {literal(value)},"
    if job.login:
        yield "    **LOGIN,"


def _sink(job: Job) -> Iterator[str]:
    if job.sink in (PARQUET, DELTA):
        if job.sink == DELTA:
            yield _DELTA
        yield f'    "path": {beside(job.target)},'
    if job.sink == KAFKA:
        if not job.local:
            yield f'    "kafka.bootstrap.servers": {literal(job.target_servers)},'
        yield _WRITTEN if job.stream else "    # The topic has to exist."
        yield f'    "topic": {literal(job.target)},'
        if job.login:
            yield "    **LOGIN,"
    if job.sink == CONSOLE and job.stream:
        yield '    "truncate": "false",'
    if job.checkpoint:
        yield _CHECKPOINT
        yield f'    "checkpointLocation": {beside(job.checkpoint)},'


def _dictionary(name: str, lines: Iterator[str] | list[str]) -> str:
    return "\n".join([f"{name} = {{", *lines, "}"])


def _mapping(name: str, values: Mapping[str, str]) -> str:
    return _dictionary(name, [f"    {literal(key)}: {value}," for key, value in values.items()])


def _literals(values: Mapping[str, str]) -> Mapping[str, str]:
    return {name: literal(value) for name, value in values.items()}


def _wrapped(expression: str, before: int) -> str:
    """An expression that is assigned, in brackets where ruff would set them to keep the line short."""
    if before + len(expression) <= LINE or 4 + len(expression) > LINE:
        return expression
    return f"(\n    {expression}\n)"


LINE = 88
"""How long ruff lets lines become, if nobody says otherwise."""


def _rows(job: Job) -> str:
    """The function that says what becomes of the records."""
    if job.sink == KAFKA:
        about = "The records to write: a value, and a key if it has one."
        key = "to_json(key) AS key" if job.typed_keys else "key"
        value = "value" if job.values == RAW else "to_json(value) AS value"
        columns, select = [key, value], "selectExpr"
    elif job.values == RAW:
        about = "What is made of the records: keys and values are bytes, here with text in them."
        key = "to_json(key) AS key" if job.typed_keys else "CAST(key AS STRING)"
        columns, select = [*_place(job), key, "CAST(value AS STRING)"], "selectExpr"
    else:
        about = "What is made of the records: `value` has the fields of the schema."
        columns, select = [*_place(job), "value.*"], "select"
    return "\n".join(
        [
            "def rows(records: DataFrame) -> DataFrame:",
            f'    """{about}"""',
            f"    return records.{select}(",
            *(f"        {literal(column)}," for column in columns),
            "    )\n",
        ]
    )


def _place(job: Job) -> list[str]:
    """Where a record is from, without what fields of its value are called."""
    cluster = ["cluster"] if job.clusters or "metadata" in job.source else []
    return [name for name in (*cluster, "topic", "partition", "offset", "timestamp") if name not in job.fields]


_STORE = '''def store(batch: DataFrame, number: int) -> None:
    """Store one batch, once.

    A batch that is repeated after a crash has the same number and the same rows. So it
    is stored in a place of its own; a database would keep the number beside the rows.
    """
    batch.write.mode("overwrite").parquet(f"{TARGET}/batch={number}")
'''


def _main(job: Job) -> str:
    name = literal(job.name)
    plain = f"SparkSession.builder.appName({name}).getOrCreate()"
    lines = ["def main() -> None:"]
    lines.append(f"    spark = {_DELTA_SESSION.replace('NAME', name, 1) if job.sink == DELTA else plain}")
    lines.append("    evensplit.register(spark)  # not needed, but queries start sooner")
    indent = 4
    if job.local:
        lines.append("    with local_broker() as servers:")
        lines.append('        source = {**SOURCE, "kafka.bootstrap.servers": servers}')
        if job.sink == KAFKA:
            lines.append('        sink = {**SINK, "kafka.bootstrap.servers": servers}')
        indent = 8
    blank = " " * indent
    read = "readStream" if job.stream else "read"
    source, sink = ("source", "sink" if job.sink == KAFKA else "SINK") if job.local else ("SOURCE", "SINK")
    lines.append(f'{blank}records = spark.{read}.format("evensplit").options(**{source}).load()')
    lines += (blank + line for line in (_writes_stream(job, sink) if job.stream else _writes_batch(job, sink)))
    lines.append(f"{blank}spark.stop()")
    return "\n".join(lines) + "\n"


def _writes_stream(job: Job, sink: str) -> Iterator[str]:
    form = "evensplit" if job.sink == KAFKA else job.sink
    yield "query = ("
    yield "    rows(records)"
    yield "    .writeStream.foreachBatch(store)" if job.sink == FOREACH else f'    .writeStream.format("{form}")'
    yield f"    .options(**{sink})"
    if job.available_now:
        yield "    # Without this line, the query runs until you stop it."
        yield "    .trigger(availableNow=True)"
    else:
        yield "    # To read what is there and end: .trigger(availableNow=True)"
    yield "    .start()"
    yield ")"
    yield "query.awaitTermination()"


def _writes_batch(job: Job, sink: str) -> Iterator[str]:
    if job.sink == CONSOLE:
        yield "rows(records).show(truncate=False)"
        return
    form = "evensplit" if job.sink == KAFKA else job.sink
    yield f'rows(records).write.format("{form}").mode("append").options(**{sink}).save()'


_DELTA_SESSION = """(
        SparkSession.builder.appName(NAME)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )
        .getOrCreate()
    )"""
