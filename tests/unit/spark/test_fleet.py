"""Which clusters are to be read: answers of a metadata service, good, bad, late, and none at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from evensplit.core.model import ClusterState, Split, SplitId, Topics
from evensplit.core.state.offset_strategies import (
    AtTime,
    ByTopic,
    Committed,
    Earliest,
    FromEnd,
    Latest,
    Specific,
    Strategy,
)
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError
from evensplit.metadata import ClusterMetadata, Metadata, Stream
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from tests.support.clocks import Clock
from tests.support.metadata_answers import metadata

NONE = EnumeratorState()
EAST = ClusterMetadata("east", ("e:9092",), ("orders",), where="fleet.yaml, line 3")
WEST = ClusterMetadata("west", ("w:9092",), ("orders",), {"client.id": "x"})


class Service:
    """Answers what it was told to."""

    def __init__(self, *answers: Metadata | Exception) -> None:
        self.answers = list(answers)
        self.closed = False
        self.held: threading.Event | None = None

    def read(self) -> Metadata:
        if self.held is not None:
            assert self.held.wait(30)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def fleet(service: Service, clock: Callable[[], float], **options: str) -> MetadataPoller:
    wanted = parse_options({"metadata": "f.yaml", **options})
    return MetadataPoller(wanted, opened=lambda _: service, scheduler=Scheduler(monotonic=clock))


def ids(one: MetadataPoller) -> list[str]:
    return [cluster.id for cluster in one.clusters]


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


def test_without_metadata_the_options_are_the_only_answer_and_a_sure_one() -> None:
    one = MetadataPoller(parse_options({"kafka.bootstrap.servers": "e:9092", "subscribe": "t"}))
    one.refresh(NONE, patient=True)
    assert (ids(one), one.answers, one.confirmed) == (["default"], 1, True)


def test_clusters_of_the_metadata_are_options_of_their_own_over_those_outside(clock: Clock) -> None:
    one = fleet(Service(metadata(WEST, EAST)), clock, **{"kafka.client.id": "outside", "startingOffsets": "earliest"})
    one.refresh(NONE, patient=False)
    assert ids(one) == ["east", "west"], "there is nothing to read before the first answer, so it is waited for"
    assert [cluster.settings.client_id for cluster in one.clusters] == ["outside", "x"]
    assert [cluster.subscription for cluster in one.clusters] == [Topics(("orders",))] * 2
    assert [cluster.starting for cluster in one.clusters] == [Earliest()] * 2
    assert not one.confirmed


def test_it_is_asked_once_in_an_interval_and_not_waited_for(clock: Clock) -> None:
    service = Service(metadata(EAST), metadata(EAST, WEST))
    one = fleet(service, clock, discoveryInterval="10s")
    one.refresh(NONE, patient=True)
    first = one.clusters
    clock.now_s = 9.9
    one.refresh(NONE, patient=True)
    assert (one.answers, one.clusters is first) == (1, True)
    clock.now_s = 10.0
    service.held = threading.Event()
    one.refresh(NONE, patient=False)
    assert one.clusters is first
    service.held.set()
    one.refresh(NONE, patient=True)
    assert (one.answers, ids(one)) == (2, ["east", "west"])


def test_a_service_that_takes_longer_than_an_interval_has_not_failed(clock: Clock) -> None:
    service = Service(metadata(EAST), metadata(EAST, WEST))
    one = fleet(service, clock, discoveryInterval="1s", metadataTimeout="10s", metadataFailureThreshold="0")
    one.refresh(NONE, patient=True)
    service.held = threading.Event()
    for second in range(1, 10):
        clock.now_s = second
        one.refresh(NONE, patient=False)
        assert one.notice == ""
    service.held.set()
    one.refresh(NONE, patient=True)
    assert ids(one) == ["east", "west"]


def test_without_discovery_it_is_asked_once(clock: Clock) -> None:
    one = fleet(Service(metadata(EAST), metadata(WEST)), clock, discoveryInterval="0")
    one.refresh(NONE, patient=True)
    clock.now_s = 1e6
    one.refresh(NONE, patient=True)
    assert ids(one) == ["east"]


def test_without_discovery_it_is_asked_until_it_has_answered(clock: Clock) -> None:
    begun = EnumeratorState(1, {"west": ClusterState("west", ("w:9092",), False, True)}, begun=True)
    service = Service(OSError("down"), OSError("down"), metadata(EAST), metadata(WEST))
    one = fleet(service, clock, discoveryInterval="0")
    for second, answers in ((0, 0), (29, 0), (30, 0), (59, 0), (60, 1), (90, 1), (1e6, 1)):
        clock.now_s = second
        one.refresh(begun, patient=True)
        assert (one.answers, len(service.answers)) == (answers, 3 if second < 30 else 2 if second < 60 else 1)
    assert ids(one) == ["east"]


def test_an_unchanged_answer_is_the_same_object_and_counts(clock: Clock) -> None:
    one = fleet(Service(metadata(EAST)), clock, discoveryInterval="1s")
    one.refresh(NONE, patient=True)
    first = one.clusters
    clock.now_s = 1
    one.refresh(NONE, patient=True)
    assert (one.clusters is first, one.answers) == (True, 2)


def test_an_answer_with_gaps_adds_and_changes_and_removes_nothing(clock: Clock) -> None:
    moved = ClusterMetadata("west", ("elsewhere:9092",), ("orders",))
    one = fleet(Service(metadata(EAST, WEST), metadata(moved, complete=False)), clock, discoveryInterval="1s")
    one.refresh(NONE, patient=True)
    clock.now_s = 1
    one.refresh(NONE, patient=True)
    assert [cluster.settings.bootstrap_servers for cluster in one.clusters] == [("e:9092",), ("elsewhere:9092",)]


def test_a_failed_answer_leaves_the_last_one_and_is_said_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    broken = MetadataError("f.yaml", ["line 3: it is torn"])
    one = fleet(Service(metadata(EAST), broken, broken, metadata(EAST, WEST)), clock, discoveryInterval="1s")
    for second in range(4):
        clock.now_s = second
        one.refresh(NONE, patient=True)
        assert one.notice == ("metadata of f.yaml: line 3: it is torn" if second in (1, 2) else "")
    assert ids(one) == ["east", "west"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the metadata at f.yaml cannot be used; going on with 1 cluster as before",
        "the metadata at f.yaml can be read again",
    ]


def test_too_many_failures_in_a_row_are_an_error(clock: Clock) -> None:
    service = Service(metadata(EAST), OSError("no route"))
    one = fleet(service, clock, discoveryInterval="1s", metadataFailureThreshold="2")
    for second in range(3):
        clock.now_s = second
        one.refresh(NONE, patient=True)
    clock.now_s = 3
    with pytest.raises(MetadataError, match=r"3 attempts in a row failed, 2 may.*\n.*OSError: no route"):
        one.refresh(NONE, patient=True)


def test_without_any_answer_and_without_state_a_failure_is_an_error(clock: Clock) -> None:
    with pytest.raises(MetadataError, match="OSError: no route"):
        fleet(Service(OSError("no route")), clock).refresh(NONE, patient=True)


def test_a_restart_without_the_service_goes_on_with_what_the_checkpoint_knows(clock: Clock) -> None:
    splits = {
        key: Split(key, "id", 5, owner=0, removed_at_ms=removed)
        for key, removed in (
            (SplitId("east", "gone", 0), 7),
            (SplitId("east", "t", 0), None),
            (SplitId("east", "t", 1), None),
        )
    }
    clusters = {
        "east": ClusterState("east", ("e:9092",), False, True),
        "west": ClusterState("west", ("w:9092",), False, True, removed_at_ms=7),
    }
    state = EnumeratorState(1, clusters, splits, begun=True)
    service = Service(OSError("no route"), metadata(WEST))
    one = fleet(service, clock, discoveryInterval="1s", **{"kafka.client.id": "outside"})
    one.refresh(state, patient=False)
    assert [(c.id, c.settings.bootstrap_servers, c.settings.client_id, c.subscription) for c in one.clusters] == [
        ("east", ("e:9092",), "outside", Topics(("t",)))
    ]
    assert (one.answers, one.confirmed) == (0, False)
    clock.now_s = 1
    one.refresh(state, patient=True)
    assert (ids(one), one.answers) == (["west"], 1)


def test_clusters_that_cannot_be_understood_are_a_failed_answer_that_says_where(clock: Clock) -> None:
    wrong = ClusterMetadata("east", ("e:9092",), ("orders",), {"fetch.max.bytes": "many"}, where="fleet.yaml, line 3")
    with pytest.raises(MetadataError, match=r"fetch\.max\.bytes.*fleet\.yaml, line 3"):
        fleet(Service(metadata(wrong)), clock).refresh(NONE, patient=True)


def test_streams_that_are_asked_for_and_not_there_are_missing(clock: Clock) -> None:
    one = fleet(Service(metadata(EAST)), clock, streams="s,t")
    one.refresh(NONE, patient=True)
    assert (ids(one), one.missing) == (["east"], ("stream 't' is not in the metadata",))


def test_streams_on_one_cluster_start_each_by_their_own_word(clock: Clock) -> None:
    orders = ClusterMetadata("east", ("e:9092",), ("orders",), starting_offsets="earliest")
    clicks = ClusterMetadata("east", ("e:9092",), ("clicks",))
    answer = Metadata((Stream("a", (orders,)), Stream("b", (clicks,))))
    one = fleet(Service(answer), clock)
    one.refresh(NONE, patient=True)
    starting = one.clusters[0].starting
    assert isinstance(starting, ByTopic)
    assert dict(starting.topics) == {"orders": Earliest(), "clicks": Latest()}


@pytest.mark.parametrize(
    "outside, silent",
    [
        ({"startingGroup": "g"}, Committed("g", Earliest())),
        ({"startingGroup": "g", "start": "-10"}, Committed("g", FromEnd(10))),
        ({"startingTimestamp": "7"}, AtTime(7, "error")),
        ({"startingOffsets": '{"clicks": {"0": 5}}'}, Specific({("clicks", 0): 5})),
    ],
)
@pytest.mark.parametrize("said", ["earliest", {"orders": {"0": 3}}, {}])
def test_a_silent_stream_beside_another_one_starts_as_it_does_alone(
    clock: Clock, outside: dict[str, str], silent: Strategy, said: str | dict[str, dict[str, int]]
) -> None:
    orders = ClusterMetadata("east", ("e:9092",), ("orders",), starting_offsets=said)
    clicks = ClusterMetadata("east", ("e:9092",), ("clicks",))
    starts = []
    for streams in ((Stream("b", (clicks,)),), (Stream("a", (orders,)), Stream("b", (clicks,)))):
        one = fleet(Service(Metadata(streams)), clock, **outside)
        one.refresh(NONE, patient=True)
        starts.append(one.clusters[0].starting)
    alone, beside = starts
    assert isinstance(beside, ByTopic)
    assert (alone, beside.topics["clicks"]) == (silent, silent)


def test_streams_on_one_cluster_end_all_or_none(clock: Clock) -> None:
    orders = ClusterMetadata("east", ("e:9092",), ("orders",), ending_offsets="latest")
    clicks = ClusterMetadata("east", ("e:9092",), ("clicks",))
    answer = Metadata((Stream("a", (orders,)), Stream("b", (clicks,))))
    with pytest.raises(MetadataError, match=r"end some streams of it and not others \(clicks\)"):
        fleet(Service(answer), clock).refresh(NONE, patient=True)


def test_a_cluster_of_a_checkpoint_is_reached_where_it_was_and_where_it_may_be_now(clock: Clock) -> None:
    one = fleet(Service(metadata(WEST)), clock, **{"kafka.client.id": "outside"})
    one.refresh(NONE, patient=True)
    known = one.reached(ClusterState("west", ("before:9092", "w:9092"), False))
    assert (known.bootstrap_servers, known.client_id) == (("before:9092", "w:9092"), "x")
    gone = one.reached(ClusterState("gone", ("g:9092",), False))
    assert (gone.bootstrap_servers, gone.client_id) == (("g:9092",), "outside")


GUARDED = {"isolation.level": "read_committed", "security.protocol": "SSL"}


def test_a_cluster_of_a_checkpoint_that_is_listed_under_another_name_is_known_by_a_server(clock: Clock) -> None:
    renamed = ClusterMetadata("west", ("w:9092", "new:9092"), ("orders",), GUARDED)
    one = fleet(Service(metadata(EAST, renamed)), clock)
    one.refresh(NONE, patient=True)
    found = one.reached(ClusterState("default", ("before:9092", "w:9092"), False))
    assert found.bootstrap_servers == ("before:9092", "w:9092", "new:9092")
    assert (found.read_committed, found.security) == (True, one.clusters[1].settings.security)


@pytest.mark.parametrize("own", [{name: value} for name, value in GUARDED.items()], ids=str)
def test_a_cluster_of_a_checkpoint_that_nothing_is_known_of_is_not_read_with_less(
    clock: Clock, own: dict[str, str]
) -> None:
    one = fleet(Service(metadata(EAST, ClusterMetadata("west", ("w:9092",), ("orders",), own))), clock)
    one.refresh(NONE, patient=True)
    with pytest.raises(MetadataError, match=r"cluster 'gone' of the checkpoint: .* at g:9092, .* finished the batch"):
        one.reached(ClusterState("gone", ("g:9092",), False))


def test_closing_lets_go_of_the_service(clock: Clock) -> None:
    service = Service(metadata(EAST))
    one = fleet(service, clock)
    one.close()
    one.refresh(NONE, patient=True)
    one.close()
    assert service.closed
