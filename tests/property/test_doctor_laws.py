"""What `evensplit doctor --checkpoint` says will change is what changes: beside the coordinator of the query itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.group import evensplit
from evensplit.cli.live import log_ends
from evensplit.core.policies import POLICIES
from evensplit.core.state.codec import SIGNATURE, encode
from evensplit.explain.changes import changes
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import contents
from tests.support.histories import history, state, write
from tests.support.hosts import Source

TOPICS = {("east", "t1"): [100, 200, 300, 5], ("west", "t2"): [10, 20, 30]}


def clusters(added: int) -> dict[str, FakeKafka]:
    """The clusters of `TOPICS` a while later, with so many partitions more."""
    found: dict[str, FakeKafka] = {}
    for (name, topic), positions in TOPICS.items():
        found[name] = FakeKafka(name, cluster_id=f"kafka-{name}")
        found[name].create_topic(topic, len(positions) + added)
        for number, position in enumerate([*positions, *[0] * added]):
            found[name].append(topic, number, position + 5)
    return found


@contextmanager
def seen(fakes: Mapping[str, FakeKafka]) -> Iterator[None]:
    """Commands see these clusters, and nothing of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor_module, "local_findings", lambda: iter(()))
        patch.setattr(doctor_module, "cluster_findings", lambda wanted: iter(()))
        patch.setattr(log_ends, "ClusterClient", lambda cluster, _: fakes[cluster])
        yield


def doctor(place: Path, options: Mapping[str, str]) -> Mapping[str, dict[str, Any]]:
    named = json.dumps({name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in ("east", "west")})
    said = [part for name, value in {**options, "clusters": named}.items() for part in ("-o", f"{name}={value}")]
    done = CliRunner().invoke(evensplit, ["doctor", "--checkpoint", str(place), *said, "--format", "json"])
    assert done.exit_code == 0, done.output
    return {one["step"]: one for one in json.loads(done.stdout)["findings"]}


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@pytest.mark.lengthy
@settings(max_examples=25, deadline=None)
@given(
    readers=st.integers(1, 5),
    policy=st.sampled_from(POLICIES),
    rebalance=st.sampled_from(["always", "on-rescale", "never"]),
    scope=st.sampled_from(["global", "per-cluster"]),
    added=st.integers(0, 3),
    limit=st.sampled_from(["", "7"]),
)
def test_owners_new_partitions_and_format_are_as_foretold(
    readers: int, policy: str, rebalance: str, scope: str, added: int, limit: str
) -> None:
    options: dict[str, Any] = {
        "subscribePattern": "t",
        "readers": str(readers),
        "policy": policy,
        "rebalance": rebalance,
        "assignScope": scope,
        **({"maxOffsetsPerTrigger": limit} if limit else {}),
    }
    before = state(TOPICS, 3, topic_id="")
    with TemporaryDirectory() as directory:
        place = write(Path(directory) / "kept", [replace(before, revision=1)])
        fakes = clusters(added)
        with seen(fakes):
            told = doctor(place, options)
        after = Source(*fakes.values(), **options).plan(before, limited=bool(limit))
    happened = changes(before, after)
    assert number(r"^(\d+) of", told["owners"]["found"]) == len(happened.moves)
    assert number(r"with (\d+) new partition", told["partitions"]["found"]) == len(happened.discoveries) == 2 * added
    version = encode(after)[SIGNATURE]
    said = told["format"]["found"]
    assert f"format {version} is written" in said or f"Format {version} is written as soon as" in said
    assert version == 4 or limit


@pytest.mark.lengthy
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_is_in_the_files_it_says_so_and_writes_nothing(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        place = write(Path(directory) / "kept", history(3), committed=data.draw(st.booleans()))
        names = [path for path in sorted(place.rglob("*")) if path.is_file()]
        path = data.draw(st.sampled_from(names))
        text = path.read_bytes()
        at = data.draw(st.integers(0, len(text)))
        path.write_bytes(text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 40)) :])
        before = contents(place)
        with seen({}):
            done = CliRunner().invoke(evensplit, ["doctor", "--checkpoint", str(place), "--format", "json"])
        assert isinstance(done.exception, SystemExit | None), done.exception
        found = json.loads(done.stdout)
        assert done.exit_code == (0 if found["well"] else 1)
        assert all(one["cure"] for one in found["findings"] if one["status"] in ("failed", "warning"))
        assert contents(place) == before
