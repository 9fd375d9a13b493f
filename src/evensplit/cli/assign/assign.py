"""`evensplit assign`: who would read what, for cases in a file, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click

from evensplit.cli.assign import assign_tables as tables
from evensplit.cli.assign.assign_tables import Score, score
from evensplit.cli.assign.cases import Case, name_of, read_cases
from evensplit.cli.usage import ending, form_option, new_console, watched
from evensplit.core.assign import Assignment
from evensplit.core.assign import assign as assign_splits
from evensplit.core.policies import POLICIES
from evensplit.errors import CaseError

DETAILED_CASES_MAX = 3
"""Up to so many cases are shown with all their members; more of them as one line each."""


@click.command(
    epilog=ending(
        "the assignments were printed",
        "the file cannot be read, or has no valid cases",
        "evensplit assign cases.json --compare",
    )
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--policy", type=click.Choice(POLICIES), default="balanced", show_default=True, help="The assignment policy."
)
@form_option
@click.option("--compare", is_flag=True, help="Compare all policies in numbers; ignores --policy.")
def assign(file: str, policy: str, form: str, compare: bool) -> None:
    """Assign partitions to readers, for the cases in FILE.

    With "-", cases come from standard input. A case has topics, members with the topics that they may read, and claims:
    the partitions that members have now.

    \b
    {"id": "two members, the second is new",
     "topics": {"orders": 4},
     "members": {"a": ["orders"], "b": ["orders"]},
     "claims": [{"member": "a", "generation": 1,
                 "partitions": ["orders-0", "orders-1", "orders-2", "orders-3"]}]}

    \b
    balanced     as even as possible, then with the fewest moves
    sticky       no move that is not forced, then as even as possible
    fair         as even as possible, regardless of present owners
    hash, round-robin, global
                 the rules of Flink's Kafka sources
    """
    cases = _read(file)
    if compare:
        _compare(cases, form)
    elif form == "json":
        _print_json([_plain(case, _solve(case, policy)) for case in _watched(cases)])
    else:
        _print_tables(cases, policy)


def _read(file: str) -> list[Case]:
    source = "standard input" if file == "-" else file
    try:
        with click.open_file(file, "rb") as opened:
            text = opened.read().decode("utf-8-sig")
    except OSError as error:
        raise click.ClickException(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CaseError(source, [f"it is not UTF-8: {error}"]) from error
    return read_cases(text, source)


def _solve(case: Case, policy: str) -> Assignment:
    return assign_splits(
        case.splits(), list(case.members), previous=case.previous(), eligible=case.eligible(), policy=policy
    )


def _plain(case: Case, assignment: Assignment) -> dict[str, Any]:
    return {
        "id": case.id,
        "owners": {name_of(split): member for split, member in assignment.owner.items()},
        "loads": dict(assignment.loads),
        "moved": assignment.moved,
        "unassigned": [name_of(split) for split in assignment.unassigned],
        "certificate": assignment.certificate.to_json(),
    }


def _print_json(results: Sequence[Any]) -> None:
    """One list, with a line for each result."""
    click.echo("[\n " + ",\n ".join(map(json.dumps, results)) + "\n]")


def _print_tables(cases: Sequence[Case], policy: str) -> None:
    console = new_console()
    if len(cases) <= DETAILED_CASES_MAX:
        for case in cases:
            console.print(tables.one_case(case, _solve(case, policy)))
        return
    console.print(tables.summary(policy, ((case, _solve(case, policy)) for case in _watched(cases))))


def _compare(cases: Sequence[Case], form: str) -> None:
    compared: list[tuple[Case, dict[str, Score]]] = [
        (case, {policy: score(case, _solve(case, policy)) for policy in POLICIES}) for case in _watched(cases)
    ]
    if form == "json":
        _print_json(
            [
                {"id": case.id, "policies": {policy: asdict(one) for policy, one in by_policy.items()}}
                for case, by_policy in compared
            ]
        )
    elif len(compared) <= DETAILED_CASES_MAX:
        for case, by_policy in compared:
            new_console().print(tables.comparison(case, by_policy))
    else:
        new_console().print(tables.comparison_of_many(compared))


def _watched(cases: Sequence[Case]) -> Iterable[Case]:
    return cases if len(cases) <= DETAILED_CASES_MAX else watched("cases", cases, len(cases))
