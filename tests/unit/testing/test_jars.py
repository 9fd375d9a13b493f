"""Kafka's jars: found where they were put, resolved once, and never half."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from pathlib import Path

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing import Progress, resolve_jars
from evensplit.testing.process.jars import cache_directory, find_ivy, last_lines, steps_done

# Stands in for `java`: says a version, or does what Ivy would and notes that it was asked to.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.9" 2023-10-17' >&2; exit 0; fi
while [ "$1" != -retrieve ]; do shift; done
directory=${2%/*}
echo "$directory" >> "$ASKED"
echo ':: resolving dependencies ::'
printf '\\tfound org.apache.kafka#kafka_2.13;4.3.0 in public\\n'
printf '\\t[SUCCESSFUL ] org.apache.kafka#kafka_2.13;4.3.0!kafka_2.13.jar (492ms)\\n'
mkdir -p "$directory"
touch "$directory/other-1.0.jar"
if [ -n "$BREAK" ]; then echo 'unresolved dependency: no network here'; exit 1; fi
sleep 0.3
touch "$directory/kafka_2.13-4.3.0.jar"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a pyspark with an Ivy jar, and the stand-in for Java."""
    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE_JAVA)
    java.chmod(0o755)
    ivy = tmp_path / "packages" / "pyspark" / "jars" / "ivy-2.5.3.jar"
    ivy.parent.mkdir(parents=True)
    ivy.touch()
    (tmp_path / "packages" / "pyspark" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.delenv("EVENSPLIT_KAFKA_LIBS", raising=False)
    monkeypatch.delenv("BREAK", raising=False)
    return tmp_path / "cache" / "evensplit" / "kafka-4.3.0"


def times_asked(cache: Path) -> int:
    asked = cache.parents[2] / "asked"
    return len(asked.read_text().splitlines()) if asked.exists() else 0


def test_they_are_resolved_once_into_the_cache_with_progress(cache: Path) -> None:
    seen: list[Progress] = []
    assert resolve_jars(seen.append) == cache / "libs"
    assert sorted(path.name for path in (cache / "libs").iterdir()) == ["kafka_2.13-4.3.0.jar", "other-1.0.jar"]
    assert [progress.doing for progress in seen] == [
        "looking for Kafka's jars",
        "found kafka_2.13",
        "downloaded kafka_2.13.jar",
        "Kafka's jars are there",
    ]
    assert [progress.done for progress in seen] == [0, 1, 2, seen[-1].total]
    assert sorted(path.name for path in cache.iterdir()) == ["libs", "lock"]
    assert resolve_jars() == cache / "libs"
    assert times_asked(cache) == 1


def test_several_at_once_resolve_once(cache: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(resolve_jars())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [cache / "libs"] * 4
    assert times_asked(cache) == 1


def test_a_failure_says_what_ivy_said_and_what_to_do_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAK", "1")
    with pytest.raises(LocalKafkaError) as caught:
        resolve_jars()
    message = str(caught.value)
    for part in ("ended with code 1", "no network here", "EVENSPLIT_KAFKA_LIBS", "Maven Central"):
        assert part in message
    assert [path.name for path in cache.iterdir()] == ["lock"]
    monkeypatch.delenv("BREAK")
    assert resolve_jars() == cache / "libs"


def test_what_a_killed_process_left_is_not_taken_for_the_result_and_removed(cache: Path) -> None:
    draft = cache / "evensplit-abandoned" / "libs"
    draft.mkdir(parents=True)
    (draft / "kafka_2.13-4.3.0.jar").touch()
    assert resolve_jars() == cache / "libs"
    assert times_asked(cache) == 1
    assert sorted(path.name for path in cache.iterdir()) == ["libs", "lock"]


def test_a_directory_of_ones_own_needs_no_java_and_no_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("EVENSPLIT_KAFKA_LIBS", str(own))
    with pytest.raises(LocalKafkaError, match=r"EVENSPLIT_KAFKA_LIBS is .*own.*no kafka_2\.13"):
        resolve_jars()
    (own / "kafka_2.13-4.3.0.jar").touch()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert resolve_jars() == own
    assert not cache.exists()


def test_without_pyspark_it_says_how_to_get_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LocalKafkaError, match=r"pip install 'evensplit\[spark\]'.*EVENSPLIT_KAFKA_LIBS"):
        resolve_jars()
    assert times_asked(cache) == 0


def test_ivy_is_the_one_that_pyspark_ships(cache: Path, tmp_path: Path) -> None:
    assert find_ivy() == tmp_path / "packages" / "pyspark" / "jars" / "ivy-2.5.3.jar"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_cache_that_cannot_be_written(cache: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("cache").mkdir(mode=0o500)
    with pytest.raises(LocalKafkaError, match="XDG_CACHE_HOME"):
        resolve_jars()


def test_a_cache_in_place_of_a_file(cache: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("cache").touch()
    with pytest.raises(LocalKafkaError, match="XDG_CACHE_HOME"):
        resolve_jars()


def test_the_cache_is_in_the_home_directory_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "evensplit" / "kafka-4.3.0"


def test_ivys_output_is_understood() -> None:
    output = (
        ":: resolving dependencies :: evensplit#local-kafka;working@here\n"
        "\tfound org.apache.kafka#kafka_2.13;4.3.0 in public\n"
        "\tfound at.yawk.lz4#lz4-java;1.10.2 in public\n"
        "downloading https://example.org/kafka_2.13-4.3.0.jar ...\n"
        "..... (1583kB)\n"
        "\t[SUCCESSFUL ] org.apache.kafka#kafka_2.13;4.3.0!kafka_2.13.jar (492ms)\n"
        "\t[SUCCESSFUL ] org.xerial.snappy#snappy-java;1.1.10.7!snappy-java.jar(bundle) (139ms)\n"
        "\t[FAILED     ] org.yaml#snakeyaml;2.5!snakeyaml.jar: timed out\n"
    )
    assert steps_done(output) == [
        "found kafka_2.13",
        "found lz4-java",
        "downloaded kafka_2.13.jar",
        "downloaded snappy-java.jar",
    ]
    assert steps_done(output[:100]) == ["found kafka_2.13"]


def test_last_lines() -> None:
    assert last_lines("a\n\nb\nc \n", 2) == "It said at the end:\n    b\n    c"
    assert last_lines(" \n") == "It said nothing"
