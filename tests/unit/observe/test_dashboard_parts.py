"""The parts of the dashboard's page, each by itself: bars, shades, words, addresses."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.text import counted
from evensplit.observe.dashboard.app import Pages
from evensplit.observe.dashboard.view.chart import HEIGHT, WIDTH, make_chart
from evensplit.observe.dashboard.view.formatting import exact, lasted, short, stamp, utc
from evensplit.observe.dashboard.view.grid import ELEMENTS_MAX, Cell, Scale, make_grid
from evensplit.observe.dashboard.view.page import tiles
from evensplit.observe.dashboard.view.proofs import advised
from evensplit.observe.dashboard.view.query import BadPageQuery, PageQuery, Shade
from evensplit.observe.health.figures import needed_now
from evensplit.observe.history.work import Work
from evensplit.observe.recorder import QueryStatus, Recorder, SourceStatus
from evensplit.observe.source_view import SplitView
from evensplit.observe.timeline import Kind
from evensplit.observe.web.address import is_loopback
from tests.support.batches import orders, viewed
from tests.support.views import keys_of


def work(batch: int, *offsets: int) -> Work:
    return Work(batch, None, 500, None, dict(enumerate(offsets)), max(offsets, default=0), None)


def test_bars_reach_from_the_ground_to_their_offsets() -> None:
    (column,) = make_chart([work(7, 100, 0, 50)]).columns
    assert column.level == HEIGHT / 2
    assert [(bar.y, bar.height, bar.above) for bar in column.bars] == [(0, 100, 50), (100, 0, 0), (50, 50, 0)]
    assert "busiest is reader 0 with 100, an equal share is 50; it took 500 ms" in column.title
    assert all(0 <= bar.x < bar.x + bar.width <= WIDTH for bar in column.bars)


def test_all_batches_have_one_scale() -> None:
    chart = make_chart([work(1, 10, 10), work(2, 0, 0), work(3, 40, 20)])
    assert [(column.batch, column.level) for column in chart.columns] == [(1, 75), (3, 25)]
    assert chart.top == 40


def test_many_readers_have_fewer_batches_and_the_busiest_have_bars() -> None:
    chart = make_chart([work(one, *range(1, 251)) for one in range(5)])
    (column,) = chart.columns
    assert len(column.bars) + column.left_out == 250
    assert column.bars[0].title.startswith("batch 4, reader 150: 151 offsets")


def test_without_work_there_are_no_bars() -> None:
    assert make_chart([]).columns == make_chart([work(1), work(2, 0, 0)]).columns == ()


def test_shades_are_powers_of_ten_below_the_most() -> None:
    scale = Scale.of([12_345, None, 0], "offsets")
    shades = {value: scale.shade(value) for value in (None, 0, 1, 9, 10, 99, 100, 9_999, 10_000, 12_345)}
    assert list(shades.values()) == ["qx", "q0", "q1", "q1", "q2", "q2", "q3", "q4", "q5", "q5"]
    assert scale.legend() == (
        ("q0", "0 offsets"),
        ("q1", "> 0"),
        ("q2", "≥ 10"),
        ("q3", "≥ 100"),
        ("q4", "≥ 1k"),
        ("q5", "≥ 10k"),
        ("qx", "unknown"),
    )


def test_little_is_light_where_nothing_has_more() -> None:
    assert [Scale.of([7], "offsets").shade(value) for value in (0, 3, 7)] == ["q0", "q1", "q1"]


@pytest.mark.parametrize("most", [0, 0.3, 5, 17.5, 10**18])
def test_every_shade_that_is_shown_is_in_the_legend(most: float) -> None:
    scale = Scale.of([most], "offsets/s")
    known = {shade for shade, _ in scale.legend()}
    assert {scale.shade(value) for value in (None, 0, most / 1e7, most / 10, most / 2, most)} <= known


@pytest.mark.parametrize(
    "number, said",
    [
        (None, "?"),
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (1_050, "1.0k"),
        (12_999, "12k"),
        (999_999, "999k"),
        (5_600_000, "5.6M"),
        (2**63 - 1, "9.2E"),
        (0.25, "0.2"),
    ],
)
def test_numbers_in_few_characters(number: float | None, said: str) -> None:
    assert short(number) == said
    assert len(said) <= 5


def test_numbers_with_separators_and_units() -> None:
    numbers = (None, 1_234_567, 5.0, 2.25, 1234.56)
    assert [exact(one) for one in numbers] == ["unknown", "1,234,567", "5", "2.25", "1,234.6"]
    assert [counted(one, "batch", "batches") for one in (0, 1, 2_000)] == ["0 batches", "1 batch", "2,000 batches"]
    assert [lasted(one) for one in (None, 85, 1_234, 185_000)] == ["unknown", "85 ms", "1.2 s", "3 min 5 s"]


def test_times_and_those_that_no_calendar_has() -> None:
    assert utc(1_700_000_000_123) == "2023-11-14 22:13:20 UTC"
    assert stamp(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert (utc(None), utc(10**30), stamp(-(10**18))) == ("unknown", "unknown", "")


WISHES = [
    PageQuery(),
    PageQuery(
        ("a:b&c", 3), Shade.RATE, -1, "é\n", "x&y=z", "<b>", 2, (Kind.MOVED, Kind.LOST), 25, SplitId("c", "/?#", 5)
    ),
    PageQuery(reader=7, find=" "),
]


@pytest.mark.parametrize("params", WISHES)
def test_an_address_is_all_of_a_wish(params: PageQuery) -> None:
    assert PageQuery.of(list(params.pairs())) == params


def test_kinds_are_chosen_and_taken_back() -> None:
    params = PageQuery(older=25).toggled(Kind.LOST).toggled(Kind.MOVED)
    assert (params.kinds, params.older) == ((Kind.MOVED, Kind.LOST), 0)
    assert params.toggled(Kind.LOST).kinds == (Kind.MOVED,)


@pytest.mark.parametrize("text", ["٣", "1_0", " 1", "", "1e3", "9" * 20])
def test_numbers_of_an_address_are_plain(text: str) -> None:
    with pytest.raises(BadPageQuery, match="expected a number"):
        PageQuery.of([("page", text)])


def test_which_hosts_are_this_machine_alone() -> None:
    alone = ("127.0.0.1", "127.255.0.3", "::1", "localhost", "LocalHost.")
    others = ("0.0.0.0", "::", "", "127.1", "localhost.example.org", "10.0.0.1", "::ffff:10.0.0.1", "2130706433")
    assert [host for host in (*alone, *others) if is_loopback(host)] == list(alone)


def many(clusters: int, topics: int, partitions: int, readers: int) -> list[SplitView]:
    """As many of each, dealt to readers in turn."""
    keys = keys_of({(f"c{one}", f"t{other}"): partitions for one in range(clusters) for other in range(topics)})
    return [SplitView(key, Lifecycle.ASSIGNED, at % readers, 5, 9, 4, 1, None) for at, key in enumerate(keys)]


def behind_it(splits: list[SplitView], readers: int, params: PageQuery) -> tuple[list[Cell], int, int]:
    """The cells of all pages of a params, and how many splits and rows it has."""
    cells: list[Cell] = []
    loads = dict.fromkeys(range(readers), 1)
    rows = 0
    following: PageQuery | None = params
    while following is not None:
        grid = make_grid(splits, following, loads)
        here = [cell for row in grid.rows for group in row.groups for cell in group.cells]
        assert len(here) <= ELEMENTS_MAX
        cells += here
        rows += len(grid.rows) if grid.page == 0 or rows > 1 else 0
        following = grid.later
    return cells, grid.splits, rows


@pytest.mark.parametrize(
    "clusters, topics, partitions, readers",
    [
        (1, 1_000, 1, 1),
        (500, 1, 1, 1),
        (500, 3, 1, 2),
        (2, 450, 2, 3),
        (1, 1, 900, 1),
        (1, 1, 900, 41),
        (1, 900, 1, 41),
    ],
)
def test_every_cell_leads_to_less_or_to_a_story(clusters: int, topics: int, partitions: int, readers: int) -> None:
    splits = many(clusters, topics, partitions, readers)
    for begin in (PageQuery(), PageQuery(find="t"), PageQuery(find="0", shade=Shade.RATE), PageQuery(reader=0)):
        todo, told = [begin], set()
        while todo:
            params = todo.pop()
            cells, count, rows = behind_it(splits, readers, params)
            # Of many alike the first and the last.
            for cell in [*cells[:1], *cells[-1:]]:
                if cell.params.split is not None:
                    told.add(cell.params.split)
                    continue
                _, less, fewer = behind_it(splits, readers, cell.params)
                assert 0 < less < count or fewer < rows, (params, cell.params)
                todo.append(cell.params)
        assert told


def test_pages_of_groups_have_all_of_them() -> None:
    cells, count, _ = behind_it(many(1, 1_000, 2, 1), 1, PageQuery())
    assert count == 2_000
    assert [cell.params.topic for cell in cells] == [f"t{one}" for one in range(1_000)]
    cells, _, _ = behind_it(many(500, 1, 1, 1), 1, PageQuery())
    assert len({cell.params.cluster for cell in cells}) == 500
    first = make_grid(many(1, 1_000, 2, 1), PageQuery(), {0: 1})
    assert (first.pages, first.rows[0].note) == (3, "2,000 partitions, read 1 offset")


def test_how_many_readers_are_needed_is_said_with_the_reason() -> None:
    script = orders({"east": 3})
    batches = []
    for _ in range(3):
        script.write(1_000)
        script.read(100)
        batches.append(script.batch())
    view = viewed(*batches)
    reads = SourceStatus(view, QueryStatus.RUNNING, None)
    needed = view.readers_needed()
    assert needed is not None
    assert advised(view, needed_now(reads)) == [("off", f"{needed.sentence()}.")]
    (tile,) = [one for one in tiles(reads, 3, needed) if one.name == "Partitions"]
    assert (tile.value, tile.more) == ("3", "on 2 readers, 2 needed")
    assert tile.title.endswith(needed.sentence())
    assert advised(view, needed_now(replace(reads, stage=QueryStatus.ENDED))) == []
    assert needed_now(SourceStatus(viewed(batches[0]), QueryStatus.RUNNING, None)) is None


@pytest.mark.parametrize("done", [True, False])
def test_whether_more_readers_are_needed_is_not_said_of_a_query_that_seems_not_to_run(done: bool) -> None:
    """The last batch was planned long ago: it is done, and nothing is unread; or it is not."""
    script, recorder, pages = orders({"east": 3}), Recorder(), Pages()
    pages.watch(recorder)
    for _ in range(5):
        script.write(1_000)
        script.read(100)
        batch = script.batch(reported=False)
        recorder.add(batch, encode(batch.end), stage=QueryStatus.UNKNOWN, heard_ms=batch.at_ms)
    source = batch.source
    recorder.took(source.query_id, source.number, dict.fromkeys(range(4), 500), done=done)
    text = pages.make(PageQuery().at(source), "", "")[0].decode()
    assert ("is not done after" in text) == (not done)
    assert len(re.findall("[0-9] needed|(?:is|are) needed: ", text)) == (3 if done else 0)
