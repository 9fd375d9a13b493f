"""The source at its edges: answers with gaps, restarts in the middle, slow look-ups, clusters that come too late."""

from __future__ import annotations

import threading

import pytest

from evensplit.core.model import Split, SplitId
from evensplit.core.state.offset_strategies import Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable, MetadataError
from evensplit.metadata import Metadata, Stream
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, idle_until, ranges, restored
from tests.support.metadata_answers import metadata
from tests.support.metadata_hosts import Service, active, cluster, go_on, host, kafka
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.mark.parametrize("retention, batch", [("7d", {}), ("1h", {"west/b/0": (0, 10)})])
def test_the_retention_that_a_restart_asks_for_holds_from_its_first_batch_on(
    clock: Clock, retention: str, batch: dict[str, tuple[int, int]]
) -> None:
    fakes = {"east": kafka("east", "a"), "west": kafka("west", "b")}
    both = metadata(cluster("east", "a"), cluster("west", "b"))
    service = Service(both)
    one = host(fakes, service, clock, removedRetention="1h", startingOffsets="earliest")
    state = one.plan(NONE, limited=False)
    service.answer = metadata(cluster("east", "a"))
    state = go_on(one, state, clock)
    assert active(state) == ["east/a/0"]
    clock.now_s += 7200
    again = host(fakes, Service(both), clock, removedRetention=retention)
    assert ranges(restored(state), again.plan(restored(state), limited=False)) == batch


@pytest.mark.parametrize("restart", [False, True])
def test_an_answer_with_gaps_removes_neither_clusters_nor_topics(clock: Clock, restart: bool) -> None:
    fakes = {"east": kafka("east", "a", "b"), "west": kafka("west", "c")}
    service = Service(metadata(cluster("east", "a", "b"), cluster("west", "c")))
    one = host(fakes, service, clock)
    state = one.plan(NONE, limited=False)
    service.answer = metadata(cluster("east", "a"), complete=False)
    if restart:
        one, state = host(fakes, service, clock), restored(state)
    fakes["west"].append("c", 0, 5)
    fakes["east"].append("b", 0, 5)
    after = go_on(one, state, clock)
    assert active(after) == ["east/a/0", "east/b/0", "west/c/0"]
    assert [split.position for split in after.splits.values()] == [10, 15, 15], "and they are read all the time"


@pytest.mark.parametrize(
    "starting, own", [(None, {"west/b/0": (0, 10)}), ("latest", {}), ("-3", {"west/b/0": (7, 10)})]
)
def test_on_a_later_cluster_only_the_topics_that_have_a_start_of_their_own_start_there(
    clock: Clock, starting: str | None, own: dict[str, tuple[int, int]]
) -> None:
    """The others are later than the query, and read from their beginning, whatever starts beside them."""
    fakes = {"east": kafka("east", "a"), "west": kafka("west", "b", "c")}
    service = Service(metadata(cluster("east", "a")))
    one = host(fakes, service, clock, startingGroup="g")
    fakes["west"].commit("g", "c", 0, 4)
    state = one.plan(NONE, limited=False)
    other = Stream("other", (cluster("west", "b", starting=starting),))
    service.answer = Metadata((Stream("s", (cluster("east", "a"), cluster("west", "c"))), other))
    clock.now_s += 11
    wait_for(one.has_news)
    after = one.plan(state, limited=False)
    assert ranges(state, after) == {"west/c/0": (0, 10), **own}


def test_a_topic_that_is_added_again_starts_where_its_log_begins_by_then(clock: Clock) -> None:
    fakes = {"east": kafka("east", "a", "b")}
    service = Service(metadata(cluster("east", "a", "b")))
    one = host(fakes, service, clock, removedRetention="0", startingOffsets="earliest")
    state = one.plan(NONE, limited=False)
    service.answer = metadata(cluster("east", "a"))
    state = go_on(one, state, clock)
    assert active(state) == ["east/a/0"]
    fakes["east"].append("b", 0, 90)
    fakes["east"].delete_records("b", 0, 50)
    service.answer = metadata(cluster("east", "a", "b"))
    clock.now_s += 11
    wait_for(one.has_news)
    assert ranges(state, one.plan(state, limited=False)) == {"east/b/0": (50, 100)}


def test_without_the_metadata_nothing_that_starts_by_its_word_is_given_a_start(clock: Clock) -> None:
    fakes = {"east": kafka("east", "a"), "west": kafka("west", "c")}
    answer = metadata(cluster("east", "a"), cluster("west", "c", starting="timestamp:0"))
    state = host(fakes, Service(answer), clock).plan(NONE, limited=False)
    key = SplitId("west", "c", 0)
    pending = {**state.splits, key: Split(key, state.splits[key].topic_id, initial=True)}
    before = EnumeratorState(1, state.clusters, pending, begun=True, assigned_readers=(0,))
    service = Service(OSError("down"))
    one = host(fakes, service, clock)
    between = one.plan(restored(before), limited=False)
    assert between.splits[key].position is None
    service.answer = answer
    assert go_on(one, between, clock).splits[key].position == 10


