"""What the sink would refuse of a job that writes to Kafka."""

from __future__ import annotations

from collections.abc import Mapping

import click

from evensplit.errors import OptionError


def sink_problems(options: Mapping[str, str], *, stream: bool) -> list[str]:
    """A sentence for each option that the sink would refuse, for rows with a key and a value.

    Raises click.UsageError if PySpark, by which the sink knows columns, is missing.
    """
    try:
        from pyspark.sql.types import BinaryType, StructField, StructType

        from evensplit.spark.sink.options import parse_writing
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--sink kafka needs PySpark: pip install 'evensplit[spark]' ({error})") from error
    columns = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
    try:
        parse_writing(options, columns, stream=stream)
    except OptionError as error:
        return list(error.problems)
    return []
