"""Gives the rows of Arrow batches to the producers of their clusters, each with its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from evensplit.core.text import shown
from evensplit.errors.writing import RowRefused
from evensplit.kafka.produce.problems import shown_key
from evensplit.kafka.produce.terms import Rows
from evensplit.spark.options.values import TOPIC
from evensplit.spark.sink.options import WriteOptions

NOT_OURS = -1
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Receiver(Protocol):
    """The producer of one cluster, as far as rows are given to it."""

    def topic(self, name: str) -> int:
        """The number of a topic, for `Rows.topics`."""
        ...

    def write(self, rows: Rows, topic: int | None = None) -> None:
        """Take rows: all for `topic`, or by `Rows.topics`."""
        ...


class _Words(NamedTuple):
    """A column of texts: which words there are, and the number of each row's."""

    words: list[str]
    numbers: pa.Array


class RowWriter:
    """The rows of one task. `receiver`: makes the producer of a cluster, when its first row comes."""

    def __init__(self, options: WriteOptions, receiver: Callable[[str], Receiver]) -> None:
        self.rows = 0
        """How many there were."""
        self._options = options
        self._columns = options.columns
        self._receiver = receiver
        self._receivers: dict[str, Receiver] = {}
        self._clusters = frozenset(one.id for one in options.clusters)
        self._topics: dict[tuple[str, str], int] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Give all rows of `batch` to their producers.

        Raises:
            RowRefused: a row has no topic or cluster, or one that cannot be.
        """
        self.rows += batch.num_rows
        if not batch.num_rows:
            return
        rows = self._rows(batch)
        if self._options.cluster is not None:
            self._write_to(self._options.cluster, batch, rows, None)
            return
        clusters = self._words(batch, self._columns.cluster, "cluster")
        for number, cluster in enumerate(clusters.words):
            mine = None if len(clusters.words) == 1 else pc.equal(clusters.numbers, number)
            self._write_to(cluster, batch, rows, mine)

    def _write_to(self, cluster: str, batch: pa.RecordBatch, rows: Rows, mine: pa.Array | None) -> None:
        """Give the rows that are `mine`, None: all, to the producer of `cluster`."""
        receiver = self._receivers.get(cluster)
        if receiver is None:
            receiver = self._receivers[cluster] = self._receiver(cluster)
        topic = self._options.topic
        if topic is not None:
            number = self._number(cluster, topic)
            if mine is None:
                receiver.write(rows, number)
                return
            numbers = pc.if_else(mine, pa.scalar(number, pa.int32()), pa.scalar(NOT_OURS, pa.int32()))
        else:
            topics = self._words(batch, self._columns.topic, "topic")
            used = range(len(topics.words)) if mine is None else pc.unique(topics.numbers.filter(mine)).to_pylist()
            found = [NOT_OURS] * len(topics.words)
            for one in used:
                found[one] = self._number(cluster, topics.words[one])
            numbers = pa.array(found, pa.int32()).take(topics.numbers)
            if mine is not None:
                numbers = pc.if_else(mine, numbers, pa.scalar(NOT_OURS, pa.int32()))
        receiver.write(rows._replace(topics=numbers))

    def _number(self, cluster: str, topic: str) -> int:
        found = self._topics.get((cluster, topic))
        if found is None:
            found = self._topics[cluster, topic] = self._receivers[cluster].topic(topic)
        return found

    def _words(self, batch: pa.RecordBatch, column: int | None, name: str) -> _Words:
        """The topics or clusters of rows, each of which has one that can be."""
        assert column is not None
        values = batch.column(column)
        if values.null_count:
            hint = f", or give the option {name} for all rows"
            raise self._refused(batch, pc.index(values.is_null(), True).as_py(), f"{name} is null; expected one{hint}")
        encoded = values.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        for number, word in enumerate(words):
            if problem := self._problem(name, word):
                raise self._refused(batch, pc.index(encoded.indices, number).as_py(), problem)
        return _Words(words, encoded.indices)

    def _problem(self, name: str, word: str) -> str:
        if name == "cluster":
            known = ", ".join(sorted(self._clusters))
            return "" if word in self._clusters else f"cluster is {shown(word)}; expected one of {known}"
        if TOPIC.fullmatch(word) and word not in (".", ".."):
            return ""
        return f"topic is {shown(word)}; expected 1 to 249 letters, digits, '.', '_' or '-'"

    def _refused(self, batch: pa.RecordBatch, row: int, problem: str) -> RowRefused:
        key = None if self._columns.key is None else batch.column(self._columns.key)[row].as_py()
        return RowRefused(f"a row with {shown_key(key)} cannot be written: {problem}")

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        columns = self._columns
        key, value, headers, partition, timestamp = (
            None if number is None else batch.column(number)
            for number in (columns.key, columns.value, columns.headers, columns.partition, columns.timestamp)
        )
        if headers is not None and headers.type != _HEADERS:
            headers = headers.cast(_HEADERS)
        if timestamp is not None:
            # Arrow has microseconds here. What is below a millisecond is cut off, as Spark's sink does.
            timestamp = pc.divide(timestamp.cast(pa.timestamp("us", timestamp.type.tz)).cast(pa.int64()), 1000)
        return Rows(key, value, headers, partition, timestamp, None)
