"""The recipes for a cluster, as docs/howto/deploy.md has them, on workers whose own Python has no evensplit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from evensplit.testing.chaos.job.standalone import StandaloneCluster
from tests.support import recipes
from tests.support.recipes import Ran
from tests.support.records import consume, numbers
from tests.support.wheels import environment, site_packages, stand_in, wheel
from tools.matrix import newer_python

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

RECORDS = 200
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull}


@dataclass(frozen=True)
class Site:
    """A cluster and what is installed. `opt`: what stands for /opt/evensplit; `python3`: what the workers run."""

    root: Path
    cluster: StandaloneCluster
    wheel: Path
    opt: Path
    python3: Path

    def submit(self, recipe: str, job: str, within: Path, path: Path | None = None) -> Ran:
        """Run a recipe that submits `orders.py`."""
        within.mkdir(exist_ok=True)
        (within / "orders.py").write_text(job)
        found = recipe.replace("spark://spark-1:7077", self.cluster.url).replace("/opt/evensplit", str(self.opt))
        found = found.replace("spark-submit", "spark-submit --conf spark.ui.enabled=false", 1)
        return recipes.run(found, within, recipes.clean(str(path or self.python3.parent)))

    @contextmanager
    def workers_run(self, python: Path) -> Iterator[None]:
        """In the block, the workers' `python3` is this one."""
        before = self.python3.read_text()
        stand_in(self.python3, python)
        try:
            yield
        finally:
            self.python3.write_text(before)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What is downloaded, and then installed where there is no index, is the environment of all tests here."""
    root = tmp_path_factory.mktemp("site")
    place = {"/opt/evensplit": str(root / "opt")}
    made = wheel(root)
    workers = root / "workers"
    workers.mkdir()
    stand_in(workers / "python3", Path(sys.executable))
    download, install = recipes.section("Without a network")
    recipes.run(download, root, recipes.clean(str(workers))).well()
    made.unlink()
    recipes.run(recipes.here(install, place), root, recipes.clean(str(workers), **NOWHERE)).well()
    opt = root / "opt"
    without = environment(root / "without", site_packages(opt))
    stand_in(workers / "python3", without)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"):
            patch.delenv(name, raising=False)
        patch.setenv("PATH", f"{workers}{os.pathsep}{os.environ['PATH']}")
        with StandaloneCluster(root, workers=2) as cluster:
            yield Site(root, cluster, root / "wheels" / made.name, opt, workers / "python3")


@pytest.fixture
def job(east: LocalKafka, topic: str, tmp_path: Path) -> str:
    """The page's program, with a topic that has records."""
    east.create_topic(topic, partitions=4)
    east.create_topic(f"{topic}-copies")
    numbers(east.bootstrap_servers, topic, range(RECORDS), partitions=4)
    (text,) = [one for one in recipes.section("Which Python runs it", "python") if "awaitTermination" in one]
    names = {
        "eu-1:9092": east.bootstrap_servers,
        '"orders")\n    .option("starting': f'"{topic}")\n    .option("starting',
    }
    names |= {'"copies"': f'"{topic}-copies"', "/data/checkpoints": str(tmp_path)}
    return recipes.here(text, names)


def copied(east: LocalKafka, topic: str) -> list[int]:
    return sorted(int(one.value or b"") for one in consume(east.bootstrap_servers, f"{topic}-copies", range(1)))


def test_installed_on_every_machine(site: Site, job: str, east: LocalKafka, topic: str, tmp_path: Path) -> None:
    submit = recipes.section("A standalone cluster")[-1]
    site.submit(submit, job, tmp_path / "driver").well()
    assert copied(east, topic) == list(range(RECORDS))


def test_an_archive_that_travels_with_the_job(
    site: Site, job: str, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    (submit,) = recipes.section("An archive with spark-submit")
    site.submit(submit, job, tmp_path / "driver").well()
    assert copied(east, topic) == list(range(RECORDS))
    unpacked = [*site.root.glob("worker-*/app-*/*/environment/bin/python")]
    assert unpacked, "an executor has unpacked it"
    without = submit.replace("mkdir environment\ntar -xzf evensplit.tar.gz -C environment\n", "")
    assert without != submit
    # The driver plans, so it gets no further than that, whatever the cluster is.
    without = without.replace("spark://spark-1:7077", "local[1]")
    ran = site.submit(without, job, tmp_path / "elsewhere", site.opt / "bin")
    assert ran.code
    assert 'Cannot run program "./environment/bin/python"' in ran.said


UNSET = "spark-submit --master spark://spark-1:7077 --conf spark.task.maxFailures=1 orders.py"


def test_workers_whose_python_lacks_something(site: Site, job: str, tmp_path: Path) -> None:
    """PYSPARK_PYTHON is not set: each machine runs the `python3` that it has."""
    ran = site.submit(UNSET, job, tmp_path / "driver", site.opt / "bin")
    assert ran.code
    assert "ModuleNotFoundError: No module named 'evensplit'" in ran.said


def test_workers_with_another_version(site: Site, job: str, tmp_path: Path) -> None:
    old = environment(tmp_path / "old", site_packages(site.opt), wheel=wheel(tmp_path, "0.0.9"))
    with site.workers_run(old):
        ran = site.submit(UNSET, job, tmp_path / "driver", site.opt / "bin")
    assert ran.code
    assert f"evensplit.errors.InstallationError: the Python {old} on " in ran.said
    assert "has evensplit 0.0.9, and was sent work by evensplit 0.1.0" in ran.said
    assert "ES-109" in ran.said


def test_workers_with_another_python(site: Site, job: str, tmp_path: Path) -> None:
    other = newer_python(f"{sys.version_info.major}.{sys.version_info.minor}", os.environ)
    if other is None:
        pytest.skip("needs a second Python")
    with site.workers_run(Path(other[0])):
        ran = site.submit(UNSET, job, tmp_path / "driver", site.opt / "bin")
    assert ran.code
    assert "PYTHON_VERSION_MISMATCH" in ran.said


def test_a_wheel_in_py_files(site: Site, job: str, tmp_path: Path) -> None:
    """In one process, since it gets no further than the driver."""
    without = environment(tmp_path / "without", site_packages(site.opt))
    submit = f"PYSPARK_PYTHON={without} spark-submit --master local[1] --py-files {site.wheel} orders.py"
    ran = site.submit(submit, job, tmp_path / "driver")
    assert ran.code
    assert f"has evensplit from the archive {site.wheel}" in ran.said
    assert "--archives" in ran.said
    bare = job.replace("evensplit.register(spark)\n", "")
    assert bare != job
    ran = site.submit(submit, bare, tmp_path / "unregistered")
    assert ran.code
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: evensplit" in ran.said