def test_a_first_answer_without_a_cluster_that_has_no_splits_yet_is_not_the_second(clock: Clock) -> None:
    fakes = {"east": kafka("east", "a"), "west": FakeKafka("west")}
    state = host(fakes, Service(metadata(cluster("east", "a"))), clock).plan(NONE, limited=False)
    both = host(fakes, Service(metadata(cluster("east", "a"), cluster("west", "later"))), clock)
    state = both.plan(restored(state), limited=False)
    assert "west" in state.clusters
    service = Service(OSError("down"))
    one = host(fakes, service, clock)
    state = one.plan(restored(state), limited=False)
    service.answer = metadata(cluster("east", "a"))
    clock.now_s += 11
    wait_for(one.has_news)
    assert one.plan(state, limited=False).clusters["west"].removed_at_ms is None


@pytest.mark.parametrize("later", [metadata(cluster("east", "a"), complete=False), OSError("down")])
def test_a_run_to_the_end_does_not_wait_for_ever_until_it_is_sure(
    later: Metadata | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """One complete answer lacks a cluster, and all that come after it say nothing about that."""

    class Passing(Clock):
        def __call__(self) -> float:
            self.now_s += 0.5
            return self.now_s

    class Once(Service):
        def read(self) -> Metadata:
            found, self.answer = super().read(), later
            return found

    fakes = {"east": kafka("east", "a"), "west": kafka("west", "c")}
    both = metadata(cluster("east", "a"), cluster("west", "c"))
    state = host(fakes, Service(both), Clock()).plan(NONE, limited=False)
    fakes["east"].append("a", 0, 5)
    one = host(fakes, Once(metadata(cluster("east", "a"))), Passing())
    after = one.plan(restored(state), limited=False, fix_ends=True)
    assert ranges(state, after) == {"east/a/0": (10, 15)}
    assert active(after) == ["east/a/0", "west/c/0"], "one answer removes nothing"
    said = [notice for notice in one.report().notices if "no second one" in notice]
    assert said == [
        "west: missing from a complete listing, and no second one confirmed it within 30 s (3 x discoveryInterval); "
        "positions are kept, and the next run looks again"
    ]
    assert said[0] in caplog.text


def test_without_discovery_a_service_that_is_down_at_a_restart_is_asked_again(clock: Clock) -> None:
    """Its first answer is the only one, so it is sure, however late it comes."""
    fakes = {"east": kafka("east", "a", "b"), "west": kafka("west", "c"), "new": kafka("new", "d")}
    first = metadata(cluster("east", "a", "b"), cluster("west", "c"))
    state = host(fakes, Service(first), clock).plan(NONE, limited=False)
    service = Service(OSError("down"))
    one = host(fakes, service, clock, discoveryInterval="0")
    state = one.plan(restored(state), limited=False)
    assert active(state) == ["east/a/0", "east/b/0", "west/c/0"]
    service.answer = metadata(cluster("east", "a"), cluster("new", "d"))
    clock.now_s += 31
    wait_for(one.has_news)
    assert active(one.plan(state, limited=False)) == ["east/a/0", "new/d/0"]


def test_a_service_that_hangs_has_failed(clock: Clock) -> None:
    free = threading.Event()

    class Hung(Service):
        def read(self) -> Metadata:
            assert free.wait(30)
            return super().read()

    fakes = {"east": kafka("east", "a")}
    state = host(fakes, Service(metadata(cluster("east", "a"))), clock).plan(NONE, limited=False)
    one = host(fakes, Hung(metadata(cluster("east", "a"))), clock, metadataTimeout="50ms", metadataFailureThreshold="2")
    state = one.plan(restored(state), limited=False)
    assert "it has not answered within 50 ms (metadataTimeout)" in one.report().notices[0]
    clock.now_s += 11
    state = one.plan(state, limited=False)
    clock.now_s += 11
    with pytest.raises(MetadataError, match="3 attempts in a row failed, 2 may"):
        one.plan(state, limited=False)
    free.set()


def test_what_may_be_secret_in_a_location_is_nowhere(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    location = "https://user:s3cret@host/fleet?key=s3cret"
    options = parse_options({"metadata": location})
    service = Service(OSError("down"))
    one = Coordinator(
        options,
        readers_default=1,
        starting_default=Latest(),
        opened=lambda _: service,
        scheduler=Scheduler(clock, clock),
    )
    with pytest.raises(MetadataError) as caught:
        one.plan(NONE, limited=False)
    assert "https://host/fleet" in str(caught.value)
    assert "s3cret" not in f"{caught.value} {caught.value!r} {options!r} {caplog.text}"


def test_what_a_users_own_class_was_given_is_nowhere(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    fakes = {"east": kafka("east", "a")}
    service = Service(metadata(cluster("east", "a")))
    one = host(fakes, service, clock, **{"metadata": "my.Registry", "metadata.password": "hunter2-hunter2"})
    state = one.plan(NONE, limited=False)
    for error, expected in (
        (OSError("401 for https://registry/x?token=hunter2-hunter2"), "OSError: 401 for https://registry/x?token=<"),
        (MetadataError("https://registry/x?token=hunter2-hunter2", ["401"]), "of https://registry/x?token=<"),
    ):
        service.answer = error
        clock.now_s += 11

        def is_said(said: str = expected) -> bool:
            one.plan(state, limited=False)
            return f"{said}metadata.password>" in "".join(one.report().notices)

        wait_for(is_said)
    assert "hunter2" not in f"{one.report()} {caplog.text}"


def test_a_start_that_is_looked_up_slowly_reaches_an_idle_query() -> None:
    east, west = kafka("east", "t"), Held("west", "t")
    first = Source(east).plan(NONE)
    west.may_look_up.clear()
    west.append("t", 0, 10, timestamp_ms=1000)
    source = Source(east, west, each={"west": {"startingTimestamp": "500"}}, discoveryInterval="30s")
    state = source.plan(first)
    state = source.plan(state)
    west.may_look_up.set()
    key = SplitId("west", "t", 0)
    after = idle_until(
        source.coordinator, state, lambda found: key in found.splits and found.splits[key].position == 10
    )
    assert after.splits[key].owner is not None


def test_without_discovery_a_new_cluster_is_listed_until_one_listing_was_taken_in() -> None:
    """Its whole answer came between two batches, and a later one had a gap when the next batch was planned."""
    east, west = kafka("east", "t"), kafka("west", "t")
    first = Source(east).plan(NONE)
    key = SplitId("west", "t", 0)
    own = {"west": {"startingOffsets": "earliest"}}
    source = Source(east, west, each=own, discoveryInterval="0")

    def polled() -> None:
        """West has answered as it is now, and nobody has looked at that yet."""
        monitor = source.coordinator._monitor
        asked = monitor.polls

        def answered() -> bool:
            source.coordinator.has_news()
            return monitor.answered.get("west", 0) > asked

        wait_for(answered, what="an answer of west")

    west.hide_leader("t", 0)
    state = source.plan(first)
    west.recover()
    polled()
    west.hide_leader("t", 0)
    polled()
    state = source.plan(state)
    assert key not in state.splits
    west.recover()

    def planned() -> bool:
        nonlocal state
        state = source.plan(state)
        return key in state.splits

    wait_for(planned, what="the new cluster")
    assert ranges(first, state) == {"west/t/0": (0, 10)}


def test_a_left_out_cluster_that_answers_after_all_is_taken_in() -> None:
    """It is away in the first look of a run to the end, and back in a later one."""
    east, west = kafka("east", "t", "t2"), kafka("west", "t")
    first = Source(east).plan(NONE)
    east.delete_topic("t2")
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    source = Source(east, west, allowUnreachable="true", discoveryInterval="200ms", failOnDataLoss="false")
    threading.Timer(0.05, west.recover).start()
    after = source.plan(first, fix_ends=True)
    assert after.splits[SplitId("west", "t", 0)].position == 10
    assert not after.splits[SplitId("east", "t2", 0)].active


def test_a_run_to_the_end_does_not_wait_for_what_it_leaves_out() -> None:
    east, west = kafka("east", "t"), kafka("west", "t", "t2")
    first = Source(east, west).plan(NONE)
    west.delete_topic("t2")

    looks = 0
    listing = west.list_partitions

    def once(subscription: object) -> object:
        nonlocal looks
        looks += 1
        if looks > 2:
            west.fail_with(ClusterUnreachable("west", "nobody is there"))
        return listing(subscription)  # type: ignore[arg-type]

    west.list_partitions = once  # type: ignore[assignment,method-assign]
    source = Source(east, west, allowUnreachable="true", discoveryInterval="30s", failOnDataLoss="false")
    after = source.plan(first, fix_ends=True)
    assert after.splits[SplitId("west", "t2", 0)].active
    assert source.coordinator.report().left_out == ("west",)


def test_partitions_without_a_leader_are_said(caplog: pytest.LogCaptureFixture) -> None:
    east = kafka("east", "t")
    source = Source(east)
    first = source.plan(NONE)
    east.hide_leader("t", 0)
    wait_for(lambda: source.plan(first) is first and source.coordinator.report().notices)
    assert (
        source.coordinator.report()
        .notices[0]
        .startswith(
            "cluster 'east': the leaders of 1 partition give no offsets; its known partitions keep their position"
        )
    )


def test_a_cluster_that_has_not_answered_yet_is_said() -> None:
    east, west = kafka("east", "t"), Held("west", "t")
    first = Source(east, west).plan(NONE)
    west.may.clear()
    source = Source(east, west, clusterWait="10ms")
    source.plan(first)
    assert source.coordinator.report().unreachable == {
        "west": "cluster 'west': it has not answered yet; asked at west:9092"
    }
    west.may.set()
    wait_for(lambda: source.plan(first) is not None and not source.coordinator.report().unreachable)
