"""The metrics of how even owners are: by counts, and by work."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.explain.batch import Explanation
from evensplit.explain.evenness import overall
from evensplit.observe.metric import Metric, Sample

_SOURCE = ("query", "source")

EVEN_METRICS = (
    Metric(
        "evensplit_spread_splits",
        "gauge",
        _SOURCE,
        "Difference between the most and the fewest partitions of a reader.",
    ),
    Metric(
        "evensplit_even",
        "gauge",
        _SOURCE,
        "1 if the assignment is proven to be as even as possible, 0 if a more even one exists. No sample if not known. "
        "With balance=rate, once rates are known, and with capacity: 1 if the largest load is proven to be at most "
        "rebalanceGain per cent above the least possible, 0 if that is not proven.",
    ),
    Metric(
        "evensplit_work_max",
        "gauge",
        _SOURCE,
        "With balance=rate: offsets a minute that the partitions of the busiest reader bring, for each part of its "
        "capacity. With assignScope=per-cluster, of the cluster that is furthest above its bound. No sample until "
        "rates are known.",
    ),
    Metric(
        "evensplit_work_bound",
        "gauge",
        _SOURCE,
        "What evensplit_work_max is at least, whoever owns what. Owners that reach it are the best; there may be none "
        "that do.",
    ),
)
"""Those of one source."""


def of_owners(found: Explanation, labels: tuple[str, ...]) -> Iterator[Sample]:
    """The samples of EVEN_METRICS after a batch."""
    even, work = overall(found.evenness)
    yield Sample("evensplit_spread_splits", labels, found.spread)
    if even is not None:
        yield Sample("evensplit_even", labels, even)
    if work is not None:
        yield Sample("evensplit_work_max", labels, float(work.level_max))
        yield Sample("evensplit_work_bound", labels, float(work.bound))
