"""Clusters with new names: how they are told, and that stories go on."""

from __future__ import annotations

from dataclasses import replace

from evensplit.core.model import Held, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.edits import Edit
from evensplit.core.state.observation import Report
from evensplit.explain.changes import Changes
from evensplit.observe.recorder import Recorder
from evensplit.observe.timeline import BATCH_HAPPENINGS_MAX, Kind, of_changes
from tests.support.batches import orders, taken

ORDERS = SplitId("east", "orders", 0)


def test_names_that_many_clusters_have_got_are_counted() -> None:
    """A name that a command gave is told with the command."""
    names = tuple((f"c{number}", f"d{number}") for number in range(30))
    told = Edit("rename-cluster", "c0 d0", 1, renamed=(("c0", "d0"),))
    edited, *found = of_changes(7, 5, Changes((), (), renamed=names, edits=(told,)))
    assert edited.kind is Kind.EDITED
    assert {one.kind for one in found} == {Kind.RENAMED}
    assert len(found) == BATCH_HAPPENINGS_MAX
    assert found[0].text.startswith("cluster c1 is now called d1: it is the same Kafka cluster")
    assert (found[0].clusters, found[-1].text) == (("d1",), "10 more clusters have new names")


def test_a_story_goes_on_over_a_new_name_of_the_cluster() -> None:
    """Also what is known of the end of its log then."""
    recorder, script = Recorder(), orders({"east": 1})
    taken(recorder, [script.batch()])
    script.write(5)
    script.read(5)
    one = script.batch()
    known = one.end.clusters["east"]
    held = replace(one.end, clusters={"east": replace(known, kafka_id="K")}, held=(Held("maxOffsetsPerTrigger"),))
    recorder.add(replace(one, end=held, report=Report({ORDERS: 5})), encode(held))
    north = ORDERS._replace(cluster="north")
    split = held.splits[ORDERS]._replace(id=north)
    named = {"north": replace(known, id="north", kafka_id="K")}
    end = replace(held, clusters=named, splits={north: split}, held=(), revision=held.revision + 1)
    recorder.add(replace(one, number=one.number + 1, start=held, end=end, report=Report()), encode(end))
    story = recorder.story(one.source, ORDERS)
    assert story is not None
    assert story.split == north
    assert [chapter.sentences() for chapter in story.chapters[-2:]] == [
        ("offsets 0 to 4 read by reader 0",),
        ("was called east/orders/0 before: the query found cluster east under the name north, by Kafka's cluster id",),
    ]
    assert recorder.story(one.source, north) == story
