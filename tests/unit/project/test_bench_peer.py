"""The benchmark beside Spark's own source: its records, its plan, what follows from figures, tables and picture."""

from __future__ import annotations

import hashlib
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.peer.data import compression, evenly, mostly_first, records
from bench.peer.measure import turns
from bench.peer.outcome import Outcome, Results, compare, percentile, ratios, read, verdict
from bench.peer.plan import (
    CEILING,
    FLOOR,
    FULL,
    OURS,
    OURS_PLAIN,
    QUICK,
    SPARK,
    SPARK_CACHE,
    SPARK_MIN,
    Abilities,
    Goal,
    Kind,
    chosen,
    workloads,
)
from bench.peer.plot import GRID_LINES_MAX, grid_step, plot
from bench.peer.report import BEGIN, END, between, line, tables, write_docs
from bench.peer.writes import writes
from evensplit.errors import LocalKafkaError
from evensplit.testing.process.spark_kafka_jars import JARS, Jar, check, ivy_file

SVG = "{http://www.w3.org/2000/svg}"
CAN_ALL = Abilities()
CAN_NOTHING = Abilities(level="no levels", columns="no columns", tls="no TLS")


def outcome(kind: Kind, goals: list[Goal], **values: list[float]) -> Outcome:
    """Figures by side: those of `SPARK` as `spark`, and so on."""
    names = {"spark": SPARK, "least": SPARK_MIN, "cache": SPARK_CACHE, "ours": OURS, "ceiling": CEILING, "floor": FLOOR}
    names["plain"] = OURS_PLAIN
    made = Outcome("key", "A title", kind, 1, 1000, 4, "full", goals, load=[0.5, 1.5], at="2026-02-03T04:05:06+00:00")
    made.values = {names[name]: rounds for name, rounds in values.items()}
    return made


def results(*outcomes: Outcome) -> Results:
    return Results("2 processors", {"100 B": {"zlib": 4.0, "lz4": 3.0}}, list(outcomes))


@pytest.mark.parametrize("size", [100, 1024])
def test_records_have_their_size_differ_and_compress_as_real_ones_do(size: int) -> None:
    made = records(size, 2000)
    assert {len(value) for _, value in made} == {size}
    assert len({value for _, value in made}) == len(made)
    assert len({key for key, _ in made}) > 1500
    times = compression(size)
    assert 2.7 < times["lz4"] < times["zstd"] < 4.6
    assert 3 < statistics.mean(times.values()) < 4


def test_records_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    again = records.__wrapped__
    assert again(100, 50, 3) == again(100, 50, 3)
    assert again(100, 50, 3) != again(100, 50, 4)
    assert hashlib.sha256(repr(records(100, 1000)).encode()).hexdigest().startswith("a2e1687344913b14")


def test_where_records_go() -> None:
    assert Counter(map(evenly(4), range(1000))) == dict.fromkeys(range(4), 250)
    hot = Counter(map(mostly_first(8), range(7000)))
    assert hot == {0: 5600, **dict.fromkeys(range(1, 8), 200)}


def test_everybody_is_first_once() -> None:
    sides = workloads(FULL, CAN_ALL)[0].sides
    orders = [turns(sides, number) for number in range(len(sides))]
    assert {order[0].name for order in orders} == {side.name for side in sides}
    assert all(sorted(order, key=sides.index) == list(sides) for order in orders)


def test_the_plan_has_the_goals_that_are_asked_for() -> None:
    plan = {one.key: one for one in workloads(FULL, CAN_ALL)}

    def limits(key: str) -> list[float]:
        return [goal.limit for goal in plan[key].goals]

    for codec in ("plain", "lz4", "zstd"):
        assert limits(f"read-100-{codec}-1") == [4.0, 0.85]
        assert limits(f"read-1024-{codec}-1") == [4.2 if codec == "zstd" else 3.5, 0.85]
        assert limits(f"read-100-{codec}-2") == limits(f"read-1024-{codec}-2") == [2.0, 0.8]
    assert (limits("small-1"), limits("hot-1"), limits("columns"), limits("tls-100")) == ([6.0], [5.0], [1.0], [0.7])
    assert (limits("small-2"), limits("tls-1024")) == ([6.5], [0.8])
    assert (limits("trickle-4"), limits("trickle-200")) == ([1.0], [0.05, 0.07])
    assert limits("memory-1024-1") == [64.0]
    assert all(one.rounds >= 5 for one in plan.values())


