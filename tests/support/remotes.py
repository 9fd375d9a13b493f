"""File systems for tests: servers on this machine, fsspec's memory, and one that only renames, as libhdfs does."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from fsspec.implementations.memory import MemoryFileSystem

from evensplit.checkpoint.places.place import KINDS, Place, RemotePath, System, place
from tests.support.stores import AZURE_ACCOUNT

BUCKET = "bucket"
HDFS = {"webhdfs": "TEST_WEB_HDFS", "hdfs": "TEST_HDFS", "libhdfs": "TEST_LIBHDFS"}
"""The variables with the addresses of the server that stands for HDFS, and of a real one, by WebHDFS and by libhdfs."""
OF_OTHERS = ("hdfs", "libhdfs", "gcs", "abfs")
"""The kinds whose servers are in `stores.py`."""
REPLACES_NOTHING = ("renaming", "libhdfs")
"""The kinds of which no file can be replaced in one step."""
SERVED = ("s3", "webhdfs", *OF_OTHERS)
"""The kinds that need a server, each with a fixture of its name."""
MARKS = {"s3": (pytest.mark.lengthy,), **dict.fromkeys(OF_OTHERS, (pytest.mark.slow, pytest.mark.timeout(2_400)))}
"""How tests of a kind are marked. The first one may have to fetch its server, and to compile it."""
NUMBERS = count()


class Renaming(MemoryFileSystem):  # type: ignore[misc] # fsspec has no types
    """A file system that renames files and directories, and nothing onto what is there, which it does not say."""

    def mv(self, path1: str, path2: str, **_: object) -> None:
        if self.exists(path2):
            return
        for name in [name for name in self.store if name == path1 or name.startswith(f"{path1}/")]:
            self.store[path2 + name.removeprefix(path1)] = self.store.pop(name)
        self.pseudo_dirs[:] = [
            path2 + name.removeprefix(path1) if name == path1 or name.startswith(f"{path1}/") else name
            for name in self.pseudo_dirs
        ]

    def rm_file(self, path: str) -> None:
        """Libhdfs does not say that there is nothing."""
        if not self.exists(path):
            raise OSError(errno.EIO, "HDFS delete failed. Detail: [errno 5] Input/output error")
        super().rm_file(path)


@contextmanager
def s3_server() -> Iterator[str]:
    """A server of S3 on this machine, by its address."""
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WSGIRequestHandler, "log", lambda *_: None)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield f"http://{host}:{port}"
        finally:
            server.stop()


def use_s3(address: str, patch: pytest.MonkeyPatch) -> None:
    """Let S3 be at this address, with a bucket that is there."""
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        patch.setenv(name, value)
    _with_bucket(address, S3)


def use_gcs(address: str, patch: pytest.MonkeyPatch) -> None:
    """Let GCS be at this address, with a bucket that is there, and nobody look for the credentials of a machine."""
    patch.setenv("STORAGE_EMULATOR_HOST", address)
    patch.setenv("NO_GCE_CHECK", "true")
    _with_bucket(address, GCS)


def use_azure(connection: str, patch: pytest.MonkeyPatch) -> None:
    """Let Azure's blobs be where this connection string says, with a container that is there."""
    patch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
    _with_bucket(connection, AZURE)


S3, GCS, AZURE = f"s3a://{BUCKET}", f"gs://{BUCKET}", f"abfss://{BUCKET}@{AZURE_ACCOUNT}.dfs.core.windows.net"


def _with_bucket(address: str, url: str) -> None:
    bucket = _bucket(address, url)
    assert isinstance(bucket, RemotePath)
    if not bucket.system.fs.exists(BUCKET):
        bucket.system.fs.mkdir(BUCKET)


@cache
def _bucket(address: str, url: str) -> Place:
    """Each place that is made anew takes half a second, for a client of its own. At this address there is one."""
    return place(url)


def of_kind(*kinds: str) -> ParameterSet:
    """A test's parameter: one kind of file system, or several, marked as they are."""
    marks = [mark for kind in dict.fromkeys(kinds) for mark in MARKS.get(kind, ())]
    return pytest.param(kinds[0] if len(kinds) == 1 else kinds, marks=marks, id="-".join(kinds))


def fresh(kind: str, tmp_path: Path) -> Place:
    """A directory that is not there yet, on a file system of this kind."""
    name = f"home{next(NUMBERS)}"
    if kind == "local":
        return tmp_path / name
    if kind == "file":
        return place(f"file:{tmp_path}/{name}")
    if kind == "s3":
        return _bucket(os.environ["AWS_ENDPOINT_URL"], S3) / name
    if kind == "gcs":
        return _bucket(os.environ["STORAGE_EMULATOR_HOST"], GCS) / name
    if kind == "abfs":
        return _bucket(os.environ["AZURE_STORAGE_CONNECTION_STRING"], AZURE) / name
    if kind == "memory":
        return place(f"memory://{name}")
    if kind in HDFS:
        return place(os.environ[HDFS[kind]]) / name
    assert kind == "renaming"
    return RemotePath(f"hdfs://name-node/{name}", f"/renaming/{name}", System(Renaming(), KINDS["hdfs"]))


def put_all(home: Place, files: dict[str, bytes]) -> Place:
    """Write these files below `home`, without any care."""
    for name, data in files.items():
        path = home / name
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        else:
            path.system.fs.pipe_file(path.at, data)
    return home


def all_in(home: Place) -> dict[str, bytes]:
    """Each file below `home`, by its path there."""
    if isinstance(home, Path):
        return {str(one.relative_to(home)): one.read_bytes() for one in home.rglob("*") if one.is_file()}
    fs = home.system.fs
    fs.invalidate_cache()
    return {name.removeprefix(f"{home.at}/"): bytes(fs.cat_file(name)) for name in fs.find(home.at)}
