"""Metadata in files: written to while they are read, torn, missing, too large."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evensplit.metadata import open_service
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from tests.support.metadata_answers import answer, document, problem, refused


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    service = open_service(str(path))
    assert "expected a file that can be read: No such file or directory" in problem(service)
    path.write_bytes(document("t"))
    first = service.read()
    assert first == answer("t")
    assert service.read() is first
    path.write_bytes(document("u"))
    assert service.read() == answer("u")
    service.close()


@pytest.mark.parametrize("name", ["fleet.json", "fleet.yaml", "fleet.YML", "fleet", "fleet.conf"])
def test_what_a_file_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\n" + document("t"))
    assert open_service(str(tmp_path / name)).read() == answer("t")


def test_file_urls_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "the fleet#1.yaml"
    path.write_bytes(document("t") + b"\n")
    (tmp_path / "fleet").write_bytes(document("t"))
    monkeypatch.chdir(tmp_path)
    for location in (
        path.as_uri(),
        f"file://localhost{path.as_uri()[7:]}",
        f"file:{path.as_uri()[7:]}",
        path.name,
        "fleet",
    ):
        assert open_service(location).read() == answer("t")
    for location in ("file://other/fleet.yaml", "file:fleet.yaml", "file:///fleet#1.yaml", "file://[/x"):
        assert "expected file:///path" in refused(location)


@pytest.mark.parametrize("name", ["fleet.yaml", "fleet.json"])
def test_a_torn_write_is_an_error_and_then_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    service = open_service(str(path))
    whole = document("t1", "t2") if name == "fleet.json" else (
        b"- streamId: s\n  clusterMetadataList:\n  - clusterId: c\n    bootstrapServers: b:1\n    topics:\n"
        b"    - t1\n    - t2\n"
    )  # fmt: skip
    path.write_bytes(whole)
    assert service.read() == answer("t1", "t2")
    for end in (0, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:end])
        assert str(path) in problem(service)
        path.write_bytes(whole)
        assert service.read() == answer("t1", "t2")


def test_a_file_that_is_written_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fleet.json"
    path.write_bytes(document("t"))
    service = open_service(str(path))
    fstat, calls = os.fstat, []

    def grown(descriptor: int) -> os.stat_result:
        calls.append(descriptor)
        if len(calls) == 2:
            path.write_bytes(document("t", "u"))
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", grown)
    assert "it is being written" in problem(service)
    assert service.read() == answer("t", "u")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.json").write_bytes(b" " * (DOCUMENT_BYTES_MAX + 1))
    assert "found a directory or a device" in problem(open_service(f"{tmp_path}/pipe"))
    assert "found a directory or a device" in problem(open_service(f"{tmp_path}/"))
    assert "it has more than 16777216 bytes" in problem(open_service(f"{tmp_path}/large.json"))
    assert "expected a file that can be read" in problem(open_service(f"{tmp_path}/a\0.json"))
