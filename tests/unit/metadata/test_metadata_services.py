"""Metadata services of any kind: what is no location of one, and what they load and hand on."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from evensplit.errors import MetadataError
from evensplit.metadata import open_service
from tests.support.metadata_answers import answer, problem, refused


@pytest.mark.parametrize(
    "location", ["", " ", "fleet", "s3://bucket/x?k=hunter2", "jdbc://u:hunter2@h/", "a b", "a..B", "a:b:c"]
)
def test_what_is_no_location(location: str) -> None:
    assert refused(location).endswith(
        "expected a path or a file:// URL of a YAML or JSON file, an http:// or https:// URL, or the name of a class, "
        "such as package.module.Class"
    )


@pytest.mark.parametrize(
    "location, shown",
    [
        ("https:/user:hunter2@host/x", "…@host/x"),
        ("HTTP:user:hunter2@host/x", "…@host/x"),
        ("https:/host/x?token=hunter2", "https:/host/x?…"),
    ],
)
def test_a_url_with_too_few_slashes(location: str, shown: str) -> None:
    told = refused(location, token_env="A")
    assert told.startswith(f"metadata of {shown}: ")
    scheme = location.partition(":")[0].lower()
    assert told.endswith(f"expected a URL such as {scheme}://host:port/path, with two slashes after {scheme}:")


@pytest.mark.parametrize(
    "location, shown",
    [
        ("user:hunter2@host:8080/x", "…@host:8080/x"),
        ("hunter2@host:8080/x#hunter2", "…@host:8080/x#…"),
        ("//user:hunter2@host/x", "…@host/x"),
        ("user:hunter2@https://host/x?hunter2", "…@https://host/x?…"),
        ("/data/team@corp/fleet.yaml", "/data/team@corp/fleet.yaml"),
        ("./a@b?.yaml", "./a@b?.yaml"),
        ("fleet.yaml", "fleet.yaml"),
    ],
)
def test_what_a_path_may_be_meant_for_is_not_shown(location: str, shown: str) -> None:
    assert problem(open_service(location)).startswith(f"metadata of {shown}: expected a file that can be read")


def test_errors_and_answers_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(MetadataError("fleet", ["a", "b"])))
    assert str(error) == "metadata of fleet: 2 things are wrong:\n  1. a\n  2. b"
    assert pickle.loads(pickle.dumps(answer("t"))) == answer("t")


def test_the_room_loads_nothing_heavy() -> None:
    code = "import sys, evensplit.metadata; print(*sorted({'yaml', 'ssl', 'urllib.request', 'numpy'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
