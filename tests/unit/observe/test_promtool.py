"""How the tests come by Prometheus' own program: what is done where Debian's lists of packages are not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import promtool as module

APT = """#!/bin/sh
here=$(dirname "$0")
case " $* " in
*" update "*) echo update >>"$here/done"; touch "$here/lists" ;;
*) echo download >>"$here/done"
   [ -e "$here/lists" ] || { echo "Unable to locate package prometheus" >&2; exit 100; }
   touch prometheus_1_amd64.deb ;;
esac
"""
DPKG = """#!/bin/sh
[ "$2" = "$PWD/prometheus_1_amd64.deb" ] || exit 2
mkdir -p usr/bin && touch usr/bin/promtool
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that has no lists of packages yet."""
    found = tmp_path / "bin"
    found.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (found / name).write_text(text)
        (found / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{found}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return found


def test_without_lists_of_packages_they_are_fetched_first(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert module._fetch(tmp_path) == ""
    assert (tmp_path / "usr/bin/promtool").exists()
    assert (programs / "done").read_text().split() == ["download", "update", "download"]


def test_who_may_not_fetch_them_is_told_why_there_is_none(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert module._fetch(tmp_path).endswith("prometheus: Unable to locate package prometheus")
    assert (programs / "done").read_text().split() == ["download"]
