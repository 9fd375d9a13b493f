"""Options: whatever is written, it is understood or refused, and nothing else happens."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.state.offset_strategies import ByTopic, Specific, parts
from evensplit.errors import OptionError
from evensplit.kafka.options.option import UNITS_MS, duration_ms
from evensplit.spark.options.parse import check_batch, check_streaming, parse_clusters, parse_options
from evensplit.spark.options.spec.all import CLUSTER_OPTIONS, SOURCE_OPTIONS

NAMES = (*CLUSTER_OPTIONS, *SOURCE_OPTIONS, "kafka.bootstrap.servers", "kafka.client.id", "metadata.mine")

words = st.sampled_from(["earliest", "latest", "-5m", "-7", "timestamp:9", "timestamp:2025-01-31T12:00Z", "b:1", "t"])
keys = st.sampled_from(["t", "0", "1", "*", "east", "0-3", "startingOffsets", "kafka.bootstrap.servers", "a b"])
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(words, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
texts = st.one_of(words, st.text(max_size=8), values.map(json.dumps), st.sampled_from(["0", "5s", "true", "3"]))


@given(st.dictionaries(st.sampled_from(NAMES), texts, max_size=6))
def test_options_are_understood_or_refused(options: dict[str, str]) -> None:
    with contextlib.suppress(OptionError):
        parsed = parse_options(options)
        check_streaming(parsed)
        check_batch(parsed)


@given(
    st.dictionaries(st.sampled_from(NAMES).map(str.lower), texts, max_size=3),
    st.dictionaries(
        st.text(max_size=3), st.dictionaries(st.sampled_from((*NAMES, "where")), values, max_size=4), max_size=2
    ),
)
def test_clusters_of_metadata_are_understood_or_refused(
    common: dict[str, Any], listed: dict[str, dict[str, Any]]
) -> None:
    clusters, problems = parse_clusters(common, listed)
    assert {cluster.id for cluster in clusters} <= set(listed)
    assert len(clusters) == len(listed) or problems
    assert len(set(problems)) == len(problems)


entries = st.one_of(
    st.integers(-2, 99), st.sampled_from(["earliest", "latest", "-5m", "-7", "timestamp:9", "timestamp:0"])
)
starts = st.dictionaries(
    st.sampled_from(["t", "u", "v"]),
    st.one_of(
        entries.filter(lambda entry: isinstance(entry, str)),
        st.dictionaries(st.sampled_from(["0", "1", "2"]), entries, min_size=1),
    ),
    min_size=1,
)


@given(starts)
def test_a_start_names_what_was_written_and_nothing_else(document: dict[str, Any]) -> None:
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribePattern": ".", "start": json.dumps(document)})
    strategy = options.clusters[0].starting
    assert strategy is not None
    named: list[Any] = []
    for part in parts(strategy):
        if isinstance(part, ByTopic):
            named += [*part.topics, *part.partitions]
        elif isinstance(part, Specific):
            assert all(
                document[topic][str(partition)] == part.offsets[topic, partition] for topic, partition in part.offsets
            )
            named += part.offsets
    written = [
        (topic, int(partition)) if partition else topic
        for topic, entry in document.items()
        for partition in (entry if isinstance(entry, dict) else [None])
    ]
    assert sorted(map(str, named)) == sorted(map(str, written))


@given(st.integers(0, 10**12), st.sampled_from(sorted(UNITS_MS)), st.sampled_from(["", " ", "\t"]))
def test_a_whole_number_of_units_is_exact(number: int, unit: str, blank: str) -> None:
    assert duration_ms(f"{number}{blank}{unit}") == number * UNITS_MS[unit]
