"""What a notebook shows: small tables in which names are text, and figures that are only drawn when asked for."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from evensplit import assign, charts
from evensplit.charts import Bars, Drawing, draw
from evensplit.core.batch.plan import BatchPlan, plan_batch
from evensplit.core.html import ROWS_MAX, TEXT_MAX, lines, table, title
from evensplit.core.model import SplitId
from evensplit.core.state.codec import encode
from evensplit.explain.batch import Explanation
from evensplit.observe.source_view import advance
from evensplit.spark.listen.registration import Progress, Registration
from tests.support.batches import Script, orders

NASTY = '<script>alert("$x^{")</script>\n&\u202e'
PNG = b"\x89PNG\r\n\x1a\n"


class Shown(HTMLParser):
    """What a browser makes of HTML: the elements and the texts; every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


ELEMENTS = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


def shown(one: object) -> Shown:
    found = Shown(one._repr_html_())  # type: ignore[attr-defined]
    assert found.tags <= ELEMENTS
    return found


def explanation(script: Script) -> Explanation:
    return advance(None, script.batch()).explanation


def plan(script: Script) -> BatchPlan:
    one = script.batch()
    return plan_batch(one.start, one.end)


@pytest.fixture
def script() -> Script:
    """Three readers, of which one has more; a cluster with markup in its name, and one that does not answer."""
    script = orders({NASTY: 4, "west": 1}, readers=3)
    script.write(100)
    script.unreachable["west"] = "<b>refused</b>"
    script.read(60)
    return script


def test_tables_are_escaped_and_bounded() -> None:
    text = table(["a<b>", "n"], ((f"<i>{number}</i>", number * 1_000) for number in range(1_000)), 1_000)
    found = Shown(text)
    assert found.tags == ELEMENTS - {"p", "strong"}
    assert found.texts[:4] == ["a<b>", "n", "<i>0</i>", "0"]
    assert found.texts[-1] == f"… and {1_000 - ROWS_MAX} more"
    assert text.count("<tr>") == ROWS_MAX + 2
    assert Shown(table(["a"], [(None,), ("x" * 999,)], 2)).texts == ["a", "not known", "x" * TEXT_MAX + "…"]
    assert Shown(title(NASTY)).texts == [NASTY]
    assert len(Shown(lines(["<p>"] * 99)).texts) == ROWS_MAX + 1
    assert lines([]) == ""


def test_an_assignment() -> None:
    splits = [SplitId("c", "orders", number) for number in range(7)]
    found = shown(assign(splits, [NASTY, "b", "c"]))
    assert found.texts[:2] == [
        "7 partitions, 3 readers, policy balanced",
        "as even as possible; no partition moved that could have stayed",
    ]
    assert found.texts[2:] == ["reader", "partitions", NASTY, "3", "b", "2", "c", "2"]
    weighted = shown(assign(splits, 2, weight=dict.fromkeys(splits, 1000), eligible={0: [splits[0]], 1: []}))
    assert "no reader may read 6 partitions" in weighted.texts
    assert weighted.texts[-8:] == ["partitions", "weight", "0", "1", "1,000", "1", "0", "0"]
    assert f"… and {1_000 - ROWS_MAX} more" in shown(assign(splits, 1_000)).texts


def test_a_plan(script: Script) -> None:
    found = shown(plan(script))
    assert found.texts[0] == "plan whole: 240 offsets for 3 readers"
    assert found.texts[1].startswith("busiest reader: 120 offsets, best possible with this plan: 80; ")
    assert found.texts[2:8] == ["reader", "offsets", "ranges", "0", "120", "2"]


def test_an_explanation_and_a_batch(script: Script) -> None:
    one = explanation(script)
    found = shown(one)
    assert found.texts[found.texts.index("lag") + 1 :][:4] == [NASTY, "answers", "4", "160"]
    assert found.texts[found.texts.index("west") :][:4] == ["west", "no answer: <b>refused</b>", "1", "not known"]
    assert found.texts[-9:] == ["0", "2", "120", "1", "2", "60", "2", "1", "60"]
    progress = Progress("q", "r", NASTY, 7, 1, "2026-01-01T00:00:00.000Z", one)
    assert shown(progress).texts == [f"{NASTY}, source 1: batch 7, 2026-01-01T00:00:00.000Z", *found.texts]


class NothingNew:
    """An inbox in which all is explained."""

    def catch_up(self) -> None:
        """There is nothing to explain."""

    explain_at_once = catch_up


