"""Kafka's jars: found, or resolved once through the Ivy that PySpark ships, and cached."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.java import Java, find_java
from evensplit.testing.process.keeper import Keeper

KAFKA_VERSION = "4.3.0"
LIBS_VARIABLE = "EVENSPLIT_KAFKA_LIBS"
MAIN_JAR = re.compile(r"kafka_2\.13-.*\.jar")
# Each of 46 jars is found, then downloaded; the finding takes three quarters of the time.
EXPECTED_STEPS = 92
RESOLVE_TIMEOUT_S = 900.0
POLL_INTERVAL_S = 0.1
LAST_LINES = 12

# Kafka's published dependencies hold log4j and no bridge to it from slf4j (its downloads do): nothing would be logged.
IVY_FILE = f"""\
<ivy-module version="2.0">
  <info organisation="evensplit" module="local-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default,runtime"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default,runtime"/>
  </dependencies>
</ivy-module>
"""

REACH = (
    "Does the network reach Maven Central (behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... "
    "-Dhttps.proxyPort=...')?"
)
INSTEAD = (
    f"{REACH} Without a network, set {LIBS_VARIABLE} to a directory that "
    f"holds the jars of Kafka {KAFKA_VERSION} (such as `libs` of an unpacked kafka_2.13-{KAFKA_VERSION}.tgz)"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the set-up is: `done` of about `total` steps, and the present one."""

    done: int
    total: int
    doing: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The jars to resolve: their name in messages, Ivy's file for them, and whether a directory has them all."""

    title: str
    ivy_file: str
    complete: Callable[[Path], bool]


def cache_directory() -> Path:
    """Where everything that is resolved or prepared for this Kafka version is kept, shared by all processes."""
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "evensplit" / f"kafka-{KAFKA_VERSION}"


def resolve_jars(progress: Callable[[Progress], None] | None = None) -> Path:
    """The directory that holds Kafka's jars, after downloading them if need be.

    With EVENSPLIT_KAFKA_LIBS set, that directory. Otherwise `libs` in `cache_directory()`; if it is not there yet,
    about 45 jars (44 MB, half a minute to a minute) are resolved from Maven Central through PySpark's Ivy jar. That
    happens in a directory next to it, which is renamed when it is complete, under a file lock: several processes may
    call this at once, and one that is interrupted leaves nothing that another could take for the result. Nothing
    outside `cache_directory()` is written.

    `progress` is called with each jar that is found and with each that arrives. Raises `LocalKafkaError` with the
    last lines of Ivy's output.
    """
    given = os.environ.get(LIBS_VARIABLE)
    if given:
        if not has_kafka(Path(given)):
            raise LocalKafkaError(
                f"{LIBS_VARIABLE} is {given!r}, and there is no kafka_2.13-*.jar in it; it must name a directory with "
                f"the jars of Kafka {KAFKA_VERSION}, or be unset"
            )
        return Path(given).absolute()
    return _made(cache_directory() / "libs", _KAFKA, progress or (lambda _: None))


def fetch_jars(name: str, ivy_file: str, files: Collection[str]) -> Path:
    """The directory that holds the jars `files`, which `ivy_file` asks for, after downloading them if need be.

    For what is measured beside this package. It is `libs` in `name`, next to `cache_directory()`, and made in the same
    way as that of Kafka's jars. Raises `LocalKafkaError` with the last lines of Ivy's output.
    """
    libs = cache_directory().with_name(name) / "libs"

    def complete(directory: Path) -> bool:
        return all((directory / file).is_file() for file in files)

    return _made(libs, Wanted(name, ivy_file, complete), lambda _: None)


def has_kafka(libs: Path) -> bool:
    """Whether `libs` is a directory with Kafka's main jar in it."""
    return libs.is_dir() and any(MAIN_JAR.fullmatch(path.name) for path in libs.iterdir())


