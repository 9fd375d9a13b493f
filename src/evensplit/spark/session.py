"""`register(spark)`: tells a session about the source and the source about the session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.errors import OptionError
from evensplit.observe.web.address import LOOPBACK, problems, wrong_port
from evensplit.spark.listen.inbox import listen
from evensplit.spark.listen.registration import Registration
from evensplit.spark.listen.tally import receive
from evensplit.spark.prepare import own_path, prepare
from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.task.installed import check_place, release
from evensplit.spark.task.telling import Destination

log = logging.getLogger(__name__)

IDLE_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"
"""Spark's setting for how often an idle query reports its progress: every 10 s by default."""

IDLE_INTERVAL_MS = 2_000
"""Its value with a dashboard, so that a cluster that is away is on the page within seconds."""

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting for how long the batches may be in which it hands rows to Python: without a bound by default."""

ARROW_BYTES_MAX = 4 << 20
"""Its value. Ten thousand rows of 1 KB, as by default, cost the JVM a third more processor time."""


def register(
    spark: SparkSession,
    *,
    metrics_port: int | None = None,
    metrics_host: str | None = None,
    metrics_partitions: bool = False,
    dashboard_port: int | None = None,
    dashboard_host: str | None = None,
    dashboard_token: str | None = None,
    counts_port: int | Literal["off"] | None = None,
) -> Registration:
    """Make `format("evensplit")` known to `spark`, with as many readers by default as the session can run tasks.

    Spark finds the source without this call, too; it then has as many readers by default as the driver's machine has
    processors. Can be called again, and after the source has been used. The first call makes Spark warn that the source
    "replaced a statically registered data source": the one that it had found by itself.

    Spark then hands rows to Python in batches of 4 MB at most, unless the session has
    `spark.sql.execution.arrow.maxBytesPerBatch` set: long rows are written faster. That holds for all of its Python.

    What comes back explains the batches of the session's queries over this source (see `Registration`), those that end
    from the first call on; it is the same for every call with the same session.

    Args:
        spark: the session.
        metrics_port: serve the metrics of these queries to Prometheus there, at `/metrics`; 0: at any free port,
            another one for each session, which `Registration.metrics_port` tells. Sessions that give the same number
            are served together, and so is the dashboard if its host and port are the same. Needs `evensplit[observe]`.
            If nothing can be served there, a warning says why, and the queries run on without. The server ends with the
            process; asked for again, it is the same one.
        metrics_host: where to listen; the loopback address by default. Anyone who can connect sees the names of
            clusters and topics.
        metrics_partitions: with series for each partition.
        dashboard_port: show these queries there, in a browser; 0: at any free port, the same for all sessions of the
            process that give 0, which `Registration.dashboard_url` tells. Needs `evensplit[dashboard]`. If nothing can
            be served there, a warning says why, and the queries run on without. Idle queries that start from then on
            are heard of every 2 s instead of every 10 s, unless the session has
            `spark.sql.streaming.noDataProgressEventInterval` set.
        dashboard_host: where to listen; the loopback address by default. One that other machines can reach needs a
            token.
        dashboard_token: what every request for the dashboard has to carry (see docs/dashboard.md); at the same port,
            those for the metrics, too.
        counts_port: where tasks tell how many records the option `where` left out, and how many keys and values could
            not be decoded, and `readers=auto` asks for the session's slots, at the address that Spark's driver listens
            at; 0: at any free port; "off": nowhere; None: as before, and in the first call, at any free port. Without
            it, as under Spark Connect, nothing is counted and `readers=auto` is an error; a warning says why.

    Raises:
        OptionError: an invalid port, or an argument for metrics or the dashboard without its port; all at once.
        InstallationError: this package is in an archive, where its kernel cannot be loaded.
    """
    wrong = [*_wrong_metrics(metrics_port, metrics_host, metrics_partitions)]
    wrong += [*_wrong_dashboard(dashboard_host, dashboard_port, dashboard_token), *_wrong_counts(counts_port)]
    if wrong:
        raise OptionError(wrong)
    listener = listen(spark)
    registration = listener.registration
    _make_known(spark, registration, counts_port)
    _preset(spark, ARROW_BYTES, str(ARROW_BYTES_MAX), "rows are handed to Python in batches of any length")
    listener.wait()
    # What shows a registration begins here, once all options are known to be right, and never raises.
    metrics_host, dashboard_host = metrics_host or LOOPBACK, LOOPBACK if dashboard_host is None else dashboard_host
    if metrics_port is not None:
        is_same = metrics_port != 0 and (metrics_host, metrics_port) == (dashboard_host, dashboard_port)
        token = dashboard_token if is_same else None
        _serve_metrics(registration, metrics_port, metrics_host, partitions=metrics_partitions, token=token)
    if dashboard_port is not None:
        _serve_dashboard(registration, dashboard_host, dashboard_port, dashboard_token)
        _preset(spark, IDLE_INTERVAL, str(IDLE_INTERVAL_MS), "idle queries report as seldom as by default")
    return registration


def _make_known(spark: SparkSession, registration: Registration, counts_port: int | Literal["off"] | None) -> None:
    """Register the source in the session, unless it has it just so."""
    check_place()
    is_first = registration.parallelism is None
    if is_first:
        prepare(spark)
    parallelism = _parallelism(spark)
    context = getattr(spark, "_sc", None)
    if counts_port is None and not is_first:
        counts_to = registration.counts_to
    else:
        counts_to = None if counts_port == "off" else receive(context, counts_port or 0)
    if (registration.parallelism, registration.counts_to) != (parallelism, counts_to):
        # Each time, Spark warns that one source has replaced another.
        with own_path(context):
            spark.dataSource.register(_registered(parallelism, counts_to))
        registration.parallelism, registration.counts_to = parallelism, counts_to


def _wrong_counts(port: object) -> Sequence[str]:
    return [] if port in (None, "off") else [f"{one}, or 'off'" for one in wrong_port("counts_port", port)]


def _wrong_metrics(port: object, host: object, partitions: bool) -> Sequence[str]:
    wrong: list[str] = []
    if port is None:
        given = {"metrics_host": host is not None, "metrics_partitions": partitions}
        wrong += [f"{name} is given without metrics_port, and would do nothing" for name, is_ in given.items() if is_]
    else:
        wrong += wrong_port("metrics_port", port)
    if host is not None and not (isinstance(host, str) and host.strip()):
        wrong.append(f"metrics_host is {host!r}; expected a name or an address, 0.0.0.0 for all of this machine")
    return wrong


def _serve_metrics(
    registration: Registration, port: int, host: str, *, partitions: bool, token: str | None = None
) -> None:
    try:
        # An extra: only who asks for it needs it.
        from evensplit.observe.prometheus import serve
    except ImportError as error:
        log.warning("no metrics are served: %s. Install it: pip install 'evensplit[observe]'", error)
        return
    try:
        served = serve(registration.recorder, port, host, partitions=partitions, token=token)
        registration.metrics_port = registration.metrics_port if served is None else served
    except Exception:
        log.warning("no metrics are served at %s, port %d", host, port, exc_info=True)


def _wrong_dashboard(host: str | None, port: int | None, token: str | None) -> Sequence[str]:
    if port is not None:
        return problems(LOOPBACK if host is None else host, port, token)
    given = {"dashboard_host": host is not None, "dashboard_token": token is not None}
    return [f"{name} is given without dashboard_port, and would do nothing" for name, is_ in given.items() if is_]


def _serve_dashboard(registration: Registration, host: str, port: int, token: str | None) -> None:
    try:
        # An extra: only who asks for it needs it.
        from evensplit.observe.dashboard.server import serve
    except ImportError as error:
        log.warning("no dashboard is served: %s. Install it: pip install 'evensplit[dashboard]'", error)
        return
    try:
        served = serve(registration.recorder, host, port, token)
        registration.dashboard_url = registration.dashboard_url if served is None else served
    except Exception:
        log.warning("no dashboard is served at %s, port %d", host, port, exc_info=True)


def _preset(spark: SparkSession, key: str, value: str, otherwise: str) -> None:
    """Set one of Spark's settings, unless the session has it set. `otherwise`: what holds if that fails."""
    try:
        if spark.conf.get(key, None) is None:
            spark.conf.set(key, value)
            log.debug("%s is set to %s", key, value)
    except Exception as error:
        log.info("%s, since %s cannot be set: %s", otherwise, key, error)


def _parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once; under Connect, the number of partitions of a range."""
    if hasattr(spark, "_jsparkSession"):
        tasks = spark.sparkContext.defaultParallelism
    else:
        tasks = spark.range(1 << 20).select(F.spark_partition_id()).distinct().count()
    from evensplit.core.state.state import READERS_MAX

    return min(max(1, tasks), READERS_MAX)


def _registered(parallelism: int, counts_to: Destination | None) -> type[EvenSplitDataSource]:
    # A class of its own, made here, is pickled by value: this is how they reach Spark's other processes.
    own = {"parallelism": parallelism, "counts_to": counts_to, "registered_by": release(), "__module__": "__main__"}
    return type("EvenSplitDataSource", (EvenSplitDataSource,), own)