def test_a_registration_shows_the_last_batch_of_each_source(script: Script) -> None:
    registration = Registration(NothingNew())
    assert shown(registration).texts == ["no batch yet"]
    for one in (script.batch(), script.batch()):
        registration.add(one, encode(one.end), heard_ms=1_000_400)
    last = registration.progress()[-1]
    assert last.batch_id == 1
    assert shown(registration).texts == shown(last).texts


def bars_of(axes: Axes) -> list[float]:
    return [float(patch.get_height()) for patch in axes.patches]  # type: ignore[attr-defined]


def test_figures_show_the_numbers_whatever_the_names(script: Script) -> None:
    splits = [SplitId("c", "orders", number) for number in range(7)]
    (loads,) = assign(splits, [NASTY, "b", "$"]).plot().axes
    assert bars_of(loads) == [2, 2, 3]
    assert loads.get_lines()[0].get_ydata()[0] == 3  # type: ignore[index]
    assert [label.get_text() for label in loads.get_xticklabels()][1:] == ["b", "$"]
    one = script.batch()
    (work,) = plan_batch(one.start, one.end).plot().axes
    assert bars_of(work) == [120, 60, 60]
    found = advance(None, one).explanation
    figure = found.plot()
    assert [bars_of(axes) for axes in figure.axes] == [[120, 60, 60], [160]]
    assert figure._repr_png_().startswith(PNG)
    assert Progress("q", "r", None, 7, 0, "", found).plot()._repr_png_().startswith(PNG)
    weighted = assign(splits, 2, weight=dict.fromkeys(splits, 1000)).plot()
    assert weighted.axes[0].get_ylabel() == "weight"


def test_many_bars_are_drawn_as_few_and_none_as_none() -> None:
    values = [1.0] * 10_000
    values[777] = 9.0
    figure = draw(Bars("many", [str(number) for number in range(10_000)], values, "offsets"))
    (axes,) = figure.axes
    assert len(axes.patches) == charts.BARS_MAX
    assert max(bars_of(axes)) == 9
    assert axes.get_xlabel() == "10,000 of them, in their order, 50 to a bar: the longest of them"
    assert draw(Bars("none", [], [], "offsets"))._repr_png_().startswith(PNG)
    middle = draw(Bars("some", [str(number) for number in range(30)], [1.0] * 30, "offsets")).axes[0]
    assert middle.get_xlabel() == "30 of them, in their order"


def test_long_names_are_cut_and_turned() -> None:
    (axes,) = draw(Bars("t", ["n" * 249, "o" * 249, "p" * 249], [1, 2, 3], "x")).axes
    labels = axes.get_xticklabels()
    assert labels[0].get_text() == "n" * (charts.NAME_MAX - 1) + "…"
    assert labels[0].get_rotation() == 45


def test_colours_are_told_apart_in_grey() -> None:
    def luminance(colour: str) -> float:
        return sum(part * weight for part, weight in zip(to_rgb(colour), (0.299, 0.587, 0.114), strict=True))

    # The line is dashed as well.
    assert abs(luminance(charts.BLUE) - luminance(charts.VERMILION)) > 0.1


WITHOUT = """
import sys
from evensplit import SplitId, assign
import evensplit.observe.recorder, evensplit.spark.listen.progress
assert not [name for name in sys.modules if "matplotlib" in name or name == "evensplit.charts"]
sys.modules["matplotlib"] = None
one = assign([SplitId("c", "t", 0)], 1)
assert "<table>" in one._repr_html_()
try:
    one.plot()
except ImportError as error:
    print(error)
"""


@pytest.mark.lengthy
def test_nothing_is_loaded_before_something_is_drawn_and_where_it_is_missing_that_is_said() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("Install it: pip install 'evensplit[plots]'")


def test_a_figure_is_one_of_matplotlib_and_not_of_pyplot() -> None:
    from matplotlib import pyplot as plt

    figure = draw(Bars("t", ["a"], [1], "x"))
    assert isinstance(figure, Drawing)
    assert plt.get_fignums() == []


def test_an_empty_explanation() -> None:
    empty = Explanation(explanation(Script()).changes, (), (), (), False, explanation(Script()).plan)
    assert shown(empty).texts[:4] == ["cluster", "partitions", "lag", "reader"]
    assert empty.plot()._repr_png_().startswith(PNG)


@pytest.mark.parametrize("values", [[0, 0], [1], [2, 3], [7, 900]])
def test_numbers_at_the_axis_are_whole_and_stand_there_once(values: list[float]) -> None:
    figure = draw(Bars("t", [str(one) for one in values], values, "offsets"))
    figure.canvas.draw()
    texts = [one.get_text() for one in figure.axes[0].get_yticklabels()]
    assert len(set(texts)) == len(texts) > 1
    assert all(text.replace(",", "").isdecimal() for text in texts)