def test_what_is_not_there_is_not_asked_for() -> None:
    able, unable = ({one.key: one for one in workloads(QUICK, can)} for can in (CAN_ALL, CAN_NOTHING))
    ours = {side.name: side.options for side in able["hot-2"].sides}[OURS]
    assert ours == {"readers": "2", "plan": "level"}
    assert {side.name: side.options for side in unable["hot-2"].sides}[OURS] == {"readers": "2"}
    assert unable["hot-2"].notes == ("with the default plan, since no levels",)
    assert (unable["columns"].unavailable, unable["tls-1024"].unavailable) == ("no columns", "no TLS")
    assert not any(one.unavailable or one.notes for one in able.values())
    assert [(side.name, side.secured) for side in able["tls-100"].sides] == [
        (SPARK, True),
        (OURS, True),
        (OURS_PLAIN, False),
    ]


def test_every_source_of_a_topic_reads_the_same_number_of_rows() -> None:
    for scale in (FULL, QUICK):
        for one in workloads(scale, CAN_ALL):
            for side in one.sides:
                if side.source == "ceiling":
                    # Ten thousand to a batch, the same number for each task.
                    assert one.topic.rows % (10_000 * one.cores) == 0
                    assert (side.options["rows"], side.options["tasks"]) == (str(one.topic.rows), str(one.cores))


def test_only_some() -> None:
    plan = workloads(FULL, CAN_ALL)
    assert [one.key for one in chosen(plan, "hot, trickle")] == ["hot-1", "trickle-4", "trickle-200", "hot-2"]
    assert chosen(plan, "") == plan
    with pytest.raises(ValueError, match=r"names colder, which .*they are: read-100-plain-1"):
        chosen(plan, "hot,colder")


