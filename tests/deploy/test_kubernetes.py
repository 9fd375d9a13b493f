"""deploy/kubernetes, as far as it can be tried without a cluster and without Docker."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import recipes
from tests.support.api_server import ApiServer
from tests.support.wheels import ROOT, wheel

KUBERNETES = ROOT / "deploy" / "kubernetes"
IMAGE = "registry.example.com/orders:1"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def submitted() -> dict[str, str]:
    """The settings that submit.sh gives."""
    return dict(re.findall(r"--conf (\S+?)=(\S+)", (KUBERNETES / "submit.sh").read_text()))


def test_all_files_are_on_the_page() -> None:
    listed = re.findall(r"^\| `([^`]+)` \|", recipes.PAGE.read_text(), re.M)
    assert {path.name for path in KUBERNETES.iterdir()} <= set(listed)


def test_both_operators_start_what_submit_starts() -> None:
    (apache,) = documents("spark-operator.yaml")
    given = submitted()
    beside = {"spark.kubernetes.namespace", "spark.kubernetes.submission.waitAppCompletion"}
    assert apache["spec"]["sparkConf"] == {name: value for name, value in given.items() if name not in beside}
    assert apache["metadata"]["namespace"] == given["spark.kubernetes.namespace"]
    (kubeflow,) = documents("kubeflow-operator.yaml")
    spec = kubeflow["spec"]
    executor = {f"spark.executor.{name}": str(value) for name, value in spec["executor"].items()}
    image = {"spark.kubernetes.container.image": spec["image"]}
    account = {"spark.kubernetes.authenticate.driver.serviceAccountName": spec["driver"]["serviceAccount"]}
    assert spec["sparkConf"] | executor | image | account == apache["spec"]["sparkConf"]
    assert spec["mainApplicationFile"] == apache["spec"]["pyFiles"] == "local:///opt/job/orders.py"


def test_what_a_job_names_is_what_the_cluster_has() -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in documents("cluster.yaml")}
    given = submitted()
    namespaces = {one["metadata"].get("namespace") for (kind, _), one in found.items() if kind != "Namespace"}
    assert namespaces == {given["spark.kubernetes.namespace"]}
    assert ("ServiceAccount", given["spark.kubernetes.authenticate.driver.serviceAccountName"]) in found
    for role in ("driver", "executor"):
        secret, key = given[f"spark.kubernetes.{role}.secretKeyRef.KAFKA_PASSWORD"].split(":")
        assert key in found["Secret", secret]["stringData"]
        volume = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.checkpoints"
        assert ("PersistentVolumeClaim", given[f"{volume}.options.claimName"]) in found
        job = (KUBERNETES / "orders.py").read_text()
        assert f'"{given[f"{volume}.mount.path"]}/' in job
        assert "${env:KAFKA_PASSWORD}" in job


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_lines_that_install_do(tmp_path: Path) -> None:
    """In directories of the test, and with the Python that is here."""
    text = (KUBERNETES / "Dockerfile").read_text()
    (command,) = re.findall(r"^RUN --mount=\S+ \\\n(.*?[^\\])$", text, re.M | re.S)
    wheel(tmp_path / "wheels")
    names = {"/opt/": f"{tmp_path}/", "uv venv --python 3.12": f"uv venv --python {sys.executable}"}
    environment = recipes.clean(str(Path(sys.executable).parent), UV_PYTHON_DOWNLOADS="never")
    recipes.run(recipes.here(command, names), tmp_path, environment).well()
    (python,) = re.findall(r"^ENV PYSPARK_PYTHON=/opt/(\S+)$", text, re.M)
    said = [tmp_path / python, "-c", "import evensplit; print(evensplit.__file__)"]
    where = subprocess.run(said, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(tmp_path / "evensplit"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_submit_asks_for_the_driver_that_is_wanted(tmp_path: Path) -> None:
    shutil.copy(KUBERNETES / "submit.sh", tmp_path)
    with ApiServer() as server:
        environment = recipes.clean(str(Path(sys.executable).parent), API_SERVER=server.url)
        recipes.run("./submit.sh", tmp_path, environment).well()
    (pod,) = server.created["Pod"]
    assert pod["metadata"]["namespace"] == "orders"
    assert pod["spec"]["serviceAccountName"] == "spark"
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == IMAGE
    assert driver["args"][0] == "driver"
    assert driver["args"][-1] == "local:///opt/job/orders.py"
    from_secret = {"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"key": "password", "name": "kafka"}}}
    assert from_secret in driver["env"]
    (claim,) = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert claim["persistentVolumeClaim"]["claimName"] == "checkpoints"
    assert {"name": claim["name"], "mountPath": "/checkpoints"}.items() <= next(
        one for one in driver["volumeMounts"] if one["name"] == claim["name"]
    ).items()
    (settings,) = (one["data"]["spark.properties"] for one in server.created["ConfigMap"])
    for name, value in submitted().items():
        assert f"{name}={value}" in settings.replace("\\:", ":")
