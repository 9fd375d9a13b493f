"""What gets Spark's Python processes ready: they load PySpark from files, and nothing fails where that cannot be."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

import evensplit.spark.prepare
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.spark.prepare import WORKER_PATH, Prepared, own_path, prepare
from evensplit.spark.row_type import row_type
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.spark.worker_path.sitecustomize import without_archive
from tests.support.waiting import wait_for


def package(directory: Path) -> Path:
    """An importable `pyspark` in `directory`."""
    found = directory / "pyspark"
    found.mkdir(parents=True)
    (found / "__init__.py").touch()
    return found


def archive(home: Path) -> str:
    """The archive of a Spark whose home that is."""
    found = home / "python" / "lib" / "pyspark.zip"
    found.parent.mkdir(parents=True, exist_ok=True)
    found.touch()
    return str(found)


def test_an_installed_package_is_on_the_path_already(tmp_path: Path) -> None:
    home = package(tmp_path / "site-packages")
    own, installed = str(tmp_path / "own"), str(tmp_path / "site-packages")
    assert without_archive(["", archive(home), "py4j.zip", own, installed]) == ["", "py4j.zip", own, installed]


def test_a_distribution_has_the_package_beside_the_archive(tmp_path: Path) -> None:
    package(tmp_path / "python")
    path = ["", archive(tmp_path), str(tmp_path / "own")]
    assert without_archive(path) == ["", str(tmp_path / "python"), str(tmp_path / "own")]


@pytest.mark.parametrize("other", [True, False], ids=["another one is found", "none is found"])
def test_the_archive_stays_where_it_alone_leads_to_this_pyspark(tmp_path: Path, other: bool) -> None:
    home = package(tmp_path / "elsewhere")
    if other:
        package(tmp_path / "first")
    path = [archive(home), str(tmp_path / "first")]
    assert without_archive(path) == path


def test_a_path_without_an_archive_stays_as_it_is() -> None:
    assert without_archive(["", "/usr/lib/python3"]) == ["", "/usr/lib/python3"]


def output(path: list[str], code: str) -> str:
    """What Python prints with `path` as Spark's processes have it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_python_loads_the_files_of_the_pyspark_that_is_installed(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    zipped = str(home / "python" / "lib" / "pyspark.zip")
    where = "import pyspark; print(pyspark.__file__)"
    assert output([zipped], where).startswith(zipped), "without it, the archive is used"
    assert output([zipped, WORKER_PATH], where) == str(home / "__init__.py")


def test_the_next_one_of_that_name_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the next one')")
    assert output([WORKER_PATH, str(tmp_path)], "pass") == "the next one"


def context(environment: dict[str, str], master: str = "local[2]") -> Any:
    return SimpleNamespace(environment=environment, master=master)


@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": "/own"}], ids=["none", "a path"])
def test_a_path_is_there_in_the_block_and_as_before_after_it(before: dict[str, str]) -> None:
    environment = dict(before)
    with own_path(context(environment)):
        assert environment["PYTHONPATH"].split(os.pathsep) == [WORKER_PATH, *before.values()]
    assert environment == before


def test_blocks_of_several_threads_come_one_after_the_other() -> None:
    environment: dict[str, str] = {}
    seen: list[str] = []

    def enter() -> None:
        for _ in range(200):
            with own_path(context(environment)):
                seen.append(environment["PYTHONPATH"])

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (set(seen), environment) == ({WORKER_PATH}, {})


@pytest.mark.parametrize("master, given", [("local", True), ("local[4]", True), ("spark://host:7077", False)])
def test_a_path_that_everybody_may_make_is_not_given_to_other_machines(
    master: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    environment: dict[str, str] = {}
    monkeypatch.setattr(evensplit.spark.prepare, "WORKER_PATH", str(tmp_path / "shared"))
    with own_path(context(environment, master)):
        assert bool(environment) is given


class Refusing:
    """A context whose JVM gives nothing."""

    master = "local[2]"

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError(f"no {name} here")


@pytest.mark.parametrize("wrapped", [True, False], ids=["the JVM refuses", "nothing can be sent to it"])
def test_what_cannot_be_prepared_is_logged_and_harms_nothing(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = Refusing()
    if wrapped:
        monkeypatch.setattr(evensplit.spark.prepare, "_wrapped", lambda _: None)
    with caplog.at_level(logging.INFO, "evensplit"):
        prepare(SimpleNamespace(_sc=context))  # type: ignore[arg-type]
        wait_for(lambda: "are started by the first query" in caplog.text)
    assert context.environment == {}


def test_under_connect_there_is_nothing_to_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    monkeypatch.setattr(evensplit.spark.prepare, "_in_background", begun.append)
    prepare(SimpleNamespace())  # type: ignore[arg-type]
    assert begun == []


def test_the_source_that_prepares_needs_no_options() -> None:
    source = Prepared({})
    schema = source.schema()
    assert set(schema) <= set(row_type(KAFKA_COLUMNS))
    assert isinstance(source.streamReader(schema), EvenSplitStreamReader)