def test_percentiles_are_values_that_were_measured() -> None:
    assert [percentile([3, 1, 2, 4], share) for share in (0.0, 0.25, 0.5, 0.51, 0.95, 1.0)] == [1, 1, 2, 3, 4, 4]
    assert percentile(list(range(1, 101)), 0.95) == 95
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.integers(), min_size=1), st.floats(min_value=0.01, max_value=1))
def test_so_many_are_not_above_a_percentile(values: list[int], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_ratios_are_of_rounds_not_of_medians() -> None:
    assert ratios([10, 30, 20], [10, 10, 5]) == [1, 3, 4]
    assert ratios([10, 30], [10]) == [1]
    found = compare(outcome(Kind.RATE, [], ours=[10, 30, 20], spark=[10, 10, 5]), OURS, (SPARK,))
    assert found is not None
    assert (found.against, found.median, found.least, found.most, found.reached) == (SPARK, 3, 1, 4, None)


def test_the_peer_is_met_at_its_best() -> None:
    rates = outcome(Kind.RATE, [], ours=[60, 60], spark=[10, 10], least=[20, 30])
    found = compare(rates, OURS, (SPARK, SPARK_MIN))
    assert found is not None
    assert (found.against, found.median) == (SPARK_MIN, 2.5)
    times = outcome(Kind.STREAM, [], ours=[60, 60], spark=[10, 10], least=[20, 30])
    found = compare(times, OURS, (SPARK, SPARK_MIN))
    assert found is not None
    assert (found.against, found.median) == (SPARK, 6)
    assert compare(rates, OURS, (SPARK_CACHE,)) is None
    assert compare(rates, CEILING, (SPARK,)) is None


@pytest.mark.parametrize(
    "kind,against,limit,reached",
    [
        (Kind.RATE, (SPARK,), 2.0, True),
        (Kind.RATE, (SPARK,), 2.1, False),
        (Kind.STREAM, (SPARK,), 2.0, True),
        (Kind.STREAM, (SPARK,), 1.9, False),
        # Without anybody beside it, the worst counts, not the median.
        (Kind.MEMORY, (), 30.0, True),
        (Kind.MEMORY, (), 29.0, False),
    ],
)
def test_goals(kind: Kind, against: tuple[str, ...], limit: float, reached: bool) -> None:
    found = verdict(outcome(kind, [], ours=[10, 20, 30], spark=[10, 10, 10]), Goal(OURS, against, limit))
    assert found is not None
    assert (found.median, found.reached) == (2.0 if against else 20.0, reached)


def test_the_table_of_rates() -> None:
    goals = [Goal(OURS, (SPARK,), 4.0), Goal(OURS, (CEILING,), 0.85)]
    made = tables(results(outcome(Kind.RATE, goals, ours=[8e5, 9e5], spark=[2e5, 2e5], ceiling=[1e6, 1e6])))
    row = next(row for row in made.splitlines() if row.startswith("| A title"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "A title, `local[1]`",
        "200,000",
        "850,000",
        "4.25 [4.00 to 4.50]",
        "≥ 4: reached",
        "1,000,000",
        "0.85 [0.80 to 0.90]",
        "≥ 0.85: reached",
        "–",  # noqa: RUF001
    ]
    for part in (
        "2 processors",
        "Medians of 2 rounds",
        "Load average 0.5 to 1.5",
        "2026-02-03",
        "100 B zlib 4.0, lz4 3.0",
    ):
        assert part in made
    assert "quick" not in made


def test_a_table_of_each_kind() -> None:
    stream = outcome(Kind.STREAM, [Goal(OURS, (SPARK,), 0.05)], ours=[10, 10], spark=[100, 100], floor=[5, 5])
    stream.batches = {OURS: [[10, 11], [9, 10]], SPARK: [[100], [100]], FLOOR: [[5], [5]]}
    memory = outcome(Kind.MEMORY, [Goal(OURS, (), 64)], ours=[40, 70])
    memory.jvm_mib = {OURS: [500, 501], SPARK: [900, 901]}
    tls = outcome(Kind.RATE, [Goal(OURS, (OURS_PLAIN,), 0.7)], ours=[8e5], plain=[1e6], spark=[2e5])
    columns = outcome(Kind.RATE, [Goal(OURS, (CEILING,), 1.0)], ours=[3e6], ceiling=[2e6])
    left_out = outcome(Kind.RATE, [])
    left_out.skipped, left_out.load = "there is no such thing", []
    quick = outcome(Kind.RATE, [Goal(OURS, (SPARK,), 4.0)], ours=[1e5], spark=[1e5])
    quick.scale = "quick"
    made = tables(results(stream, memory, tls, columns, left_out, quick))
    for part in (
        "| A title, `local[1]` | evensplit | 10 | 11 | 4 | – | – |",  # noqa: RUF001
        "|  | Spark's own | 100 | 100 | 2 | 0.10 [0.10 to 0.10] | ≤ 0.05: **missed** |",
        "|  | floor | 5 | 5 | 2 | 2.00 [2.00 to 2.00] | – |",  # noqa: RUF001
        "| 55.0 [40.0 to 70.0] | ≤ 64: **missed** | 500 [500 to 501] | 900 [900 to 901] |",
        "| Spark's own, over TLS | 200,000 | 4.00 [4.00 to 4.00] | – |",  # noqa: RUF001
        "| the same without TLS | 1,000,000 | 0.80 [0.80 to 0.80] | ≥ 0.7: reached |",
        "| all seven columns prebuilt | 2,000,000 | 1.50 [1.50 to 1.50] | ≥ 1: reached |",
        "- A title, `local[1]`: left out, since there is no such thing.",
        "**A quick run**: few records and rounds, for a rough impression only (key).",
        "1.00 [1.00 to 1.00] | ≥ 4: **missed**",
    ):
        assert part in made
    assert line(left_out) == "A title, local[1]: left out, there is no such thing"
    assert line(stream) == "A title, local[1]: evensplit 10, Spark's own 100, floor 5 ms; times 0.10 [0.10 to 0.10]"


def test_results_survive_the_file_and_are_replaced_one_by_one(tmp_path: Path) -> None:
    goals = [Goal(OURS, (SPARK, SPARK_MIN), 4.0)]
    one, other = (outcome(Kind.RATE, goals, ours=[rate], spark=[1e5]) for rate in (1e5, 2e5))
    last = outcome(Kind.STREAM, [], ours=[1.0])
    last.key = "last"
    made = results(last, one)
    file = tmp_path / "peer.json"
    file.write_text(made.to_json())
    assert read(file) == made
    made.add(other)
    assert made.outcomes == [last, other]
    made.arrange(["key", "unknown", "last"])
    assert made.outcomes == [other, last]
    made.arrange(["last"])
    assert made.outcomes == [last]


def test_figures_are_shown_in_the_order_of_the_plan() -> None:
    one = outcome(Kind.MEMORY, [], ours=[1], spark=[2], ceiling=[3])
    one.jvm_mib = {OURS: [1], SPARK: [2]}
    one.arrange([SPARK, SPARK_MIN, OURS, CEILING])
    assert (list(one.values), list(one.jvm_mib)) == ([SPARK, OURS, CEILING], [SPARK, OURS])
    assert one.values[SPARK] == [2]


def test_the_page_keeps_what_is_outside_the_markers(tmp_path: Path) -> None:
    assert between(f"a\n{BEGIN}\nold\n{END}\nb\n", "new", BEGIN, END) == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    for page in ("a", f"{END}\n{BEGIN}", BEGIN):
        with pytest.raises(ValueError, match="must have the lines"):
            between(page, "new", BEGIN, END)
    (tmp_path / "performance.md").write_text(f"# Title\n{BEGIN}\n{END}\nend\n")
    for rate in (4e5, 5e5):
        write_docs(results(outcome(Kind.RATE, [], ours=[rate], spark=[1e5])), tmp_path)
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("# Title\n")
    assert page.endswith("\nend\n")
    assert page.count("A title") == 1
    assert "500,000" in page
    assert (tmp_path / "peer.svg").exists()


def test_the_markers_are_in_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    assert between(page, "x", BEGIN, END).count("x") >= 1


def test_the_picture_has_a_bar_for_each_within_its_frame() -> None:
    one = outcome(Kind.RATE, [], ours=[8e5], spark=[2e5], least=[4e5], ceiling=[1e6])
    one.title = "80 % & <more>"
    other = outcome(Kind.RATE, [], ours=[3e5], spark=[1e5], ceiling=[1e6])
    other.cores = 2
    root = ET.fromstring(plot(results(one, other, outcome(Kind.RATE, [], ours=[1e5], ceiling=[1e6]))))
    width = float(root.attrib["width"])
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.get("height") == "12" and float(bar.attrib["y"]) > 60]
    assert [bar.get("class") for bar in bars] == ["ours", "peer", "ours", "peer"]
    lengths = [float(bar.attrib["width"]) for bar in bars]
    # Beside Spark's own at its best.
    assert lengths[0] == pytest.approx(2 * lengths[1], rel=0.01)
    assert lengths[2] == pytest.approx(3 * lengths[3], rel=0.01)
    assert all(float(bar.attrib["x"]) + length <= width for bar, length in zip(bars, lengths, strict=True))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    for part in ("local[1]", "local[2]", "80 % & <more>", "2.0 x", "3.0 x", "evensplit"):
        assert part in texts


def test_the_picture_of_nothing_is_a_picture() -> None:
    assert ET.fromstring(plot(results())).tag == f"{SVG}svg"


@given(st.floats(min_value=1, max_value=1e9))
def test_a_grid_has_few_lines_at_round_places(most: float) -> None:
    step = grid_step(most)
    assert most / step <= GRID_LINES_MAX
    assert f"{step:.1e}"[:3] in ("1.0", "2.0", "2.5", "5.0")


def test_the_connector_is_four_jars_and_each_is_the_one_that_is_meant(tmp_path: Path) -> None:
    asked = ET.fromstring(ivy_file()).iter("dependency")
    assert [(one.get("name"), one.get("rev"), one.get("transitive")) for one in asked] == [
        ("spark-sql-kafka-0-10_2.13", "4.2.0", "false"),
        ("kafka-clients", "3.9.1", "false"),
        ("commons-pool2", "2.12.1", "false"),
        ("spark-token-provider-kafka-0-10_2.13", "4.0.0", "false"),
    ]
    assert all(len(jar.sha256) == 64 for jar in JARS)
    good = Jar("org", "good", "1", hashlib.sha256(b"good").hexdigest())
    (tmp_path / "good-1.jar").write_bytes(b"good")
    check(tmp_path, (good,))
    (tmp_path / "good-1.jar").write_bytes(b"bad")
    with pytest.raises(
        LocalKafkaError, match=rf"good-1\.jar has the SHA-256 [0-9a-f]+, expected {good.sha256}.*Remove"
    ):
        check(tmp_path, (good,))


def test_what_writes_has_its_goals_and_both_sides_the_same_rows_and_codec() -> None:
    made = [one for cores in (1, 2) for one in writes(cores, FULL)]
    assert len({one.key for one in made}) == len(made)
    for one in made:
        theirs, ours = one.sides
        assert (theirs.name, ours.name) == (SPARK, OURS)
        assert (theirs.sink, ours.sink) == ("kafka", "evensplit")
        assert theirs.sink_options["kafka.compression.type"] == ours.sink_options["kafka.compression.type"]
        assert bool(theirs.source) == bool(ours.source) == (one.written_rows == 0)
        assert ("delivery" in ours.sink_options) == bool(one.batches)
    assert {goal.limit for one in made for goal in one.goals} == {2.0, 1.5, 3.0, 1.02}


def test_tables_of_writing_show_rates_and_processor_time_and_what_the_broker_has() -> None:
    rates = outcome(Kind.WRITE, [Goal(OURS, (SPARK,), 2.0)], spark=[100_000.0, 200_000.0], ours=[300_000.0, 500_000.0])
    rates.cpu_s = {SPARK: [4.0, 6.0], OURS: [1.0, 2.0]}
    bytes_ = outcome(Kind.SIZE, [Goal(OURS, (SPARK,), 1.02)], spark=[10.0], ours=[10.5])
    found = tables(results(rates, bytes_))
    assert (
        "| 150,000 | 400,000 | 2.75 [2.50 to 3.00] | ≥ 2: reached | 5.00 [4.00 to 6.00] | 1.50 [1.00 to 2.00] |"
        in found
    )
    assert "| 10.00 [10.00 to 10.00] | 10.50 [10.50 to 10.50] | 1.05 [1.05 to 1.05] | ≤ 1.02: **missed** |" in found
    assert line(bytes_) == "A title, local[1]: Spark's own 10.0, evensplit 10.5 MB; times 1.05 [1.05 to 1.05]"


def test_processor_time_of_writing_survives_the_file_of_results(tmp_path: Path) -> None:
    rates = outcome(Kind.WRITE, [], spark=[1.0])
    rates.cpu_s = {SPARK: [4.0]}
    file = tmp_path / "results.json"
    file.write_text(results(rates).to_json())
    assert read(file).outcomes == [rates]
