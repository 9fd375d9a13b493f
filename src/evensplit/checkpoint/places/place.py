"""Where a checkpoint is: a path of this machine, or the URL of another file system, which fsspec reads.

Spark takes both as a checkpointLocation, by Hadoop's file systems. Their URLs are understood here, whatever fsspec
calls the same: `s3a://` and `s3n://` are S3, `file:/x` is a path. Nothing in a URL is decoded: Hadoop takes `%20` as it
stands.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from evensplit.errors import CheckpointError, CheckpointUnreachable
from evensplit.http.urls import shown_url

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>/.*)", re.DOTALL)
EXTRA = "pip install 'evensplit[remote]'"
CONNECT_S, ANSWER_S, ATTEMPTS = 10, 30, 3
"""How long S3 and WebHDFS may take to be reached and to answer, and how often S3 is asked. fsspec's own settings of S3
have precedence."""


class Writes(Enum):
    """How a file of a file system is written so that nobody sees a part of it."""

    PUT = auto()
    """A file is there when all of it has arrived, in place of an older one if there is one."""
    RENAME = auto()
    """Files and directories are written under another name, and renamed."""
    NEVER = auto()
    """It is not known how: evensplit only reads there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file system: fsspec's name for it, the package that fsspec needs, and how files are written."""

    protocol: str
    package: str
    writes: Writes
    user_is_secret: bool = True
    """Whether what stands before an @ in the URL would be a login; else it is a container, or the name of a user."""
    needs: str = "a URL as Spark takes it"
    """What is expected where it cannot be set up."""
    renames_over: bool = False
    """Whether a rename can put a file in an older one's place, in one step."""


_S3 = Kind("s3", "s3fs", Writes.PUT)
_GS = Kind("gs", "gcsfs", Writes.PUT)
_AZURE = Kind("abfss", "adlfs", Writes.PUT, user_is_secret=False)
_HDFS = Kind(
    "hdfs",
    "pyarrow",
    Writes.RENAME,
    user_is_secret=False,
    needs="Java, Hadoop's libhdfs (HADOOP_HOME) and its classes (CLASSPATH, as `hadoop classpath --glob` prints it). A "
    "URL with webhdfs:// needs none of these",
)
_WEB_HDFS = Kind("webhdfs", "requests", Writes.RENAME, user_is_secret=False, renames_over=True)
KINDS: Mapping[str, Kind] = {
    "s3": _S3,
    "s3a": _S3,
    "s3n": _S3,
    "gs": _GS,
    "gcs": _GS,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "wasb": _AZURE,
    "wasbs": _AZURE,
    "hdfs": _HDFS,
    "webhdfs": _WEB_HDFS,
    "swebhdfs": _WEB_HDFS,
    "memory": Kind("memory", "fsspec", Writes.PUT),
}
"""Scheme of a URL -> its kind. Others are read if fsspec knows them."""


