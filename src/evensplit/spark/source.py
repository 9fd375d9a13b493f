"""`format("evensplit")`: the entry point for Spark.

Spark imports this module in every session that looks for Python sources, needed or not, so the rest of the
package is imported only when a query uses it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from evensplit.registry.schemas import Schema
    from evensplit.registry.settings import RegistrySettings
    from evensplit.spark.options.parse import SourceOptions
    from evensplit.spark.task.telling import Destination


class EvenSplitDataSource(DataSource):
    """Reads any number of Kafka clusters evenly, and writes to them."""

    parallelism: ClassVar[int | None] = None
    """The number of readers if neither option `readers` nor a checkpoint has one; None: that of this machine's
    processors."""
    counts_to: ClassVar[Destination | None] = None
    """Where tasks tell how many records were left out or undecodable, and the sink what was written, and where the
    number of readers is asked for if it is `auto`; None: nowhere."""

    registered_by: ClassVar[str] = ""
    """The version that has registered this class, as `installed.release` has it; empty: nobody has."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises InstallationError if this process has an evensplit that cannot work, or another one."""
        from evensplit.spark.task.installed import check_installed

        super().__init__(options)
        check_installed(self.registered_by)
        # Spark pickles this with what `schema` has found: the reader decodes by that, whatever is the latest then.
        self._schemas: dict[tuple[Any, ...], Schema] = {}

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "evensplit"

    def schema(self) -> StructType:
        """The columns by the options; by default those of Spark's own source, and `cluster` if there can be several.

        Raises OptionError for all wrong options at once; RegistryError if a schema registry is named and does not give
        the schema.
        """
        return _row_type(self._parsed())

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for `spark.read`. Raises what `schema` does."""
        from evensplit.spark.batch_reader import EvenSplitReader
        from evensplit.spark.options.parse import check_batch

        options = self._parsed()
        check_batch(options)
        self._check_auto(options)
        _check_schema(schema, options)
        from evensplit.spark.pushed_filters import FilteringReader, asked

        if asked():
            return FilteringReader(options, self._readers_default(), self.options, self._parse, self.counts_to)
        return EvenSplitReader(options, self._readers_default(), self.counts_to)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader for `spark.readStream`. Where `schema` would raise, it is one that does when it is first asked."""
        from evensplit.errors import OptionError, RegistryError
        from evensplit.spark.failed_reader import RefusedStreamReader
        from evensplit.spark.options.parse import check_streaming
        from evensplit.spark.stream_reader import EvenSplitStreamReader

        try:
            options = self._parsed()
            check_streaming(options)
            self._check_auto(options)
            _check_schema(schema, options)
        except (OptionError, RegistryError) as error:
            return RefusedStreamReader(error)
        return EvenSplitStreamReader(options, self._readers_default(), counts_to=self.counts_to)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer for `df.write`. Raises OptionError for all wrong options and columns at once."""
        import secrets

        from evensplit.errors import OptionError
        from evensplit.spark.sink.batch_writer import EvenSplitBatchWriter
        from evensplit.spark.sink.options import parse_writing, tell_ignored

        options = parse_writing(self.options, schema, stream=False)
        tell_ignored(options.ignored)
        if overwrite:
            raise OptionError(
                ["the mode is overwrite, and records of a topic are never replaced; expected mode append"]
            )
        return EvenSplitBatchWriter(options, secrets.token_hex(8))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """The writer for `df.writeStream`, anew for each batch, and for each commit of one.

        With output mode `complete` (`overwrite`) all rows are appended each time, as by Spark's own sink. Raises
        OptionError for all wrong options and columns at once; LedgerError if there is no ledger to be had.
        """
        from evensplit.spark.sink.options import parse_writing, tell_ignored
        from evensplit.spark.sink.stream_writer import EvenSplitStreamWriter

        options = parse_writing(self.options, schema, stream=True)
        tell_ignored(options.ignored)
        if options.exactly_once:
            from evensplit.spark.sink.clients import prepare

            prepare(options)
        return EvenSplitStreamWriter(options, self.counts_to)

    def _check_auto(self, options: SourceOptions) -> None:
        """Raises OptionError if the number of readers is to follow the session, and nobody can be asked for that."""
        from evensplit.core.batch.reader_count import AUTO
        from evensplit.errors import OptionError

        if options.readers == AUTO and self.counts_to is None:
            raise OptionError(
                [
                    "readers is 'auto', and nobody can be asked how many tasks the session runs at once; expected a "
                    "number, or evensplit.register(spark) before the query, not under Spark Connect and without "
                    "counts_port='off' (its warnings say if it cannot be reached)"
                ]
            )

    def _parsed(self) -> SourceOptions:
        return self._parse(self.options)

    def _parse(self, options: Mapping[str, str]) -> SourceOptions:
        from evensplit.spark.options.parse import parse_options

        return parse_options(options, self._look_up)

    def _look_up(self, settings: RegistrySettings, subject: str, version: int | None) -> Schema:
        """The schema of a subject in a registry; the same each time."""
        key = (settings.urls, subject, version)
        if key not in self._schemas:
            from evensplit.registry.client import Registry

            registry = Registry(settings)
            found = registry.latest(subject) if version is None else registry.version(subject, version)
            self._schemas[key] = found.schema
        return self._schemas[key]

    def _readers_default(self) -> int:
        if self.parallelism is not None:
            return self.parallelism
        # Linux knows which processors this process may use; elsewhere all are counted.
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _row_type(options: SourceOptions) -> StructType:
    from evensplit.spark.row_type import row_type

    reading = options.reading
    return row_type(reading.columns, reading.key, reading.value)


def _check_schema(schema: StructType, options: SourceOptions) -> None:
    from evensplit.errors import OptionError

    expected = _row_type(options)
    if schema != expected:
        raise OptionError(
            [
                f"schema is {schema.simpleString()}; expected {expected.simpleString()}. Leave .schema(…) out, "
                "since a Kafka source has a fixed schema, and select from its columns"
            ]
        )
