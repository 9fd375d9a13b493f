"""`evensplit.enumerator`, as hosts see it: its names, the types that appear in them, and what importing it loads."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from evensplit import enumerator
from evensplit.enumerator import Session

EVENTS = [
    "BatchOpened", "BatchPlanned", "ClusterPollFailed", "ClustersListed", "LogsObserved", "OffsetsResolved",
    "ParallelismChanged", "PartitionsListed", "ReadLogsPolled", "ReaderLost", "ReaderRegistered", "ReaderRemoved",
    "RecordsLost", "SettingsChanged", "SplitsFinished", "SplitsGivenBack", "TimePassed",
]  # fmt: skip
EFFECTS = [
    "Assign", "Forget", "ListPartitions", "RefuseCluster", "ReportLoss", "ResolveStart", "Revoke", "SignalNoMoreSplits",
]  # fmt: skip
OTHERS = [
    "Asked", "BALANCES", "Cause", "Certificate", "CheckpointCorrupt", "CheckpointForeign", "CheckpointVersionUnknown",
    "Claim", "Cluster", "ClusterState", "Edit", "Effect", "EnumeratorState", "EpochStart", "EpochTable", "Evenness",
    "Event", "HandedOut", "Held", "Jump", "LOSSES", "Lifecycle", "ListedCluster", "ListedPartition",
    "Loss", "NOW", "PLANS", "POLICIES",
    "Partitions", "READERS_MAX", "REBALANCES", "Range", "RateProof", "Readable", "ReaderSchema", "SCOPES", "Session",
    "Settings", "Split", "SplitId", "StartBy", "Step", "Subscription", "Topic", "TopicPattern", "Topics",
    "TransitionError",
    "check", "check_step", "decode", "encode", "evenness", "resolve_claims", "step",
]  # fmt: skip
"""What is not here is private. To take a name away is a new major version, to add one a promise."""

FIELDS = {
    "Assign": "split reader position previous generation topic_id stop",
    "Revoke": "split reader",
    "ResolveStart": "cluster splits by",
    "ReaderRegistered": "reader epoch reported generation location topic_ids",
    "ReaderLost": "reader epoch",
    "ReaderRemoved": "reader",
    "SplitsFinished": "reader epoch splits topic_ids",
    "SplitsGivenBack": "reader splits",
    "ClustersListed": "clusters confirmed complete answer",
    "ListedCluster": "id bootstrap_servers starts_by_strategy subscription",
    "PartitionsListed": "cluster partitions complete kafka_id seen answer asked discovery",
    "OffsetsResolved": "starts stops topic_ids",
    "BatchPlanned": "ends reached_ms held measured",
    "SettingsChanged": "settings eligible discovery discovery_interval_ms loss",
}
"""In this order; later versions may add some at the end, with a default."""


def exported(wanted: Callable[[Any], bool]) -> list[Any]:
    return [one for name in enumerator.__all__ if wanted(one := getattr(enumerator, name))]


def test_the_public_names_are_these() -> None:
    assert sorted(enumerator.__all__) == sorted([*EVENTS, *EFFECTS, *OTHERS])


def test_the_unions_are_the_events_and_the_effects() -> None:
    assert sorted(one.__name__ for one in typing.get_args(enumerator.Event)) == sorted(EVENTS)
    assert sorted(one.__name__ for one in typing.get_args(enumerator.Effect)) == sorted(EFFECTS)


@pytest.mark.parametrize("name", FIELDS)
def test_fields_stay_where_they_are(name: str) -> None:
    fields = dataclasses.fields(getattr(enumerator, name))
    wanted = FIELDS[name].split()
    assert [one.name for one in fields][: len(wanted)] == wanted
    added = fields[len(wanted) :]
    assert all(one.default is not one.default_factory for one in added)


def test_every_type_that_appears_is_public() -> None:
    """In fields, properties, arguments and results; but for the fields of a session, which are nobody's business."""
    public = exported(inspect.isclass)
    found = {
        (kind.__name__, getattr(one, "__name__", str(one)))
        for one in exported(callable)
        if one is not Session
        for kind in appearing(one)
    }
    assert {name for name, _ in found} >= {"Split", "Settings", "Certificate", "ReaderSchema", "Asked", "Loss"}
    assert sorted(pair for pair in found if pair[0] not in {one.__name__ for one in public}) == []


