"""`evensplit plan`: who would read what, of a checkpoint and of clusters as they are."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.cli.live import log_ends
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    Event,
    ParallelismChanged,
    ReaderRegistered,
    TimePassed,
)
from evensplit.core.model import SplitId
from evensplit.core.policies import BALANCED, GLOBAL, HASH, POLICIES
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS, NEVER, ON_RESCALE, PER_CLUSTER, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.commands import invoke, trimmed
from tests.support.histories import history, state, write


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    shown, told = invoke("plan", *arguments, code=code)
    return trimmed(shown), told


def planned(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json")[0])
    return found


def rows(shown: str) -> list[list[str]]:
    """The cells of lines that begin with a number."""
    return [row.split(maxsplit=4) for row in shown.splitlines() if row.strip()[:1].isdecimal() and row[:2] == "  "]


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """What all clusters are: orders with three partitions of 1,000 offsets, and clicks with one."""
    kafka = FakeKafka("east", cluster_id="kafka-east")
    for topic, partitions in (("orders", 3), ("clicks", 1)):
        kafka.create_topic(topic, partitions)
        for number in range(partitions):
            kafka.append(topic, number, 1_000)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, settings: kafka)
    return kafka


LIVE = ("-o", "kafka.bootstrap.servers=east:1", "-o", "subscribe=orders,clicks")


def test_from_a_checkpoint_with_as_many_readers_nobody_is_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: pytest.fail("a cluster was asked"))
    shown, _ = run(str(place))
    assert shown.splitlines()[0] == "6 partitions to 3 readers by balanced"
    assert rows(shown) == [
        ["0", "2", "0", "0", "east/orders 0  west/clicks 0"],
        ["1", "2", "0", "0", "east/orders 1  west/clicks 1"],
        ["2", "2", "1", "0", "east/orders 2  west/clicks 2"],
    ]
    assert "1 partition would move:\n  from reader 0 to reader 2: east/orders 2" in shown
    assert "Proven: as even as possible; " in shown


def test_fewer_readers_move_what_they_have_to(place: Path) -> None:
    found = planned(str(place), "--readers", "2")
    (plan,) = found["plans"]
    assert (found["splits"], found["readersNow"], found["readers"], found["asked"]) == (6, 3, 2, False)
    assert (plan["loadMin"], plan["loadMax"], plan["moved"], plan["movedThatCouldStay"]) == (3, 3, 1, 0)
    assert plan["moves"] == [{"split": "west/clicks/2", "from": 2, "to": 1, "forced": True}]
    assert set(plan["owners"].values()) == {0, 1}
    shown, _ = run(str(place), "--readers", "2")
    assert "1 partition would move, 1 of them since their reader is gone" in shown
    assert "Proven: as even as possible; " in shown


def test_all_policies_beside_each_other(place: Path) -> None:
    found = planned(str(place), "--readers", "4", "--compare")
    assert [plan["policy"] for plan in found["plans"]] == list(POLICIES)
    squares = {plan["policy"]: sum(one["splits"] ** 2 for one in plan["readers"]) for plan in found["plans"]}
    assert squares["balanced"] == min(squares.values())
    assert found["plans"][0]["even"]
    shown, _ = run(str(place), "--readers", "4", "--compare")
    assert [row.split()[0] for row in shown.splitlines() if row.split()[:1] and row.split()[0] in POLICIES] == [
        *POLICIES,
        *POLICIES,
    ]


def test_pins_and_scope(place: Path) -> None:
    plan = planned(str(place), "--pin", '{"0": ["east"], "1-2": ["west"]}', "--assign-scope", "per-cluster")["plans"][0]
    assert {reader for split, reader in plan["owners"].items() if split.startswith("east")} == {0}
    assert [one["cluster"] for one in plan["evenness"]] == ["east", "west"]
    assert plan["unassigned"] == []
    shown, _ = run(str(place), "--pin", '{"0-2": ["east"]}')
    assert "No reader may read: west/clicks 0-2" in shown


def test_owners_stay_where_rebalance_says_so(place: Path) -> None:
    plan = planned(str(place), "-o", "rebalance=never")["plans"][0]
    assert (plan["moved"], plan["loadMax"]) == (0, 3)
    assert "With rebalance=never, partitions keep their owner" in run(str(place), "-o", "rebalance=never")[0]
    assert planned(str(place), "--rebalance", "on-rescale", "--readers", "6")["plans"][0]["loadMax"] == 1
    assert planned(str(place), "--rebalance", "never") == planned(str(place), "-o", "rebalance=never")
    told = run(str(place), "--rebalance", "never", "-o", "rebalance=always", code=2)[1]
    assert "-o rebalance is given, and the flag of that name too" in told


def decided(before: EnumeratorState, readers: int) -> dict[str, int | None]:
    """The owners that a query has which goes on from `before` with so many readers."""
    now = before
    events: list[Event] = [BatchOpened(), TimePassed(1), ParallelismChanged(readers)]
    events += [ReaderRegistered(reader, reported={}, generation=None) for reader in range(readers)]
    events += [BatchPlanned({})]
    for event in events:
        now = step(now, event).state
    return {str(key): split.owner for key, split in now.splits.items()}


@pytest.mark.parametrize(
    "policy, rebalance, scope",
    [(BALANCED, ALWAYS, ALL_CLUSTERS), (GLOBAL, ON_RESCALE, PER_CLUSTER), (HASH, NEVER, ALL_CLUSTERS)],
)
def test_a_plan_is_what_the_query_does(tmp_path: Path, policy: str, rebalance: str, scope: str) -> None:
    """With the owners of a history, which are not even, for fewer, as many and more readers; two may have none yet."""
    settings = Settings(policy=policy, rebalance=rebalance, scope=scope)
    last = replace(history()[-1], settings=settings, losses=())
    new = [SplitId("east", "orders", 1), SplitId("west", "clicks", 0)]
    none = {**last.splits, **{key: last.splits[key]._replace(owner=None) for key in new}}
    for before in (last, replace(last, splits=none)):
        place = write(tmp_path, [before])
        for readers in (1, 2, 3, 4, 7):
            found = planned(str(place), "--readers", str(readers))["plans"][0]
            owners = decided(before, readers)
            assert found["owners"] == owners, readers
            loads = Counter(owners.values())
            assert [one["splits"] for one in found["readers"]] == [loads[reader] for reader in range(readers)]
            if scope == ALL_CLUSTERS:
                (proven,) = found["evenness"]
                assert proven["loadMax"] == max(loads.values())


@pytest.mark.parametrize("rebalance", [NEVER, ON_RESCALE])
def test_hash_moves_nothing_that_stays(place: Path, rebalance: str) -> None:
    found = planned(str(place), "--policy", "hash", "-o", f"rebalance={rebalance}")["plans"][0]
    assert (found["moved"], found["moves"], found["evenness"][0]["moved"]) == (0, [], 0)
    shown, _ = run(str(place), "--policy", "hash", "-o", f"rebalance={rebalance}")
    assert "Nothing moves." in shown


@pytest.mark.parametrize(
    "arguments, told",
    [
        ((), "no partitions to plan for; expected CHECKPOINT, or one of -o clusters, -o metadata"),
        (("--readers", "0", "--pin", "{"), "2 options are wrong: 1. readers is '0'"),
        (("--pin", '{"7": ["east"]}'), "pin names the readers '7'; expected at most 2, since readers is 3"),
        (("--pin", '{"0": ["eats"]}'), "pin names clusters that the checkpoint does not have: eats; it has east, west"),
        (("-o", "policy=fair", "--policy", "hash"), "-o policy is given, and the flag of that name too"),
        (("-o", "polcy=fair"), "polcy is not an option; did you mean policy?"),
        (("--source", "3"), "--source names source '3'; expected one of 0"),
    ],
)
def test_wrong_use_is_said_so(place: Path, arguments: tuple[str, ...], told: str) -> None:
    said = run(*([str(place)] if arguments else []), *arguments, code=2)[1]
    assert told in said
    assert ("ES-101" in said) is ("wrong:" in said)


def test_of_several_sources_one_has_to_be_said(tmp_path: Path) -> None:
    place = write(tmp_path, history())
    for path in (tmp_path / "offsets").iterdir():
        path.write_text(path.read_text() + "\n" + path.read_text().split("\n")[2])
    assert "the query has the sources 0, 1; say which, with --source" in run(str(place), code=2)[1]
    assert planned(str(place), "--source", "1")["splits"] == 6


def test_live_clusters(east: FakeKafka) -> None:
    found = planned(*LIVE, "--readers", "2", "-o", "startingOffsets=earliest")
    (plan,) = found["plans"]
    assert (found["splits"], found["readersNow"], plan["moved"]) == (4, None, 0)
    assert found["lag"] == {f"default/{name}": 1_000 for name in ("clicks/0", "orders/0", "orders/1", "orders/2")}
    assert [one["lag"] for one in plan["readers"]] == [2_000, 2_000]
    assert east.closed == 1


def test_without_a_number_of_readers_it_is_that_of_the_processors(east: FakeKafka) -> None:
    found = planned(*LIVE)
    assert f"{found['readers']} readers: one per CPU of this machine" in found["notes"][-1]
    assert planned(*LIVE, "--readers", "2")["notes"] == []


def test_where_it_would_begin_counts(east: FakeKafka) -> None:
    assert set(planned(*LIVE)["lag"].values()) == {0}, "a new query begins at latest"
    assert set(planned(*LIVE, "-o", "start=-10")["lag"].values()) == {10}
    found = planned(*LIVE, "-o", 'start={"orders": {"0": 400, "*": "latest"}, "clicks": "earliest"}')
    assert list(found["lag"].values()) == [1_000, 600, 0, 0]


def test_a_topic_that_there_is_not(east: FakeKafka) -> None:
    told = run("-o", "kafka.bootstrap.servers=east:1", "-o", "subscribe=none", code=1)[1]
    assert "cluster 'default': topic 'none' does not exist" in told


def test_a_cluster_that_does_not_answer(east: FakeKafka) -> None:
    east.fail_with(ClusterUnreachable("default", "nobody is there"))
    assert "cluster 'default': nobody is there ES-201" in run(*LIVE, code=1)[1]


def test_a_metadata_file(east: FakeKafka, tmp_path: Path) -> None:
    file = tmp_path / "streams.json"
    clusters = [{"clusterId": "east", "bootstrapServers": "east:1", "topics": ["orders"]}]
    file.write_text(json.dumps([{"streamId": "s", "clusterMetadataList": clusters}]))
    result = CliRunner().invoke(evensplit, ["plan", "-o", f"metadata={file}", "--readers", "3", "--format", "json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["plans"][0]["owners"]) == {f"east/orders/{number}" for number in range(3)}
    file.write_text("{")
    assert "metadata of" in run("-o", f"metadata={file}", code=1)[1]


def test_metadata_that_cannot_be_read_leaves_those_of_the_checkpoint(
    east: FakeKafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = write(tmp_path, [state({("east", "orders"): [900, 800, 0]}, 3, "")])
    options = ("-o", f"metadata={tmp_path / 'none.yaml'}", "-o", "streams=s")
    found = planned(str(kept), *options)
    assert found["lag"] == {"east/orders/0": 100, "east/orders/1": 200, "east/orders/2": 1_000}
    assert "none.yaml" in found["notes"][0]
    shown, told = run(str(kept), *options)
    assert "Note: metadata of" in shown
    assert told == capfd.readouterr().err == ""


def test_a_checkpoint_beside_live_clusters(east: FakeKafka, tmp_path: Path) -> None:
    """New partitions join, what is gone leaves, and lag is from the positions that there are."""
    east.cluster_id = "kafka-default"
    kept = write(tmp_path, [state({("default", "orders"): [900, 800], ("default", "gone"): [5]}, 2, "")])
    found = planned(str(kept), *LIVE)
    assert found["lag"] == {
        "default/clicks/0": 1_000,
        "default/orders/0": 100,
        "default/orders/1": 200,
        "default/orders/2": 1_000,
    }
    shown, _ = run(str(kept), *LIVE)
    assert "lag" in shown.splitlines()[2]


def test_lag_of_a_checkpoint_alone(east: FakeKafka, tmp_path: Path) -> None:
    kept = write(tmp_path, [state({("east", "orders"): [900, 800, 0]}, 3, "")])
    assert list(planned(str(kept), "--lag")["lag"].values()) == [100, 200, 1_000]
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    found = json.loads(run(str(kept), "--lag", "--format", "json", code=1)[0])
    assert set(found["lag"].values()) == {None}
    assert "nobody is there; its partitions are those of the checkpoint" in found["notes"][0]
    assert [row[4].split()[0] for row in rows(run(str(kept), "--lag", code=1)[0])] == ["?"] * 3


def test_what_was_created_anew_is_read_from_its_beginning(east: FakeKafka, tmp_path: Path) -> None:
    kept = write(tmp_path, [state({("east", "clicks"): [990]}, 1)])
    assert planned(str(kept), "--lag")["lag"] == {"east/clicks/0": 1_000}, "its topic id is another one"


def test_another_cluster_than_that_of_the_checkpoint_is_refused(east: FakeKafka, tmp_path: Path) -> None:
    east.cluster_id = "kafka-west"
    kept = write(tmp_path, [state({("east", "orders"): [0, 0, 0]}, 1)])
    told = run(str(kept), "--lag", code=1)[1]
    assert "it is another cluster than before: expected Kafka's cluster id kafka-east, found kafka-west" in told
