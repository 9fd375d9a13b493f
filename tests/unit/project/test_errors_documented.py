"""Every error has an id, a cause and a cure, shows the id wherever it is shown, and is provoked by a test."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit import errors
from evensplit.cli.group import evensplit
from evensplit.errors import BY_ID, BrokerError, CommitRefused, EvenSplitError, OptionError

ROOT = Path(__file__).resolve().parents[3]

ROOTS = {"ES-001", "ES-100"}
"""Those that are caught and never raised themselves."""

PROVOKED = {
    "ES-101": "tests/unit/spark/test_options.py",
    "ES-102": "tests/unit/core/test_assign.py",
    "ES-103": "tests/unit/cli/test_cli_assign.py",
    "ES-104": "tests/unit/metadata/test_metadata_damage.py",
    "ES-105": "tests/unit/spark/test_read_committed.py",
    "ES-106": "tests/unit/observe/test_web_server.py",
    "ES-107": "tests/unit/metadata/test_metadata_refused.py",
    "ES-108": "tests/unit/registry/test_registry_tasks.py",
    "ES-109": "tests/unit/spark/test_installed.py",
    "ES-200": "tests/unit/spark/test_world.py",
    "ES-201": "tests/unit/spark/test_world.py",
    "ES-202": "tests/unit/kafka/test_lane_answers.py",
    "ES-203": "tests/kafka/test_port_contract.py",
    "ES-204": "tests/kafka/test_client_scripted.py",
    "ES-205": "tests/kafka/test_damaged_tls.py",
    "ES-206": "tests/kafka/test_connection.py",
    "ES-301": "tests/unit/kafka/test_lane_answers.py",
    "ES-302": "tests/unit/kafka/test_lane_answers.py",
    "ES-303": "tests/kafka/test_oldest_broker.py",
    "ES-304": "tests/unit/spark/test_coordinator_session.py",
    "ES-305": "tests/kafka/test_lane_timestamps.py",
    "ES-306": "tests/unit/kafka/test_decoded_values.py",
    "ES-307": "tests/unit/kafka/test_conditions.py",
    "ES-400": "tests/unit/core/test_plan.py",
    "ES-401": "tests/unit/core/test_codec_damage.py",
    "ES-402": "tests/unit/core/test_codec_damage.py",
    "ES-403": "tests/unit/spark/test_handover.py",
    "ES-404": "tests/unit/spark/test_schema_changes.py",
    "ES-405": "tests/unit/checkpoint/test_places.py",
    "ES-406": "tests/unit/core/test_edits.py",
    "ES-501": "tests/unit/core/test_enumerator.py",
    "ES-601": "tests/unit/testing/test_jars.py",
    "ES-602": "tests/sim/test_simulation.py",
    "ES-603": "tests/unit/testing/chaos/test_recorder.py",
    "ES-700": "tests/unit/registry/test_registry_answers.py",
    "ES-701": "tests/unit/registry/test_registry_retries.py",
    "ES-702": "tests/unit/registry/test_registry_logins.py",
    "ES-703": "tests/unit/registry/test_registry_answers.py",
    "ES-704": "tests/unit/registry/test_registry_tasks.py",
    "ES-800": "tests/unit/kafka/test_producer_faults.py",
    "ES-801": "tests/kafka/test_producer.py",
    "ES-802": "tests/unit/spark/sink/test_rows.py",
    "ES-803": "tests/kafka/test_ledger_topics.py",
    "ES-804": "tests/unit/spark/sink/test_deciding.py",
    "ES-805": "tests/unit/spark/sink/test_deciding.py",
    "ES-806": "tests/unit/spark/sink/test_deciding.py",
    "ES-807": "tests/unit/spark/sink/test_deciding.py",
    "ES-808": "tests/unit/spark/sink/test_deciding.py",
}
"""A file of tests with one that provokes the error."""


def test_every_class_is_public_and_has_an_id_a_cause_and_a_cure_of_its_own() -> None:
    classes = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, EvenSplitError)}
    assert {error.__name__ for error in classes} == {name for name in errors.__all__ if name[0].isupper()}
    assert set(BY_ID.values()) == classes
    for error_id, error in BY_ID.items():
        assert re.fullmatch(r"ES-\d{3}", error_id)
        assert error.__module__ == "evensplit.errors"
        assert vars(error)["id"] == error_id
        assert vars(error)["cause"].endswith(".")
        assert vars(error)["cure"].endswith(".")


@pytest.mark.parametrize("error_id", [error_id for error_id in BY_ID if error_id not in ROOTS])
def test_every_error_is_provoked_by_a_test(error_id: str) -> None:
    name = BY_ID[error_id].__name__
    tests = [
        function
        for function in ast.walk(ast.parse((ROOT / PROVOKED[error_id]).read_text()))
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
    ]
    assert any(_expects(test, name) for test in tests), f"no test in {PROVOKED[error_id]} expects {name}"


def _expects(test: ast.FunctionDef, name: str) -> bool:
    """Whether there is `pytest.raises(NAME …)` in it."""
    return any(
        isinstance(call, ast.Call)
        and ast.unparse(call.func) == "pytest.raises"
        and call.args
        and name in ast.unparse(call.args[0])
        for call in ast.walk(test)
    )


def test_what_python_and_spark_write_out_has_the_id_once_below_the_message() -> None:
    error = OptionError(["subscribe is missing"])
    assert str(error) == "1 option is wrong: subscribe is missing"
    for one in (
        error,
        pickle.loads(pickle.dumps(error)),
        pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error)))),
    ):
        lines = "".join(traceback.format_exception(one)).splitlines()
        assert lines[-2:] == [f"evensplit.errors.OptionError: {error}", error.reference]
        assert error.reference.startswith("ES-101: ")


def test_columns_are_called_columns() -> None:
    one, two = "value is missing", "key is int"
    for error in (found := OptionError(["topic is 7"], [one, two])), pickle.loads(pickle.dumps(found)):
        assert error.problems == ("topic is 7", one, two)
        assert str(error).splitlines() == [
            "1 option and 2 columns are wrong:",
            "  1. topic is 7",
            f"  2. {one}",
            f"  3. {two}",
        ]
    assert str(OptionError([], [one])) == f"1 column is wrong: {one}"
    assert str(OptionError([], [one, two])).startswith("2 columns are wrong:")


def test_a_kind_of_an_error_has_one_id_of_its_own() -> None:
    refused = CommitRefused("east", "no", 29, [("orders", 0)])
    assert refused.__notes__ == [refused.reference]
    assert (refused.id, BrokerError("east", "no", 29).id) == ("ES-203", "ES-202")

    class Mine(OptionError):
        pass

    assert Mine(["x"]).id == "ES-101"


def test_the_command_line_shows_the_id(tmp_path: Path) -> None:
    done = CliRunner().invoke(evensplit, ["offsets", str(tmp_path)])
    assert done.exit_code == 1
    assert "\nES-400: " in done.stderr
