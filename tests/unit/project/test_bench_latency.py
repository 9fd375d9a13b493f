"""The benchmark of first rows and small batches: spans, recordings, what follows from figures, tables and pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.latency import jfr
from bench.latency.measure import medians
from bench.latency.outcome import Batches, Part, Ratio, Results, Start, ratio, read
from bench.latency.plan import BATCH_SIDES, FULL, PLAN, REGISTER, START_SIDES, WATCHED, chosen
from bench.latency.report import BEGIN, END, goal, tables, write_docs
from bench.latency.spans import (
    USER,
    Kind,
    Span,
    Timeline,
    condensed,
    in_rows,
    lanes,
    median_batch,
    of_hook,
    of_phases,
    within,
)
from bench.latency.timeline import WIDTH, lines, picture
from bench.peer.floor import floor_schema
from bench.peer.plan import FLOOR, OURS, SPARK
from bench.peer.report import between
from bench.sampler import PARTS

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
HOOK = ROOT / "bench" / "latency" / "hook"


def span(
    name: str, start: float, took: float, row: str = "row", kind: Kind = Kind.RUN, cpu: float | None = None
) -> Span:
    return Span(row, name, kind, start, took, cpu)


def hooked(pid: int, ppid: int, name: str, start: int, end: int) -> str:
    document = {
        "pid": pid,
        "ppid": ppid,
        "name": name,
        "start_ns": start * 10**6,
        "end_ns": end * 10**6,
        "cpu_s": 0.002,
    }
    return json.dumps(document)


def some_results() -> Results:
    found = Results("2 processors")
    found.start = {
        SPARK: Start([10.0, 12.0], [6.0, 6.0], [1.0, 1.0]),
        OURS: Start([10.0, 12.0], [5.0, 5.0], [2.0, 2.0]),
        FLOOR: Start([9.0, 9.0], [6.0, 6.0], [1.0, 1.0]),
    }
    phases = {"triggerExecution": 100.0, "latestOffset": 5.0, "walCommit": 40.0}
    for cores in (1, 4):
        found.batches[cores] = {
            side: Batches([[took, took + 1, took + 2]] * 2, [phases] * 2, [dict.fromkeys(PARTS, 7.0)] * 2)
            for side, took in ((SPARK, 99.0), (OURS, 79.0), (REGISTER, 83.0))
        }
    found.start_lines = [Timeline(SPARK, 1, 900.0, [span("load()", 0, 900, "steps", Kind.PHASE)])]
    found.start_lines.append(Timeline(OURS, 1, 1000.0, [span("a & <b>", 0, 990), span("in it", 10, 20, cpu=3.0)]))
    found.batch_lines = [Timeline(OURS, 2, 100.0, [span("task", 50, 25)])]
    found.parts = {name: Part("2026-02-03T04:05:06+00:00", "full", [0.5, 1.5]) for name in PLAN}
    return found


def test_the_plan_has_all_sides_and_enough_rounds() -> None:
    assert [side.name for side in START_SIDES] == [SPARK, OURS, REGISTER, FLOOR]
    assert [side.name for side in BATCH_SIDES] == [SPARK, OURS, REGISTER, WATCHED, FLOOR]
    assert min(FULL.start_rounds, FULL.batch_rounds) >= 5
    assert (FULL.batches, FULL.skip, FULL.cores) == (20, 3, (1, 2, 4))
    assert chosen("") == chosen("timelines, start,batches") == ["start", "batches", "timelines"]
    with pytest.raises(ValueError, match="names begin; the parts are: start, batches, timelines"):
        chosen("begin,start")


def test_what_each_side_is_asked_for() -> None:
    asks = {side.name: side.asks("host:1", "topic", 2, latest=True, skip=3) for side in BATCH_SIDES}
    assert asks[OURS]["options"] == {
        "kafka.bootstrap.servers": "host:1",
        "subscribe": "topic",
        "readers": "2",
        "startingOffsets": "latest",
    }
    assert "readers" not in asks[SPARK]["options"]
    # It has as many as the session can run tasks.
    assert "readers" not in asks[REGISTER]["options"]
    assert [asks[side]["register"] for side in (SPARK, OURS, REGISTER)] == [None, None, {}]
    assert asks[WATCHED]["register"] == {"metrics_port": 0, "dashboard_port": 0}
    assert asks[FLOOR]["options"] == {"tasks": "1"}
    assert {one["skip"] for one in asks.values()} == {3}
    assert len({side.slug for side in BATCH_SIDES}) == len(BATCH_SIDES)


def test_the_floor_has_the_columns_of_records() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    from evensplit.kafka.columns import KAFKA_COLUMNS
    from evensplit.kafka.fetch.columns import row_schema

    expected = types.from_arrow_schema(row_schema(KAFKA_COLUMNS))
    assert [(one.name, one.dataType) for one in floor_schema()] == [(one.name, one.dataType) for one in expected]


def test_spans_of_processes_are_in_rows_by_what_spark_has_them_do() -> None:
    found = of_hook(
        [
            hooked(1, 0, "python bench.peer.worker local[1]", 100, 120),
            hooked(30, 9, "python pyspark.daemon pyspark.worker", 200, 210),
            hooked(32, 30, "fork", 230, 231),
            hooked(31, 30, "fork", 220, 221),
            hooked(31, 30, "broker: Fetch", 225, 226),
            hooked(40, 9, "python pyspark.sql.streaming.python_streaming_source_runner", 300, 310),
            hooked(41, 9, "python setup.py", 300, 310),
            hooked(42, 9, "python -c", 305, 310),
            hooked(50, 9, "python pyspark.daemon pyspark.sql.worker.lookup_data_sources", 400, 410),
            hooked(51, 50, "import numpy", 420, 430),
        ],
        user_pid=1,
        begin_ns=100 * 10**6,
    )
    assert [(one.row, one.name.split()[0], one.kind, one.start_ms, one.took_ms) for one in found] == [
        (USER, "python", Kind.BEGIN, 0, 20),
        ("task 1", "python", Kind.BEGIN, 100, 10),
        ("task 1", "fork", Kind.BEGIN, 120, 1),
        ("task 1", "broker:", Kind.BROKER, 125, 1),
        ("task 2", "fork", Kind.BEGIN, 130, 1),
        ("source", "python", Kind.BEGIN, 200, 10),
        ("version of Python", "python", Kind.BEGIN, 205, 5),
        ("look up sources", "python", Kind.BEGIN, 300, 10),
        ("look up sources", "import", Kind.IMPORT, 320, 10),
    ]
    assert {one.cpu_ms for one in found} == {2.0}


def test_a_window_cuts_spans() -> None:
    spans = [span("before", 0, 10), span("begins", 5, 10, cpu=1.0), span("in", 12, 0, cpu=2.0), span("ends", 18, 10)]
    found = within([*spans, span("after", 20, 5)], 10, 10)
    assert [(one.name, one.start_ms, one.took_ms, one.cpu_ms) for one in found] == [
        ("begins", 0, 5, None),
        ("in", 2, 0, 2.0),
        ("ends", 8, 2, None),
    ]


def test_short_spans_become_one_or_are_left_out() -> None:
    spans = [span("a", 0, 1, cpu=1.0), span("a", 2, 1, cpu=2.0), span("a", 9, 1), span("b", 0, 1), span("c", 0, 2)]
    spans += [span("chmod", at, 0.1, kind=Kind.COMMAND) for at in (0, 10, 30)]
    found = {(one.label, one.start_ms): one for one in condensed(spans, 1.5, 2)}
    assert set(found) == {("a (2)", 0), ("c", 0), ("chmod (2)", 0), ("chmod", 30)}
    assert (found["a (2)", 0].took_ms, found["a (2)", 0].cpu_ms) == (3, 3.0)
    # One within another is no successor.
    assert len(condensed([span("a", 0, 10), span("a", 2, 3)], 1, 5)) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(1, 20)).map(lambda one: span(*one)),
        max_size=30,
    )
)
def test_no_span_overlaps_another_of_its_lane_and_none_is_lost(spans: list[Span]) -> None:
    found = lanes(spans)
    assert sorted((one for lane in found for one in lane), key=repr) == sorted(spans, key=repr)
    for lane in found:
        assert all(one.end_ms <= other.start_ms for one, other in pairwise(lane))
    assert sum(one.times for one in condensed(spans, 0, 3)) == len(spans)


def test_rows_are_in_order() -> None:
    spans = [span("late", 9, 1, "x"), span("first", 0, 1, "y"), span("wide", 5, 3, "x"), span("step", 7, 1, "steps")]
    assert [one.name for one in in_rows(spans, ("steps", "none"))] == ["step", "first", "wide", "late"]


def test_the_batch_in_the_middle() -> None:
    assert median_batch([9, 1, 2, 3]) == 2
    assert median_batch([1]) == 0
    # Only the last ones count.
    assert median_batch([5.0] * 20 + [10, 30, 20], last=3) == 22
    with pytest.raises(ValueError, match="no batches"):
        median_batch([])


def test_phases_follow_the_beginning_or_the_end() -> None:
    found = list(
        of_phases({"triggerExecution": 100, "latestOffset": 10, "walCommit": 20, "addBatch": 30, "commitOffsets": 5})
    )
    assert [(one.name, one.start_ms, one.took_ms) for one in found] == [
        ("latestOffset", 0, 10),
        ("walCommit", 10, 20),
        ("addBatch", 65, 30),
        ("commitOffsets", 95, 5),
    ]


def test_times_and_durations_of_recordings() -> None:
    assert jfr.time_ns("1970-01-01T00:00:02.5Z") == 2_500_000_000
    assert jfr.time_ns("1970-01-01T01:00:00.000000007+01:00") == 7
    assert [jfr.duration_ns(text) for text in ("PT0S", "PT0.000211195S", "PT1M2.5S", "PT1H")] == [
        0,
        211_195,
        62_500_000_000,
        3_600_000_000_000,
    ]
    for read_it, text in ((jfr.time_ns, "yesterday"), (jfr.duration_ns, "1 s")):
        with pytest.raises(ValueError, match="is no"):
            read_it(text)


def event(kind: str, thread: str, at_ms: int, took_ms: int = 0, **values: Any) -> dict[str, Any]:
    values |= {"startTime": f"1970-01-01T00:00:00.{at_ms:03}Z", "duration": f"PT0.{took_ms:03}S"}
    return {"type": f"jdk.{kind}", "values": {**values, "eventThread": {"javaName": thread} if thread else None}}


def test_what_threads_of_the_jvm_did() -> None:
    query, task = "stream execution thread for [id = 1]", "Executor task launch worker-0"
    unique = "userFiles-b52abbdc-5bdb-47f6-9326-6f74e72d7ac5"
    events = [
        event("ProcessStart", query, 10, command="/usr/bin/chmod 644 file"),
        event("FileRead", query, 11, 2, path=None),
        event("FileRead", query, 14, 1, path="/a.jar"),
        event("FileWrite", query, 20, 1, path="/q/offsets/1"),
        event("FileWrite", query, 22, 1, path=None),
        event("FileForce", query, 24, 3, path=f"/q/{unique}/1"),
        event("SocketWrite", task, 30, 1, port=9092),
        event("SocketRead", task, 35, 1, port=9092),
        event("SocketRead", task, 36, 2, port=7),
        event("SocketRead", task, 39, 1, port=9092),
        event("SocketWrite", task, 50, 1, port=9092),
        event("SocketRead", "Thread-3", 5, 1, port=1),
        event("SocketRead", "Thread-3", 8, 1, port=1),
        event("SocketRead", "Thread-3", 9, 4, port=2),
        event(
            "ProcessStart", "Thread-3", 60, command="python3 -m pyspark.daemon pyspark.sql.worker.lookup_data_sources"
        ),
        event("SocketRead", "kafka-producer-network-thread", 70, 4, port=9092),
        event("SocketRead", "", 70, 4, port=9092),
    ]
    parsed = jfr.parsed({"recording": {"events": events[::-1]}})
    found = sorted(jfr.spans(parsed, 9092, 0), key=lambda one: (one.row, one.start_ms))
    assert [(one.row, one.name, one.start_ms, one.took_ms) for one in found] == [
        (jfr.DRIVER, "waits for Python", 9, 4),
        (jfr.DRIVER, "start python3 lookup_data_sources", 60, 0),
        (jfr.QUERY, "chmod", 10, 3),
        (jfr.QUERY, "loads classes", 14, 1),
        (jfr.QUERY, "write in offsets", 20, 1),
        (jfr.QUERY, "fsync in userFiles", 24, 3),
        (jfr.TASKS, "broker", 30, 10),
        (jfr.TASKS, "waits for Python", 36, 2),
        (jfr.TASKS, "broker", 50, 1),
    ]
    assert {one.cpu_ms for one in found} == {None}


def test_ratios_are_of_rounds() -> None:
    assert ratio([10, 30, 20], [10, 10, 5], 3.0) == Ratio(3, 1, 4, 3.0)
    assert ratio([1], []) is None
    assert goal(ratio([2, 4], [2, 2], 1.2)) == "1.50 [1.00 to 2.00], ≤ 1.2: **missed**"
    assert goal(ratio([2], [2], 1.0)) == "1.00 [1.00 to 1.00], ≤ 1: reached"
    assert goal(ratio([2], [1])) == "2.00 [2.00 to 2.00]"
    assert (Ratio(1, 1, 1).reached, Ratio(1, 1, 1, 1).reached, Ratio(1.1, 1, 1, 1).reached) == (None, True, False)
    assert medians([{"a": 1, "b": 3}, {"a": 3}, {"a": 2}]) == {"a": 2, "b": 0}


def test_the_tables() -> None:
    made = tables(some_results())
    none = "–"  # noqa: RUF001
    for part in (
        f"| Spark's own | 11.00 [10.00 to 12.00] | {none} | 5.00 [4.00 to 6.00] | {none} |",
        "| evensplit | 11.00 [10.00 to 12.00] | 1.00 [1.00 to 1.00], ≤ 1.05: reached | 6.00 [5.00 to 7.00] |"
        " 1.21 [1.17 to 1.25], ≤ 1.2: **missed** | 2.00 [2.00 to 2.00] | 2.00 [2.00 to 2.00] |",
        "| floor | 9.00 [9.00 to 9.00] | 0.82 [0.75 to 0.90] |",
        "| `local[1]` | evensplit | 80 [80 to 80] | 0.80 [0.80 to 0.80], ≤ 1: reached |",
        "| `local[1]` | evensplit, register | 84 [84 to 84] | 0.84 [0.84 to 0.84], ≤ 1: reached |"
        " 1.05 [1.05 to 1.05], ≤ 1.03: **missed** | 7 |",
        # There is no goal for so many cores.
        "| `local[4]` | evensplit | 80 [80 to 80] | 0.80 [0.80 to 0.80] |",
        "| `local[1]` | Spark's own | 5 | 40 | 0 | 0 | 0 |",
        "2 processors. Load average 0.5 to 1.5; measured 2026-02-03.",
        "2 starts and 2 rounds of 3 batches",
    ):
        assert part in made.replace("\n  ", " ")
    assert "quick" not in made
    quick = some_results().only(["start"])
    quick.parts["start"].scale, quick.parts["start"].notes = "quick", ["one is left out"]
    made = tables(quick)
    assert "**A quick run**: few rounds, for a rough impression only (start)." in made
    assert "- one is left out." in made
    assert "small batches" not in made
    assert tables(Results()) == ""


def test_results_survive_the_file(tmp_path: Path) -> None:
    file = tmp_path / "latency.json"
    file.write_text(some_results().to_json())
    assert read(file) == some_results()


def test_the_page_and_its_pictures(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text(f"# Title\n{BEGIN}\n{END}\nend\n")
    for _ in range(2):
        write_docs(some_results(), tmp_path)
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("# Title\n")
    assert page.endswith("\nend\n")
    assert page.count("latency-start.svg") == page.count("latency-batch.svg") == 1
    assert max(len(line) for line in page.splitlines() if not line.startswith("|")) <= 132
    assert ET.parse(tmp_path / "latency-batch.svg").getroot().tag == f"{SVG}svg"


def test_the_markers_are_in_the_page() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert between(page, "x", BEGIN, END).count("x") >= 1
    assert page.index("make bench-peer: to here") < page.index(BEGIN) < page.index("## Where the time goes")


def test_a_timeline_as_text() -> None:
    said = lines(some_results().start_lines[1]).splitlines()
    assert said == [
        "evensplit, local[1]: 1,000 ms",
        "start ms     ms  cpu ms  process  what",
        "     0.0  990.0          row      a & <b>",
        "    10.0   20.0     3.0  row      in it",
    ]


def test_the_picture_has_a_bar_for_each_span_within_its_frame() -> None:
    shown = some_results().start_lines
    root = ET.fromstring(picture("A title", shown))
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]
    assert [bar.get("class") for bar in bars] == ["phase", "run", "run"]
    lengths = [float(bar.attrib["width"]) for bar in bars]
    # One axis for both.
    assert lengths[0] / lengths[1] == pytest.approx(900 / 990, rel=0.01)
    ends = [float(bar.attrib["x"]) + length for bar, length in zip(bars, lengths, strict=True)]
    assert max(ends) <= WIDTH
    # What is within another is below it.
    assert float(bars[1].attrib["y"]) < float(bars[2].attrib["y"])
    assert max(float(bar.attrib["y"]) for bar in bars) < float(root.attrib["height"])
    texts = [text.text for text in root.iter(f"{SVG}text")]
    for part in ("A title", "a & <b>", "in it", "Spark's own, local[1]: 900 ms", "evensplit, local[1]: 1.0 s", "row"):
        assert part in texts
    assert ET.fromstring(picture("Nothing", [])).tag == f"{SVG}svg"
