"""Which Java is found, and what is said when none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.java import find_java, parse_release


@pytest.mark.parametrize(
    "banner, release",
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_releases(banner: str, release: int | None) -> None:
    assert parse_release(banner) == release


def make_java(directory: Path, script: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\"' >&2"


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "home", says("21.0.1"))
    path = make_java(tmp_path / "path", says("17.0.1"))
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert (find_java().path, find_java().release) == (home, 21)
    monkeypatch.delenv("JAVA_HOME")
    assert (find_java().path, find_java().release) == (path, 17)


@pytest.mark.parametrize(
    "script, said",
    [
        (says("11.0.2"), "this is Java 11"),
        (says("1.8.0_392"), "this is Java 8"),
        ("echo broken; exit 1", "ended with 1 and said 'broken'"),
        ("exit 0", "ended with 0 and said ''"),
    ],
)
def test_a_java_that_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    make_java(tmp_path / "home", script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(LocalKafkaError) as caught:
        find_java()
    for part in (said, f"JAVA_HOME is {tmp_path / 'home'}", "Install Java 17 or later", "apt-get install"):
        assert part in str(caught.value)


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LocalKafkaError, match=r"no `java` on PATH.*Install Java 17"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalKafkaError, match=r"JAVA_HOME is .* but there is no program"):
        find_java()
