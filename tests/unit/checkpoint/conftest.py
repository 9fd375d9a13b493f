"""The same directory on each kind of file system that commands write to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.checkpoint.places.place import Place
from tests.support.remotes import WEB_HDFS, fresh, s3_server, use_s3
from tests.support.web_hdfs import NameNode, web_hdfs

KINDS = ["local", "file", "memory", "renaming", "webhdfs", pytest.param("s3", marks=pytest.mark.lengthy)]


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def s3(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3, and a bucket."""
    use_s3(s3_address, monkeypatch)


@pytest.fixture(scope="session")
def name_node() -> Iterator[NameNode]:
    with web_hdfs() as node:
        yield node


@pytest.fixture
def webhdfs(name_node: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS, as it is spoken to by HTTP."""
    monkeypatch.setenv(WEB_HDFS, name_node.address + "/all")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found = str(request.param)
    if found in ("s3", "webhdfs"):
        request.getfixturevalue(found)
    return found


@pytest.fixture
def home(kind: str, tmp_path: Path) -> Place:
    """A directory that is not there yet."""
    return fresh(kind, tmp_path)
