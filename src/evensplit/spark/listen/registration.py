"""What `register` gives back: the batches of a session's queries, explained when they are asked for.

Nothing that explains is loaded before: most programs call `register` and never ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from evensplit.observe.callbacks import Callbacks

if TYPE_CHECKING:
    from evensplit.charts import Drawing
    from evensplit.explain.batch import Explanation
    from evensplit.explain.written import WriteReport
    from evensplit.observe.recorder import BatchSummary, Recorder
    from evensplit.observe.source_view import Batch
    from evensplit.spark.task.telling import Destination


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch of one of this package's sources."""

    query_id: str
    """The same after a restart of the query."""
    run_id: str
    """Another one after each restart."""
    name: str | None
    """The query's name, if it has one."""
    batch_id: int
    source: int
    """Which of the query's sources it is, from 0."""
    timestamp: str
    """When the batch began, as Spark writes it."""
    explanation: Explanation

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types: queryId, runId, name, batchId, source, timestamp, then `Explanation`'s."""
        return {
            "queryId": self.query_id,
            "runId": self.run_id,
            "name": self.name,
            "batchId": self.batch_id,
            "source": self.source,
            "timestamp": self.timestamp,
            **self.explanation.to_json(),
        }

    def plot(self) -> Drawing:
        """The work of each reader, and each cluster's lag. Needs `evensplit[plots]`."""
        return self.explanation.plot()

    def _repr_html_(self) -> str:
        from evensplit.core.html import title
        from evensplit.observe.source_view import Source

        source = Source(self.query_id, self.source, self.name)
        return title(f"{source}: batch {self.batch_id}, {self.timestamp}") + self.explanation._repr_html_()


Callback = Callable[[Progress], object]


class Inbox(Protocol):
    """Has the events that are not explained yet."""

    def catch_up(self) -> None:
        """Explain all that has been heard."""

    def explain_at_once(self) -> None:
        """Catch up, and explain every event as it comes from now on."""


class Registration:
    """The latest batches of all queries of a session over this source.

    `parallelism`: how many tasks the session runs at once, once the source has been told. `metrics_port`: where the
    metrics of this session are served; None: nowhere. `dashboard_url`: the same of its dashboard. `counts_to`: where
    tasks tell what they count; None: nowhere.
    """

    def __init__(self, inbox: Inbox) -> None:
        self.parallelism: int | None = None
        self.counts_to: Destination | None = None
        self.metrics_port: int | None = None
        self.dashboard_url: str | None = None
        self._inbox = inbox
        self._recorder: Recorder | None = None
        self._callbacks: Callbacks[Progress] = Callbacks()

    def __repr__(self) -> str:
        return f"<progress of {len({one.view.source.query_id for one in self._caught_up().watched()})} queries>"

    def _repr_html_(self) -> str:
        """The last batch of each source, for notebooks."""
        from evensplit.core.html import lines

        last = {(one.query_id, one.source): one for one in self.progress()}
        return "".join(one._repr_html_() for one in last.values()) or lines(["no batch yet"])

    @property
    def recorder(self) -> Recorder:
        """The same batches for what shows them, with what the queries do; kept up to date from now on."""
        self._inbox.explain_at_once()
        return self.kept

    @property
    def kept(self) -> Recorder:
        """The same recorder, with what is explained so far."""
        if self._recorder is None:
            from evensplit.observe.recorder import Recorder

            self._recorder = Recorder()
        return self._recorder

    def progress(self, query: str | None = None) -> tuple[Progress, ...]:
        """The last batches, oldest first, of each source the last 100; of `query` alone, by its name or id.

        Batches are explained when they are first asked for: up to 0.1 s for each with 10,000 partitions.
        """
        found = self._caught_up().past()
        return tuple(
            _progress(one) for one in found if query is None or query in (one.source.name, one.source.query_id)
        )

    def written(self, query: str | None = None) -> tuple[WriteReport, ...]:
        """What was told of the last batches that were written with this package's sink, of each query the last 100.

        With those that failed, oldest first; of `query` alone, by its name or id. Queries over other sources have some,
        too. Nothing is told where there is no `counts_port`.
        """
        views = [one.view for one in self._caught_up().sinks.all()]
        return tuple(
            report for one in views if query is None or query in (one.name, one.query_id) for report in one.reports
        )

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with every batch from now on; what is returned ends that.

        It is called in the order of the batches, in the thread in which Spark tells its listeners, so it should return
        soon. What it raises is logged.
        """
        self._inbox.explain_at_once()
        return self._callbacks.subscribe(callback)

    def _caught_up(self) -> Recorder:
        self._inbox.catch_up()
        return self.kept

    def add(self, batch: Batch, end: Mapping[str, Any] | str, heard_ms: int) -> None:
        """Keep a batch that was done, and tell everyone who asked for that. Raises as `Recorder.add` does."""
        view = self.kept.add(batch, end, heard_ms=heard_ms)
        if view.last is batch:
            from evensplit.observe.recorder import BatchSummary

            past = BatchSummary(batch.source, batch.run_id, batch.number, batch.at_ms, view.explanation)
            self._callbacks.tell(_progress(past), f"the progress of batch {batch.number}")


def _progress(past: BatchSummary) -> Progress:
    source = past.source
    timestamp = "" if past.at_ms is None else _timestamp(past.at_ms)
    return Progress(source.query_id, past.run_id, source.name, past.number, source.number, timestamp, past.explanation)


def _timestamp(at_ms: int) -> str:
    """The time as Spark writes it, such as 2026-01-01T00:00:00.000Z."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_ms // 1000))}.{at_ms % 1000:03}Z"
