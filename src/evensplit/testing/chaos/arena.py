"""Everything that takes part in a run, as nemeses get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.standalone import StandaloneCluster
from evensplit.testing.chaos.job.topic_reader import TopicReader
from evensplit.testing.chaos.metadata_service import MetadataService
from evensplit.testing.chaos.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Arena:
    """The parts of one run. Nemeses act on them, each on those of its resource alone."""

    directory: Path
    recorder: Recorder
    clusters: Mapping[str, ChaosCluster]
    """By name: `east` with three brokers and a controller of its own, `west` with one broker, TLS, users and rules."""
    metadata: MetadataService
    workload: Workload
    job: JobProcess
    spark: StandaloneCluster | None
    """None if the job's Spark is local."""
    reader: TopicReader | None = None
    """Of the topic that the query `kafka` writes to; None if the job does not have it."""
