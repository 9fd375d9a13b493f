"""The same rows written by Spark's own Kafka sink and by this one are the same records, where only one word differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.peer_query import Peer
from tests.support.written import records

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 5

ROWS = """
SELECT if(id % 3 = 0, null, cast(concat('key-', id % 200) as binary)) as key,
       if(id % 7 = 0, null, concat('value-', id)) as value,
       if(id % 5 = 0, null, array(named_struct('key', 'h', 'value', cast(concat('', id) as binary)),
                                  named_struct('key', 'ü', 'value', cast(null as binary)))) as headers,
       if(id % 3 = 0, cast(id % 5 as int), if(id % 11 = 0, cast(1 as int), null)) as partition,
       id as other
FROM range(0, 1000, 1, 1)
"""


def seen(kafka: LocalKafka, topic: str) -> list[Any]:
    """Everything but offsets and times, in the order of each partition."""
    return [(one.partition, one.key, one.value, one.headers) for one in records(kafka, topic, range(PARTITIONS))]


def test_one_word_changed(spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Rows with a key go to the same partitions, and all of a partition are in the same order."""
    peer = Peer(tmp_path / "peer.log")
    try:
        for name in (f"{topic}-theirs", f"{topic}-ours"):
            east.create_topic(name, PARTITIONS)
        options = {"kafka.bootstrap.servers": east.bootstrap_servers, "kafka.compression.type": "zstd"}
        assert peer.run(sql=ROWS, options={**options, "topic": f"{topic}-theirs"}) == {"error": ""}
        ours = {**options, "topic": f"{topic}-ours"}
        spark.sql(ROWS).coalesce(1).write.format("evensplit").mode("append").options(**ours).save()
        found = seen(east, f"{topic}-theirs")
        assert len(found) == 1000
        assert seen(east, f"{topic}-ours") == found
        for sql, part in (
            ("SELECT 1 AS value, 't' AS topic", "value must be a(n) string or binary"),
            ("SELECT 'a' AS key, 't' AS topic", "equired attribute 'value' not found"),
            ("SELECT 'a' AS value", "topic option required when no 'topic' attribute is present"),
            ("SELECT 'a' AS value, 1 AS key, 't' AS topic", "key must be a(n) string or binary"),
            ("SELECT 'a' AS value, 1L AS partition, 't' AS topic", "partition must be a(n) int"),
        ):
            assert part in peer.run(sql=sql, options=options)["error"]
            with pytest.raises(PySparkException) as caught:
                spark.sql(sql).write.format("evensplit").mode("append").options(**options).save()
            assert part in str(caught.value)
    finally:
        peer.close()