def appearing(one: Any) -> Iterator[type]:
    """The classes of this package that the public signatures of a class, or of a function, name."""
    hints: dict[str, Any] = {}
    if inspect.isclass(one) and not issubclass(one, (Enum, Exception)):
        hints.update(typing.get_type_hints(one))
        for name, member in vars(one).items():
            got = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(got) and not name.startswith("_"):
                hints.update({f"{name}.{what}": hint for what, hint in typing.get_type_hints(got).items()})
    elif inspect.isfunction(one):
        hints.update(typing.get_type_hints(one))
    for name, hint in hints.items():
        if not name.startswith("_"):
            yield from classes(hint)


def classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, (types.UnionType, types.GenericAlias)) or typing.get_args(hint):
        for part in typing.get_args(hint):
            yield from (one for inner in (part if isinstance(part, list) else [part]) for one in classes(inner))
    elif inspect.isclass(hint) and hint.__module__.startswith("evensplit"):
        yield hint


def test_every_public_class_and_function_says_what_it_is() -> None:
    classes_and_functions = exported(lambda one: inspect.isclass(one) or inspect.isfunction(one))
    assert [one.__name__ for one in classes_and_functions if not (one.__doc__ or "").strip()] == []
    generated = [one.__name__ for one in classes_and_functions if (one.__doc__ or "").startswith(f"{one.__name__}(")]
    assert generated == []


def test_importing_it_loads_neither_spark_nor_kafka_nor_arrow_nor_the_kernel() -> None:
    program = "import sys, evensplit.enumerator; print(*sys.modules, sep='\\n')"
    # `make coverage` measures programs that tests start, too, and loads some of these for that.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=unmeasured
    )
    loaded = done.stdout.split()
    assert "evensplit.core.machine.enumerator" in loaded
    ours = {name.split(".")[1] for name in loaded if name.startswith("evensplit.")}
    assert ours == {"core", "enumerator", "errors", "explain"}
    heavy = {"pyspark", "py4j", "kafka", "confluent_kafka", "pyarrow", "pandas", "socket", "ssl"}
    assert heavy & {name.partition(".")[0] for name in loaded} == set()


SPLIT = enumerator.SplitId("east", "orders", 0)
SENT = {
    "Assign": (SPLIT, 0, 7, None, 1),
    "ClusterPollFailed": ("east", "no answer"),
    "ClustersListed": ((enumerator.ListedCluster("east", ("h:1",)),),),
    "LogsObserved": ("east", {SPLIT: 7}),
    "OffsetsResolved": ({SPLIT: 7},),
    "PartitionsListed": ("east", (enumerator.ListedPartition("orders", 0),)),
    "ReaderRegistered": (0,),
    "Revoke": (SPLIT, 0),
    "SettingsChanged": (),
    "SplitsFinished": (0, 1, {SPLIT: 7}),
}


@pytest.mark.parametrize("name", SENT)
def test_readers_that_are_processes_can_send_and_get_them(name: str) -> None:
    one = getattr(enumerator, name)(*SENT[name])
    there = pickle.loads(pickle.dumps(one))
    assert there == one
    assert repr(there) == repr(one)


def test_what_is_not_said_is_an_empty_mapping() -> None:
    reported = enumerator.ReaderRegistered(0).reported
    assert (reported, len(reported), list(reported), repr(reported)) == ({}, 0, [], "{}")
    with pytest.raises(KeyError):
        reported[SPLIT]
