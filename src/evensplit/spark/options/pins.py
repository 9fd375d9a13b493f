"""The option `pin`: which readers may read what."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evensplit.core.model import Cluster, Readable, Topic
from evensplit.core.state.state import READERS_MAX
from evensplit.core.text import expected_of
from evensplit.kafka.options.option import Option
from evensplit.spark.options.per_cluster import cluster_name_problem
from evensplit.spark.options.spec.query import PIN
from evensplit.spark.options.values import TOPIC, RawOptions, shown

PAIRS_MAX = 10 * READERS_MAX
"""How many pairs of a reader and what it may read `pin` may name, all ranges together."""

_READERS = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", re.ASCII)


def parse_pins(
    given: RawOptions, readers: int | None, clusters: Sequence[str] | None
) -> Mapping[int, tuple[Readable, ...]]:
    """Reader -> what it may read, both in ascending order; nothing where `pin` is not given.

    `readers`: their number, None if it is not known. `clusters`: the ids of all clusters, None if they are not known
    yet. Ranges may overlap: a reader may read everything that any of its ranges names.
    """
    document = given.document(PIN) if PIN.name in given else {}
    if document is None:
        return {}
    if PIN.name in given and not document:
        given.wrong(PIN)
    pairs = 0
    found: dict[int, dict[Cluster | Topic, None]] = {}
    for text, listed in document.items():
        named, targets = reader_range(given, PIN, text, readers), _targets(given, text, listed, clusters)
        pairs += len(named) * len(targets)
        if pairs > PAIRS_MAX:
            given.problems.append(
                f"pin names more than {PAIRS_MAX} pairs of a reader and what it may read; expected fewer, such as "
                "clusters in place of topics"
            )
            return {}
        for reader in named:
            found.setdefault(reader, {}).update(dict.fromkeys(targets))
    pins: dict[int, tuple[Readable, ...]] = {}
    for reader in sorted(found):
        pins[reader] = (*sorted(found[reader], key=_order),)
    return pins


def reader_range(given: RawOptions, option: Option, text: str, readers: int | None) -> range:
    """The readers that a key of `option` names, one or a range of them; none where it is wrong, which is said then."""
    match = _READERS.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        given.problems.append(
            f"{option.name} names the readers {shown(text)}; expected a number from 0, or a range of them such as 0-3"
        )
        return range(0)
    first, last = int(match[1]), int(match[2] or match[1])
    most = READERS_MAX if readers is None else readers
    if last >= most:
        reason = f"at most {most - 1}" + ("" if readers is None else f", since readers is {readers}")
        given.problems.append(f"{option.name} names the readers {shown(text)}; expected {reason}")
        return range(0)
    return range(first, last + 1)


def _targets(given: RawOptions, text: str, listed: Any, clusters: Sequence[str] | None) -> list[Cluster | Topic]:
    if not isinstance(listed, list) or not listed or not all(isinstance(one, str) for one in listed):
        given.problems.append(
            f"pin of the readers {shown(text)} is {shown(listed)}; expected a list of clusters and topics, such as "
            '["east", "west/orders"]'
        )
        return []
    targets: list[Cluster | Topic] = []
    for one in listed:
        cluster, slash, topic = one.partition("/")
        problem = cluster_name_problem(cluster, "pin")
        if problem is None and clusters is not None and cluster not in clusters:
            close = difflib.get_close_matches(cluster, clusters, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"expected {expected_of([shown(other) for other in clusters])}"
            )
            problem = f"pin names the cluster {shown(cluster)}, which does not exist; {hint}"
        if problem is None and slash and not TOPIC.fullmatch(topic):
            problem = f"pin names {shown(one)}, where {shown(topic)} cannot be a topic"
        if problem is None:
            targets.append(Topic(cluster, topic) if slash else Cluster(cluster))
        else:
            given.problems.append(problem)
    return targets


def _order(readable: Cluster | Topic) -> tuple[str, str]:
    return (readable.id, "") if isinstance(readable, Cluster) else (readable.cluster, readable.name)
