"""The keys of what is printed by `--format json`, and of explanations: as they are in samples that have all of them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.core.model import Held
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import explain
from evensplit.explain.record_counts import Counted, RecordCounts
from tests.support.histories import history, write
from tests.support.migrations import two_batches

NAMES = frozenset({"east", "west", "north", "orders", "clicks", "t", "a", "b"})
"""Clusters, topics and members in the samples: an object with such keys is a map, and its keys are no promise."""

_FIELD = re.compile(r"[a-z][A-Za-z0-9_]*")

CALLS: Mapping[str, str] = {
    "assign": "assign CASES --format json",
    "audit sink": "audit sink SINK --checkpoint KEPT --filtered --format json",
    "doctor": "doctor --checkpoint KEPT -o readers=2 --format json",
    "explain (an error)": "explain ES-101 --format json",
    "explain (an option)": "explain subscribe --format json",
    "inspect": "inspect KEPT --splits --format json",
    "migrate": "migrate SPARKS NEW --format json",
    "offsets": "offsets KEPT --format json",
    "plan": "plan KEPT --readers 2 --format json",
    "report": "report KEPT -o REPORT --format json",
    "simulate": "simulate --events 5 --format json",
    "top": "top KEPT --once --format json",
    "top (a folder)": "top FOLDER --once --format json",
    "why": "why KEPT west/clicks/2 --format json",
}
"""What is printed -> the call that prints it, where capitals stand for paths."""


def json_shapes() -> dict[str, list[str]]:
    """What is printed -> the keys in it, as paths: `[]` for the elements of a list, `{}` for those of a map."""
    with tempfile.TemporaryDirectory() as place:
        places = _places(Path(place))
        found = {name: sorted(set(_paths(_printed(call, places), ""))) for name, call in CALLS.items()}
    return {**found, "an explanation": sorted(set(_paths(_explanation(), "")))}


def _explanation() -> dict[str, Any]:
    states: list[EnumeratorState] = history()
    states[4] = replace(states[4], held=(Held("maxOffsetsPerTrigger", "east"),))
    counts = RecordCounts({"east": Counted(1, 1)}, True)
    found: dict[str, Any] = {}
    for before, after in pairwise(states[2:5]):
        one = explain(before, after, Report({}, {"east": "nobody is there"}), counts=counts).to_json()
        found = {key: value or found.get(key) for key, value in one.items()}
    return found


def _places(place: Path) -> Mapping[str, str]:
    (place / "cases.json").write_text('{"id": "one", "topics": {"t": 4}, "members": {"a": ["t"], "b": ["t"]}}')
    (place / "sink.csv").write_text("cluster,topic,partition,offset\neast,orders,0,150\n")
    return {
        "CASES": str(place / "cases.json"),
        "SINK": str(place / "sink.csv"),
        "KEPT": str(write(place / "kept", history())),
        "FOLDER": str(write(place / "all" / "orders", history()).parent),
        "SPARKS": str(two_batches(place)),
        "NEW": str(place / "new"),
        "REPORT": str(place / "report.html"),
    }


def _printed(call: str, places: Mapping[str, str]) -> Any:
    done = CliRunner().invoke(evensplit, [places.get(one, one) for one in call.split()], env={"COLUMNS": "200"})
    if not done.stdout.strip():
        raise RuntimeError(f"{call} prints nothing: {done.output}")
    return json.loads(done.stdout)


def _paths(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        is_map = not all(map(_FIELD.fullmatch, value)) or bool(NAMES.intersection(value))
        for key, one in value.items():
            place = f"{where}{{}}" if is_map else f"{where}.{key}" if where else key
            yield place
            yield from _paths(one, place)
    elif isinstance(value, list):
        for one in value:
            yield from _paths(one, f"{where}[]")