def find_ivy() -> Path:
    """PySpark's Ivy jar. Raises `LocalKafkaError` when PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec is not None else None
    jars = sorted(jar for place in places or () for jar in Path(place, "jars").glob("ivy-*.jar"))
    if not jars:
        raise LocalKafkaError(
            f"Kafka's jars are resolved through the Ivy jar that PySpark ships, and PySpark is not installed here: "
            f"`pip install 'evensplit[spark]'`, or set {LIBS_VARIABLE} to a directory that holds the jars of Kafka "
            f"{KAFKA_VERSION}"
        )
    return jars[-1]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` against every other process; wait for it as long as it takes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise LocalKafkaError(
            f"the cache directory {path.parent} cannot be written: {error}. Set XDG_CACHE_HOME to one that can"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_drafts(cache: Path) -> None:
    """Remove unfinished directories of killed processes. Only for the holder of the lock."""
    for draft in cache.glob("evensplit-*"):
        shutil.rmtree(draft, ignore_errors=True)


_KAFKA = Wanted("Kafka's jars", IVY_FILE, has_kafka)


def _made(libs: Path, wanted: Wanted, progress: Callable[[Progress], None]) -> Path:
    if not wanted.complete(libs):
        java = find_java()
        with locked(libs.parent / "lock"):
            if not wanted.complete(libs):
                _resolve(libs, java, find_ivy(), progress, wanted)
    return libs


def _resolve(libs: Path, java: Java, ivy: Path, progress: Callable[[Progress], None], wanted: Wanted) -> None:
    remove_drafts(libs.parent)
    progress(Progress(0, EXPECTED_STEPS, f"looking for {wanted.title}"))
    with Keeper(libs.parent) as keeper:
        output = keeper.directory / "ivy.log"
        draft = keeper.directory / "libs"
        child = keeper.spawn(_ivy_command(java, ivy, keeper.directory, draft, wanted.ivy_file), output=output)
        deadline = time.monotonic() + RESOLVE_TIMEOUT_S
        seen = 0
        while (code := child.poll()) is None and time.monotonic() < deadline:
            steps = steps_done(output.read_text(errors="replace"))
            for number in range(seen, len(steps)):
                progress(Progress(number + 1, max(EXPECTED_STEPS, number + 1), steps[number]))
            seen = len(steps)
            time.sleep(POLL_INTERVAL_S)
        said = output.read_text(errors="replace")
        if code != 0 or not wanted.complete(draft):
            ended = f"did not end within {RESOLVE_TIMEOUT_S:g} s" if code is None else f"ended with code {code}"
            instead = INSTEAD if wanted.complete is has_kafka else REACH
            raise LocalKafkaError(f"{wanted.title} could not be resolved: Ivy {ended}. {instead}. {last_lines(said)}")
        draft.replace(libs)
    total = max(seen, EXPECTED_STEPS)
    progress(Progress(total, total, f"{wanted.title} are there"))


def _ivy_command(java: Java, ivy: Path, directory: Path, libs: Path, ivy_file: str) -> list[str]:
    (directory / "ivy.xml").write_text(ivy_file)
    jvm = [str(java.path), f"-Djava.io.tmpdir={directory}", "-XX:-UsePerfData", "-jar", str(ivy)]
    # Ivy would otherwise keep a second copy of everything in ~/.ivy2.
    what = ["-ivy", str(directory / "ivy.xml"), "-confs", "default", "-cache", str(directory / "ivy-cache")]
    return [*jvm, *what, "-retrieve", f"{libs}/[artifact]-[revision].[ext]"]


def steps_done(ivy_output: str) -> list[str]:
    """Ivy's steps so far, in order, from its output: each jar is found first, and downloaded later."""
    lines = re.finditer(
        r"^\t(?:found [^#\n]+#(?P<found>[^;\n]+);|\[SUCCESSFUL \] [^!\n]+!(?P<downloaded>[\w.-]+\.jar))",
        ivy_output,
        flags=re.MULTILINE,
    )
    return [f"found {line['found']}" if line["found"] else f"downloaded {line['downloaded']}" for line in lines]


def last_lines(text: str, count: int = LAST_LINES) -> str:
    """The last lines of a program's output, for the end of an error message."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-count:]
    return "It said at the end:\n" + "\n".join(f"    {line}" for line in lines) if lines else "It said nothing"
