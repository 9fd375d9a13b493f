"""The table of errors: every error is in it, has its id wherever it is shown, and is provoked by a test."""

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
from evensplit.error_table import MEANINGS
from evensplit.errors import BrokerError, CommitRefused, EvenSplitError, OptionError
from evensplit.testing.sim import SimulationFailed

ROOT = Path(__file__).resolve().parents[3]

CLASSES = {
    name: one for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, EvenSplitError)
} | {"SimulationFailed": SimulationFailed}

ROOTS = {"ES-001", "ES-100"}
"""Those that are caught and never raised themselves."""

PROVOKED = {
    "ES-101": "tests/unit/spark/test_options_values.py",
    "ES-102": "tests/unit/core/test_assign.py",
    "ES-103": "tests/unit/cli/test_cli_assign.py",
    "ES-104": "tests/unit/metadata/test_metadata_damage.py",
    "ES-105": "tests/unit/spark/test_read_committed.py",
    "ES-106": "tests/unit/observe/test_web_server.py",
    "ES-107": "tests/unit/metadata/test_metadata_refused.py",
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
    "ES-400": "tests/unit/core/test_plan.py",
    "ES-401": "tests/unit/core/test_codec_damage.py",
    "ES-402": "tests/unit/core/test_codec_damage.py",
    "ES-403": "tests/unit/spark/test_handover.py",
    "ES-501": "tests/unit/core/test_enumerator.py",
    "ES-601": "tests/unit/testing/test_jars.py",
    "ES-602": "tests/sim/test_simulation.py",
}
"""A file of tests with one that provokes the error."""


def test_every_error_is_in_the_table_with_its_id() -> None:
    assert {one.name: one.id for one in MEANINGS} == {name: one.id for name, one in CLASSES.items()}
    assert [one.id for one in MEANINGS] == sorted({one.id for one in MEANINGS})
    for one in MEANINGS:
        assert re.fullmatch(r"ES-\d{3}", one.id)
        assert one.cause.endswith(".")
        assert one.cure.endswith(".")


@pytest.mark.parametrize("error_id", [one.id for one in MEANINGS if one.id not in ROOTS])
def test_every_error_is_provoked_by_a_test(error_id: str) -> None:
    name = next(one.name for one in MEANINGS if one.id == error_id)
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
