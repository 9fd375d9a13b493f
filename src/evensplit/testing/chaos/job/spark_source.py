"""Spark's own source for Kafka in a run: what has to be there, and how it reads the same records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from evensplit.errors import ChaosError
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.workload.topics import LAYOUT, UNCLEAN_TOPIC
from evensplit.testing.process.spark_kafka_jars import SPARK, connector_jars

INSTEAD = (
    f"In a checkout call `make chaos-peer`, which makes an environment with it; elsewhere make one of your own: "
    f"pip install 'evensplit[cli,spark,testing]' pyspark=={SPARK}"
)


def settings() -> dict[str, str]:
    """The settings with which Spark has its own source; its jars are downloaded if need be.

    `ChaosError` unless PySpark is of the version of the jars, `LocalKafkaError` if they cannot be had.
    """
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise ChaosError(f"the source `kafka` needs PySpark {SPARK}, and there is none here. {INSTEAD}") from None
    if found != SPARK:
        raise ChaosError(
            f"the source `kafka` is Spark's own, which is not published for the PySpark {found} of this environment: "
            f"it needs PySpark {SPARK}. {INSTEAD}"
        )
    return {"spark.jars": ",".join(map(str, connector_jars()))}


def options(clusters: Mapping[str, ChaosCluster]) -> dict[str, str]:
    """Options of its own for each cluster, by name, in the one option `clusters`: it reads one cluster at a time."""
    topics = sorted({name for name, *_ in (*LAYOUT, UNCLEAN_TOPIC)})
    own = {
        name: {
            "kafka.bootstrap.servers": one.servers,
            # Topics that come later, or come again, are read, too.
            "subscribePattern": "|".join(topics),
            **{f"kafka.{key}": value for key, value in one.source_properties().items()},
        }
        for name, one in clusters.items()
    }
    return {"clusters": json.dumps(own)}
