"""The same directory on each kind of file system that commands write to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.checkpoint.places.place import Place
from tests.support import stores
from tests.support.remotes import (
    HDFS,
    OF_OTHERS,
    SERVED,
    fresh,
    of_kind,
    s3_server,
    use_azure,
    use_gcs,
    use_s3,
)
from tests.support.web_hdfs import NameNode, web_hdfs

KINDS = [of_kind(kind) for kind in ("local", "file", "memory", "renaming", "webhdfs", "s3", *OF_OTHERS)]


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
    monkeypatch.setenv(HDFS["webhdfs"], name_node.address + "/all")


@pytest.fixture(scope="session")
def hdfs_cluster() -> Iterator[stores.Hdfs]:
    with stores.hdfs() as found:
        yield found


@pytest.fixture
def hdfs(hdfs_cluster: stores.Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS itself, by WebHDFS."""
    monkeypatch.setenv(HDFS["hdfs"], hdfs_cluster.web + "/all")


@pytest.fixture
def libhdfs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS itself, by Hadoop's library in C, which no registry of packages has by itself."""
    if not os.environ.get("ARROW_LIBHDFS_DIR"):
        pytest.skip("there is no libhdfs: set ARROW_LIBHDFS_DIR to the directory with Hadoop's libhdfs.so")
    cluster = request.getfixturevalue("hdfs_cluster")
    monkeypatch.setenv("CLASSPATH", cluster.classpath)
    monkeypatch.setenv(HDFS["libhdfs"], cluster.rpc + "/by-libhdfs")


@pytest.fixture(scope="session")
def gcs_address() -> Iterator[str]:
    with stores.gcs() as address:
        yield address


@pytest.fixture
def gcs(gcs_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GCS, and a bucket."""
    use_gcs(gcs_address, monkeypatch)


@pytest.fixture(scope="session")
def azure_connection() -> Iterator[str]:
    with stores.azure() as connection:
        yield connection


@pytest.fixture
def abfs(azure_connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure's blobs, and a container."""
    use_azure(azure_connection, monkeypatch)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found = str(request.param)
    if found in SERVED:
        request.getfixturevalue(found)
    return found


@pytest.fixture
def home(kind: str, tmp_path: Path) -> Place:
    """A directory that is not there yet."""
    return fresh(kind, tmp_path)