@dataclass(frozen=True, slots=True)
class System:
    """One file system: fsspec's object for it."""

    fs: Any
    kind: Kind

    def is_same(self, other: System) -> bool:
        """Whether both are one, so that it can copy files itself."""
        return type(self.fs) is type(other.fs) and bool(self.fs.storage_options == other.fs.storage_options)


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A file or directory of another file system, with what is needed of `pathlib.Path`.

    It is shown as the user has named it, without a slash at the end. `at`: what fsspec calls it.
    """

    url: str
    at: str = field(repr=False)
    system: System = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str | PurePath) -> RemotePath:
        if str(name) == ".":
            return self
        return replace(self, url=f"{self.url}/{name}", at=f"{self.inside}{name}")

    @property
    def inside(self) -> str:
        """What the names of all that is in it begin with, as fsspec calls them."""
        return f"{self.at.rstrip('/')}/"

    @property
    def name(self) -> str:
        """The last part."""
        return self.at.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        """What it is in; itself if that is the root."""
        above, slash, name = self.at.rpartition("/")
        # Buckets are in nothing; file systems with directories have a root.
        above = above or slash
        return replace(self, url=self.url.rpartition("/")[0], at=above) if above and name else self

    def with_name(self, name: str) -> RemotePath:
        """What is beside it under another name."""
        return self.parent / name


Place = Path | RemotePath
"""A file or directory, on this machine or elsewhere."""


def place(text: str) -> Place:
    """What the user named: a path, a `file:` URL, or the URL of another file system. No file is looked at yet.

    Raises CheckpointError for a URL that cannot be one of a checkpoint, or has a secret in it, which is not shown;
    CheckpointUnreachable if what reads such a file system is not installed, or cannot be set up. Both name the URL.
    """
    found = _URL.fullmatch(text)
    scheme = found["scheme"].lower() if found else ""
    if found is None or not (found["rest"].startswith("//") or scheme in ("file", "hdfs")):
        return Path(text)
    authority, _, path = found["rest"][2:].partition("/") if found["rest"].startswith("//") else ("", "", "")
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise CheckpointError(f"{shown_url(text)} is a file of host {authority!r}; expected one of this machine")
        return Path(f"/{path}" if found["rest"].startswith("//") else found["rest"])
    kind = KINDS.get(scheme, Kind(scheme, "", Writes.NEVER))
    user, has_user, _ = authority.rpartition("@")
    if has_user and (kind.user_is_secret or ":" in user):
        raise CheckpointError(
            f"{shown_url(text)} had a user or a password before the @; expected a URL without them, since it is shown "
            "and kept. Give credentials to the library of the file system, as documented in the commands' page"
        )
    if any(sign in text for sign in ("?", "#", "::")) or not text.isprintable():
        raise CheckpointError(
            f"{shown_url(text)}: expected a URL without ?, #, :: and unprintable characters, as Spark has it in "
            "checkpointLocation"
        )
    rest = found["rest"] if found["rest"].startswith("//") else f"//{found['rest']}"
    if not rest.strip("/"):
        raise CheckpointError(f"{text} names no directory; expected a query's checkpointLocation")
    fs, at = _open(f"{kind.protocol}:{rest.rstrip('/')}", scheme, kind, text)
    return RemotePath(text.rstrip("/"), at.rstrip("/") or "/", System(fs, kind))


def _open(url: str, scheme: str, kind: Kind, text: str) -> tuple[Any, str]:
    """fsspec's file system for `url`, and what it calls the file. An own one, which remembers nothing of others."""
    try:
        import fsspec
        from fsspec.core import url_to_fs
    except ImportError:
        raise CheckpointUnreachable(
            f"{text} is not on this machine; expected the library fsspec, which reads other file systems. "
            f"Run {EXTRA}{_and(kind)}"
        ) from None
    options: dict[str, Any] = {"use_https": True} if scheme == "swebhdfs" else {}
    # fsspec's own settings have precedence.
    settings = fsspec.config.conf.get(kind.protocol, {})
    if kind is _WEB_HDFS and urlsplit(url).username is None and not {"kerberos", "token", "user"} & set(settings):
        options |= _hadoop_user()
    if kind is _S3 and "config_kwargs" not in settings:
        waits = {"connect_timeout": CONNECT_S, "read_timeout": ANSWER_S, "retries": {"max_attempts": ATTEMPTS}}
        options["config_kwargs"] = waits
        # With more, s3fs asks how long each file is before it reads it. Several files are read at once here.
        options["max_concurrency"] = 1
    try:
        fs, at = url_to_fs(url, skip_instance_cache=True, **options)
    except ImportError as error:
        package = kind.package or str(error).partition("\n")[0]
        raise CheckpointUnreachable(
            f"{text} needs a library that is not installed: {package}. Run {EXTRA}{_and(kind)}"
        ) from None
    except Exception as error:
        if kind.package:
            raise CheckpointUnreachable(f"{text}: {problem_of(error)}; expected {kind.needs}") from None
        raise CheckpointError(
            f"{text}: the file system {scheme!r} is not known, or cannot be used ({problem_of(error)}); expected a "
            f"path, or a URL that begins with one of file, {', '.join(KINDS)}"
        ) from None
    if kind is _WEB_HDFS:
        fs.session.request = partial(fs.session.request, timeout=(CONNECT_S, ANSWER_S))
    return fs, str(at)


def _hadoop_user() -> Mapping[str, str]:
    """Who Hadoop's client says that it is, where nobody asks for proof. Who says nothing is taken for `dr.who`."""
    try:
        return {"user": os.environ.get("HADOOP_USER_NAME") or pwd.getpwuid(os.geteuid()).pw_name}
    except KeyError:
        # Containers have users without names.
        return {}


def _and(kind: Kind) -> str:
    return f" {kind.package}" if kind.package not in ("", "fsspec", "pyarrow") else ""


_SECRET = re.compile(r"(?i)([\w-]*(?:sig|signature|token|password|secret|credential|key)[\w-]*\s*[=:]\s*)[^\s&,;]+")
_PROBLEM_CHARACTERS = 300


def problem_of(error: Exception) -> str:
    """What a library of a file system says, in one line without what may be secret in it."""
    text = " ".join((_said_by_hdfs(error) or str(error)).split()) or type(error).__name__
    text = re.sub(r"[A-Za-z][\w+.-]*://\S+", lambda url: shown_url(url[0]), text)
    text = _SECRET.sub(r"\1…", text)
    return text if len(text) <= _PROBLEM_CHARACTERS else f"{text[:_PROBLEM_CHARACTERS]}…"


def _said_by_hdfs(error: Exception) -> str:
    """The sentence in an answer of a data node, of which fsspec tells the number alone; empty if there is none."""
    answer: Any = getattr(error, "response", None)
    try:
        # Java's stack follows.
        return str(answer.json()["RemoteException"]["message"]).partition("\n")[0]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""
