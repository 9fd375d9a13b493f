"""Apicurio Registry from Maven Central: fetched once, checked, unpacked, and kept."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import cache_directory, fetch_jars, locked, remove_drafts
from evensplit.testing.process.keeper import Keeper

# The last release for Java 17: those after it need Java 21.
VERSION = "2.6.13.Final"
NAME = f"apicurio-registry-{VERSION}"
MODULE = "apicurio-registry-app"
ARCHIVE = f"{MODULE}-{VERSION}.tar.gz"
SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
RUNNER = f"{MODULE}-{VERSION}-runner.jar"

IVY_FILE = f"""\
<ivy-module version="2.0" xmlns:maven="http://ant.apache.org/ivy/maven">
  <info organisation="evensplit" module="local-registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="{MODULE}" rev="{VERSION}" transitive="false" conf="default->master">
      <artifact name="{MODULE}" type="tar.gz" ext="tar.gz" maven:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def resolve_registry() -> Path:
    """The directory with the registry's program, after downloading 142 MB from Maven Central if need be.

    It is kept beside Kafka's jars, and made in the same way: see `resolve_jars`. Raises `LocalKafkaError`.
    """
    cache = cache_directory().with_name(NAME)
    return unpacked(cache, lambda: fetch_jars(NAME, IVY_FILE, (ARCHIVE,)) / ARCHIVE, SHA256)


def unpacked(cache: Path, fetched: Callable[[], Path], sha256: str) -> Path:
    """The directory `program` in `cache`, made of the archive that `fetched` gives if it is not there yet.

    It is there whole or not at all, whoever else makes it now; the archive is removed then. Raises `LocalKafkaError`
    for an archive with another checksum.
    """
    program = cache / "program"
    while not program.is_dir():
        archive = fetched()
        with locked(cache / "lock"):
            # Another process may have unpacked it, and removed the archive.
            if not program.is_dir() and archive.is_file():
                remove_drafts(cache)
                check(archive, sha256)
                with Keeper(cache) as keeper:
                    draft = keeper.directory / "program"
                    with tarfile.open(archive) as content:
                        # Python 3.11.4 and later have it; the checksum has been checked anyhow.
                        content.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                        content.extractall(draft)  # noqa: S202
                    draft.replace(program)
            if program.is_dir():
                shutil.rmtree(archive.parent, ignore_errors=True)
    return program


def check(archive: Path, sha256: str) -> None:
    """Raises `LocalKafkaError` for a file with another checksum."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise LocalKafkaError(
            f"{archive} has the SHA-256 {found}, expected {sha256}. Remove {archive.parent} and run this again; if it "
            "stays so, do not use it"
        )
