"""What users name as a checkpoint: paths and URLs, and what is said of those that are none."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
import requests

from evensplit.checkpoint.files import batches_of, is_there, read_bytes, write_new
from evensplit.checkpoint.places.place import KINDS, Place, RemotePath, System, Writes, place, problem_of
from evensplit.checkpoint.places.remote import written_ns
from evensplit.errors import CheckpointError, CheckpointUnreachable
from tests.support.remotes import put_all

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text, path",
    [
        ("/checkpoints/orders", "/checkpoints/orders"),
        ("orders", "orders"),
        ("a:b/c", "a:b/c"),
        ("C:/x", "C:/x"),
        ("file:/x/y", "/x/y"),
        ("file:///x/y%20z", "/x/y%20z"),
        ("file://localhost/x", "/x"),
        ("FILE:/x?y", "/x?y"),
    ],
)
def test_paths_are_of_this_machine(text: str, path: str) -> None:
    assert place(text) == Path(path)


def test_urls_are_shown_as_they_were_typed() -> None:
    found = place("memory://checkpoints/orders/")
    assert isinstance(found, RemotePath)
    assert str(found) == "memory://checkpoints/orders"
    assert found.name == "orders"
    inner = found / "sources" / Path("0/1")
    assert str(inner) == "memory://checkpoints/orders/sources/0/1"
    assert inner.at == "/checkpoints/orders/sources/0/1"
    assert str(inner.parent.parent.parent) == str(found)
    assert inner.with_name("2") == found / "sources/0/2"
    assert found / Path() == found
    root = found.parent.parent
    assert (root.at, root.parent) == ("/", root)
    assert root / "checkpoints/orders" == found
    put_all(found, {"metadata": b"1"})
    assert read_bytes(place("memory://checkpoints/orders/metadata")) == b"1"


@pytest.mark.parametrize(
    "text, protocol, at",
    [
        ("s3://bucket/a b/c", "s3", "bucket/a b/c"),
        ("s3a://bucket/c/", "s3", "bucket/c"),
        ("s3n://bucket/c%20", "s3", "bucket/c%20"),
        ("webhdfs://name-node:9870/c", "webhdfs", "/c"),
        ("webhdfs://name-node:9870/", "webhdfs", "/"),
        ("swebhdfs://name-node:9870/c", "webhdfs", "/c"),
    ],
)
def test_hadoops_urls_are_understood(text: str, protocol: str, at: str) -> None:
    found = place(text)
    assert isinstance(found, RemotePath)
    assert (found.system.kind.protocol, found.at, str(found)) == (protocol, at, text.rstrip("/"))


@pytest.mark.parametrize(
    "url, environment, settings, user",
    [
        ("webhdfs://name-node:9870/c", {}, {}, pwd.getpwuid(os.geteuid()).pw_name),
        ("swebhdfs://name-node:9870/c@d", {"HADOOP_USER_NAME": "etl"}, {}, "etl"),
        ("webhdfs://me@name-node:9870/c", {"HADOOP_USER_NAME": "etl"}, {}, "me"),
        ("webhdfs://name-node:9870/c", {"HADOOP_USER_NAME": "etl"}, {"user": "set"}, "set"),
        ("webhdfs://name-node:9870/c", {"HADOOP_USER_NAME": "etl"}, {"token": "x"}, None),
    ],
)
def test_hdfs_is_told_the_user_that_a_query_would_tell_it(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], settings: dict[str, str], user: str | None
) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(fsspec.config.conf, "webhdfs", settings)
    found = place(url)
    assert isinstance(found, RemotePath)
    assert found.system.fs.user == user
    assert found.system.fs.pars.get("user.name") == user


def test_a_user_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 9)
    found = place("webhdfs://name-node:9870/c")
    assert isinstance(found, RemotePath)
    assert found.system.fs.user is None


class Recorded(fsspec.AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Keeps what it is made with."""


@pytest.mark.parametrize(
    "text, protocol, url",
    [
        ("abfss://box@account.dfs.core.windows.net/c", "abfss", "abfss://box@account.dfs.core.windows.net/c"),
        ("wasbs://box@account.blob.core.windows.net/c", "abfss", "abfss://box@account.blob.core.windows.net/c"),
        ("gs://bucket/c", "gs", "gs://bucket/c"),
        ("gcs://bucket/c", "gs", "gs://bucket/c"),
        ("hdfs://name-node:8020/c", "hdfs", "hdfs://name-node:8020/c"),
        ("hdfs:/c", "hdfs", "hdfs:///c"),
        ("hdfs:///c", "hdfs", "hdfs:///c"),
    ],
)
def test_fsspec_is_asked_for_its_own_names(monkeypatch: pytest.MonkeyPatch, text: str, protocol: str, url: str) -> None:
    asked: list[str] = []

    def opened(text: str, **_: object) -> tuple[Any, str]:
        asked.append(text)
        return Recorded(), "/c"

    monkeypatch.setattr("fsspec.core.url_to_fs", opened)
    found = place(text)
    assert isinstance(found, RemotePath)
    assert (asked, found.system.kind.protocol) == ([url], protocol)


