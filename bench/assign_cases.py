"""How often Kafka's assignors and evensplit find the optimum in the cases of Kafka's and Flink's own tests."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from evensplit import assign
from evensplit.cli.assign.cases import Case, name_of, read_cases

CASES = Path(__file__).parents[1] / "tests" / "data" / "cases" / "assign-cases.json"
LIMIT_S = 60.0
OUTCOMES = ("even with the fewest moves", "even, more moves", "uneven", "no answer")


def cases_table(java: Sequence[str]) -> Table:
    """For each of the three assignors, how many cases have which outcome. `java`: runs KafkaAssignors.java."""
    text = CASES.read_text()
    cases = {case.id: case for case in read_cases(text, str(CASES))}
    best = {case["id"]: case["optimum"] for case in json.loads(text)}
    counts = {
        "Kafka's client": counted(cases, best, answers(java, "client")),
        "Kafka's server": counted(cases, best, answers(java, "server")),
        "ours": counted(cases, best, {name: ours(case) for name, case in cases.items()}),
    }
    table = Table(f"{len(cases)} cases", *OUTCOMES)
    for column in range(1, len(OUTCOMES) + 1):
        table.columns[column].justify = "right"
    for who, count in counts.items():
        table.add_row(who, *(str(count[outcome]) for outcome in OUTCOMES))
    return table


def answers(java: Sequence[str], who: str) -> dict[str, dict[str, str] | None]:
    """Case -> the owners that Kafka assigns, None if it fails."""
    command = [*java, "cases", who, str(CASES)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
    return {answer["id"]: None if "error" in answer else answer["owners"] for answer in json.loads(said)}


def ours(case: Case) -> dict[str, str]:
    """Case -> the owners that evensplit assigns."""
    result = assign(case.splits(), list(case.members), previous=case.previous(), eligible=case.eligible())
    return {name_of(split): str(reader) for split, reader in result.owner.items()}


def counted(
    cases: Mapping[str, Case], best: Mapping[str, Any], given: Mapping[str, dict[str, str] | None]
) -> Counter[str]:
    """How many cases have each outcome."""
    count: Counter[str] = Counter()
    for name, case in cases.items():
        owners = given[name]
        if owners is None:
            count["no answer"] += 1
            continue
        loads = Counter(owners.values())
        moved = sum(owners.get(name_of(split)) != reader for split, reader in case.previous().items())
        if sorted((loads[member] for member in case.members), reverse=True) != best[name]["load_multiset"]:
            count["uneven"] += 1
        else:
            count["even, more moves" if moved > best[name]["min_moved"] else "even with the fewest moves"] += 1
    return count
