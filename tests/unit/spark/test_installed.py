"""A Python process that has another evensplit than its sender, or one that cannot work, says so before it works."""

from __future__ import annotations

import pickle
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from evensplit.errors import InstallationError
from evensplit.spark.batch_reader import EvenSplitReader
from evensplit.spark.sink.batch_writer import EvenSplitBatchWriter
from evensplit.spark.sink.stream_writer import EvenSplitStreamWriter
from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.task import installed

OPTIONS = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}


@pytest.fixture
def lies_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Has the package lie in a directory, as far as is asked here."""

    def lie(site: Path) -> None:
        installed.release.cache_clear()
        monkeypatch.setattr(installed, "_package", lambda: site / "evensplit")

    yield lie
    installed.release.cache_clear()


def site(directory: Path, version: str) -> Path:
    """A directory of installed packages."""
    found = directory / f"site-{version}"
    (found / "evensplit").mkdir(parents=True)
    (found / f"evensplit-{version}.dist-info").mkdir()
    (found / "evensplit_extras-7.dist-info").mkdir()
    return found


def test_the_release_is_that_of_the_metadata_beside_the_package(
    tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    lies_in(site(tmp_path, "1.2.3.dev4+g5"))
    assert installed.release() == "1.2.3.dev4+g5"
    (tmp_path / "checkout" / "evensplit").mkdir(parents=True)
    lies_in(tmp_path / "checkout")
    assert installed.release() == ""


@pytest.mark.parametrize(
    "older, newer",
    [
        ("0.9.0", "0.10.0"),
        ("9.0", "10.0.dev1"),
        ("1.2.3.dev4+g5", "1.2.3"),
        ("1.2.3rc9", "1.2.3rc10"),
        ("1.2.3", "1.2.3.post1"),
        ("1.2", "1.2.1rc1"),
    ],
)
def test_of_several_releases_beside_the_package_it_is_the_highest(
    older: str, newer: str, tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    found = site(tmp_path, older)
    (found / f"evensplit-{newer}.dist-info").mkdir()
    lies_in(found)
    assert installed.release() == newer


def read_a_task() -> Callable[[], object]:
    sent = pickle.dumps(EvenSplitReader(None, 1))  # type: ignore[arg-type]
    return lambda: pickle.loads(sent).read(InputPartition(0))


def write_a_batch() -> Callable[[], object]:
    sent = pickle.dumps(EvenSplitBatchWriter(None, "job"))  # type: ignore[arg-type]
    return lambda: pickle.loads(sent).write(iter([pa.RecordBatch.from_pydict({})]))


def write_a_stream() -> Callable[[], object]:
    sent = pickle.dumps(EvenSplitStreamWriter(None))  # type: ignore[arg-type]
    return lambda: pickle.loads(sent).write(iter([pa.RecordBatch.from_pydict({})]))


@pytest.mark.parametrize("send", [read_a_task, write_a_batch, write_a_stream])
def test_a_task_of_another_version_is_refused(
    send: Callable[[], Callable[[], object]], tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    lies_in(site(tmp_path, "2.0.0"))
    run = send()
    lies_in(site(tmp_path, "1.9.0"))
    with pytest.raises(InstallationError) as raised:
        run()
    said = str(raised.value)
    assert said.startswith(f"the Python {sys.executable} on {socket.gethostname()} has evensplit 1.9.0, and")
    assert "was sent work by evensplit 2.0.0" in said
    assert "Install 2.0.0 there" in said


def test_a_source_that_another_version_has_registered_is_refused(
    tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    registered = type("Registered", (EvenSplitDataSource,), {"registered_by": "2.0.0"})
    lies_in(site(tmp_path, "1.9.0"))
    with pytest.raises(InstallationError, match=r"evensplit 1\.9\.0, and was sent work by evensplit 2\.0\.0"):
        registered(OPTIONS)
    EvenSplitDataSource(OPTIONS)
    lies_in(site(tmp_path, "2.0.0"))
    registered(OPTIONS)


def test_the_same_version_works_and_an_unknown_one_is_not_compared(
    tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    lies_in(site(tmp_path, "2.0.0"))
    run = read_a_task()
    assert list(run()) == []  # type: ignore[call-overload]
    installed.check_installed("")
    (tmp_path / "checkout" / "evensplit").mkdir(parents=True)
    lies_in(tmp_path / "checkout")
    assert list(run()) == []  # type: ignore[call-overload]


def test_a_package_in_an_archive_is_refused_with_the_name_of_the_archive(
    tmp_path: Path, lies_in: Callable[[Path], None]
) -> None:
    wheel = tmp_path / "evensplit-2.0.0-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("evensplit/__init__.py", "")
    lies_in(wheel)
    with pytest.raises(InstallationError) as raised:
        EvenSplitDataSource(OPTIONS)
    assert f"from the archive {wheel}, and Python cannot load its compiled kernel" in str(raised.value)
    assert "--archives" in str(raised.value)