@pytest.mark.parametrize(
    "text, said",
    [
        (
            f"s3a://AKIA:{SECRET}@bucket/c",
            r"^s3a://bucket/c had a user or a password before the @; expected a URL",
        ),
        (f"s3://{SECRET}@bucket/c", "had a user or a password"),
        (f"hdfs://me:{SECRET}@name-node/c", "had a user or a password"),
        (f"abfss://box@account/c?sig={SECRET}", r"^abfss://account/c\?…: expected a URL without \?, #, ::"),
        (f"s3://bucket/c#{SECRET}", "expected a URL without"),
        ("memory://a::b", "expected a URL without"),
        ("s3://bucket/c\n", "expected a URL without"),
        ("s3://", "names no directory"),
        ("file://other-host/x", "is a file of host 'other-host'; expected one of this machine"),
        ("xyz://bucket/c", r"the file system 'xyz' is not known.*begins with one of file, s3, s3a"),
    ],
)
def test_what_cannot_be_a_checkpoint_is_refused_without_secrets(text: str, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as raised:
        place(text)
    assert SECRET not in str(raised.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(CheckpointUnreachable, match=r"s3fs\. Run pip install 'evensplit\[remote\]' s3fs\n"):
        place("s3://bucket/c")
    with pytest.raises(CheckpointUnreachable, match=r"not installed: Install s3fs.* Run pip install"):
        place("other://bucket/c")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for url, package in (("gs://bucket/c", " gcsfs"), ("abfss://a@b/c", " adlfs"), ("memory://c", ""), ("hdfs:/c", "")):
        with pytest.raises(CheckpointUnreachable, match=rf"expected the library fsspec.*\[remote\]'{package}\n"):
            place(url)
    assert place("file:/x") == Path("/x")


def test_hdfs_is_quoted_where_a_data_node_refuses() -> None:
    answer = requests.Response()
    answer.status_code = 403
    answer._content = (
        b'{"RemoteException": {"message": "Permission denied: user=etl, access=WRITE\\n\\tat org.apache"}}'
    )
    error = requests.HTTPError("403 Client Error: Forbidden for url: http://data-node:9864/x", response=answer)
    assert problem_of(error) == "Permission denied: user=etl, access=WRITE"
    answer._content = b"<html>Forbidden</html>"
    assert problem_of(error) == "403 Client Error: Forbidden for url: http://data-node:9864/x"


class Broken:
    """A file system of which each call fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


@pytest.mark.parametrize(
    "error, said",
    [
        (PermissionError("Access Denied"), "PermissionError: Access Denied; expected a file system that answers"),
        (TimeoutError(), "TimeoutError: TimeoutError; expected"),
        (RuntimeError(f"GET https://me:{SECRET}@host/x?sig={SECRET} failed"), "RuntimeError: GET https://host/x"),
        (RuntimeError(f"secret_key={SECRET} is wrong, and token: {SECRET}"), "secret_key=… is wrong, and token: …"),
        (RuntimeError("long " * 1000), "…; expected"),
    ],
)
def test_what_a_library_says_is_told_without_secrets(error: Exception, said: str) -> None:
    broken: Place = RemotePath("s3a://bucket/c", "bucket/c", System(Broken(error), KINDS["s3"]))
    for act in (read_bytes, is_there, batches_of, lambda path: write_new(path, b"")):
        with pytest.raises(CheckpointUnreachable) as raised:
            act(broken)
        text = str(raised.value)
        assert text.startswith("s3a://bucket/c")
        assert said in text
        assert SECRET not in text
        assert len(text) < 800
        assert raised.value.__cause__ is None


def test_nothing_is_written_where_it_is_not_known_how() -> None:
    known = place("memory://unknown/c")
    assert isinstance(known, RemotePath)
    kind = KINDS["memory"].__class__("ftp", "", Writes.NEVER)
    path = RemotePath("ftp://host/c", known.at, System(known.system.fs, kind))
    with pytest.raises(CheckpointError, match="evensplit only reads there; nothing was written"):
        write_new(path / "1", b"")
    assert not is_there(path)


@pytest.mark.parametrize(
    "info, ns",
    [
        ({"mtime": 5}, 5_000_000_000),
        ({"modificationTime": 5}, 5_000_000),
        ({"updated": "2024-01-01T00:00:00Z"}, 1_704_067_200_000_000_000),
        ({"updated": "yesterday"}, 0),
        ({"mtime": None, "created": 1.5}, 1_500_000_000),
        ({}, 0),
        ({"mtime": ()}, 0),
    ],
)
def test_times_are_read_in_each_form(info: dict[str, object], ns: int) -> None:
    assert written_ns(info) == ns
