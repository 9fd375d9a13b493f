"""Commands that are advised can be copied into a shell, also where a name has a blank or a quote in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from evensplit.core.text import command_line
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import do, ours, positions


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "it's a folder"


def advised(told: str) -> list[str]:
    """The one command in a text that names a place, as a shell passes it on, without the name of the program."""
    (command,) = re.findall(r"`evensplit ([a-z-]+ '[^`]*)`", " ".join(told.split()))
    return shlex.split(command)


def test_what_needs_no_quotes_has_none() -> None:
    said = command_line("skip", Path("/c/orders"), "default/orders/0:3-5", "--source", "1")
    assert said == "evensplit skip /c/orders default/orders/0:3-5 --source 1"


def test_of_an_edit_that_is_written_and_one_that_is_done(home: Path, kafka: FakeKafka) -> None:
    place = ours(home / "my orders")
    shown, _ = invoke("skip", place, "orders/0:30-31", "--yes")
    assert advised(shown) == ["undo", str(place)]
    do(place, 3)
    _, told = invoke("undo", place, code=1)
    invoke(*advised(told), "--yes")
    assert positions(place)["default/orders/0"] == 30


def test_of_a_rewind_and_a_rename(home: Path, kafka: FakeKafka) -> None:
    place = ours(home / "my orders")
    invoke("rewind", place, "--to", "batch:1", "--yes")
    do(place, 3)
    invoke(*advised(invoke("undo", place, code=1)[1]), "--yes")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 25}
    do(place, 4)
    invoke("rename-cluster", place, "default", "eu", "--yes")
    do(place, 5)
    invoke(*advised(invoke("undo", place, code=1)[1]), "--yes")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 25}


def test_of_a_folder_and_of_sparks_own_source(home: Path) -> None:
    place = checkpoint(home / "theirs", ['{"t":{"0":5}}'], committed=0)
    assert advised(invoke("inspect", home, code=1)[1]) == ["top", str(home)]
    said, _ = invoke("doctor", "--checkpoint", place)
    assert advised(said) == ["migrate", str(place), "NEW"]
