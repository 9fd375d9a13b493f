"""The program of LocalRegistry: unpacked once, whole, and only if it is the one that was meant."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from pathlib import Path

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import locked
from evensplit.testing.registry.distribution import ARCHIVE, unpacked


class Download:
    """Stands in for `fetch_jars`, with its lock. `times`: how often it was asked."""

    def __init__(self, cache: Path) -> None:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            file = tarfile.TarInfo("lib/run.jar")
            file.size = 3
            archive.addfile(file, io.BytesIO(b"jar"))
        self.content = content.getvalue()
        self.sha256 = hashlib.sha256(self.content).hexdigest()
        self.times = 0
        self._cache = cache
        self._archive = cache / "libs" / ARCHIVE

    def __call__(self) -> Path:
        self.times += 1
        with locked(self._cache / "lock"):
            self._archive.parent.mkdir(parents=True, exist_ok=True)
            if not self._archive.exists():
                self._archive.write_bytes(self.content)
        return self._archive


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_it_is_unpacked_once_and_the_archive_goes(cache: Path) -> None:
    download = Download(cache)
    program = unpacked(cache, download, download.sha256)
    assert (program / "lib" / "run.jar").read_bytes() == b"jar"
    assert sorted(path.name for path in cache.iterdir()) == ["lock", "program"]
    assert unpacked(cache, download, download.sha256) == program
    assert download.times == 1


def test_another_archive_is_not_unpacked(cache: Path) -> None:
    download = Download(cache)
    with pytest.raises(LocalKafkaError, match=f"SHA-256 {download.sha256}, expected 0000.*do not use it"):
        unpacked(cache, download, "0" * 64)
    assert not (cache / "program").exists()


def test_several_at_once_end_with_one_program(cache: Path) -> None:
    download = Download(cache)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(unpacked(cache, download, download.sha256))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [cache / "program"] * 4
    assert (cache / "program" / "lib" / "run.jar").read_bytes() == b"jar"


def test_what_a_killed_process_left_is_not_taken_for_the_program(cache: Path) -> None:
    (cache / "evensplit-abandoned" / "program").mkdir(parents=True)
    download = Download(cache)
    unpacked(cache, download, download.sha256)
    assert sorted(path.name for path in cache.iterdir()) == ["lock", "program"]
