"""What a task is handed: the ranges of one reader in one batch, and how to reach their clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from evensplit.core.model import Range
from evensplit.core.plan import ReaderPlan
from evensplit.core.state import EnumeratorState
from evensplit.kafka.settings import ClientSettings, parse_settings
from evensplit.spark.options import SourceOptions


class ReaderPartition(InputPartition):
    """The work of one reader: its ranges, the settings of each cluster in them, and the columns that are wanted.

    `topic_ids`: (cluster, topic) -> the id of the topic that the ranges were planned for; empty where it has none.
    """

    def __init__(
        self,
        *,
        reader: int,
        ranges: tuple[Range, ...],
        settings: Mapping[str, ClientSettings],
        topic_ids: Mapping[tuple[str, str], str],
        headers: bool,
        with_cluster: bool,
    ) -> None:
        super().__init__(reader)
        self.reader = reader
        self.ranges = ranges
        self.settings = settings
        self.topic_ids = topic_ids
        self.headers = headers
        self.with_cluster = with_cluster

    def __repr__(self) -> str:
        return f"ReaderPartition(reader={self.reader}, ranges={[str(one.split) for one in self.ranges]})"


def input_partitions(
    plans: Sequence[ReaderPlan], end: EnumeratorState, options: SourceOptions
) -> list[ReaderPartition]:
    """One input partition for each reader that has work.

    Where the clusters are is taken from `end`, so that a batch that is planned again after a restart is read from
    where it was planned, also when its cluster has left the options meanwhile; the rest comes from the options.
    """
    settings: dict[str, ClientSettings] = {}
    for name, cluster in end.clusters.items():
        known = options.cluster(name)
        if known is not None:
            settings[name] = replace(known.settings, bootstrap_servers=cluster.bootstrap_servers)
        else:
            alone, problems, _ = parse_settings({"bootstrap.servers": ",".join(cluster.bootstrap_servers)})
            if alone is None:
                raise ValueError(f"cluster {name!r} of the checkpoint cannot be reached: {'; '.join(problems)}")
            settings[name] = alone
    return [
        ReaderPartition(
            reader=plan.reader,
            ranges=plan.ranges,
            settings={name: settings[name] for name in sorted({one.split.cluster for one in plan.ranges})},
            topic_ids={one.split[:2]: end.splits[one.split].topic_id for one in plan.ranges},
            headers=options.headers,
            with_cluster=options.with_cluster,
        )
        for plan in plans
    ]
