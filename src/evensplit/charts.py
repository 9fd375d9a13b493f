"""Bars for those who look, drawn with matplotlib, which is loaded with this module: only when something is drawn.

It knows numbers and names, and nothing of what they are of, so everything may use it. No global state of matplotlib is
touched: no figure is registered with pyplot, and no backend chosen.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as missing:
    raise ImportError(f"drawing needs matplotlib ({missing}). Install it: pip install 'evensplit[plots]'") from missing

BARS_MAX = 200
"""So many bars can be told apart. Where there are more, each stands for several neighbours, as long as the longest."""

NAMES_MAX = 20
"""So many bars have their names below them."""

NAME_MAX = 24
"""So many characters of a name are shown."""

# Okabe and Ito's: told apart whatever colours one sees, and in grey.
BLUE, VERMILION = "#0072B2", "#D55E00"


@dataclass(frozen=True, slots=True)
class Bars:
    """One row of bars. `line`: a level across all of them, with what it is in `line_label`."""

    title: str
    names: Sequence[str]
    values: Sequence[float]
    label: str
    line: float | None = None
    line_label: str = ""


class Drawing(Figure):
    """A figure that notebooks show by itself."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.savefig(data, format="png")
        return data.getvalue()


def draw(*rows: Bars) -> Drawing:
    """All of them, one above the other."""
    figure = Drawing(figsize=(8.0, 3.0 * len(rows)), layout="constrained")
    for axes, one in zip(figure.subplots(len(rows), squeeze=False)[:, 0], rows, strict=True):
        _draw(axes, one)
    return figure


def _draw(axes: Axes, one: Bars) -> None:
    each = -(-len(one.values) // BARS_MAX) or 1
    starts = range(0, len(one.values), each)
    axes.bar(range(len(starts)), [max(one.values[at : at + each]) for at in starts], color=BLUE)
    # Names can contain what matplotlib takes for formulas.
    axes.set_title(_short(one.title, 100), loc="left", fontsize="medium", parse_math=False)
    axes.set_ylabel(one.label, parse_math=False)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9f}".rstrip("0").rstrip(".")))
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 1))
    if len(one.names) <= NAMES_MAX:
        names = [_short(name, NAME_MAX) for name in one.names]
        turned = sum(map(len, names)) > 60
        axes.set_xticks(
            range(len(names)), names, parse_math=False, rotation=45 if turned else 0, ha="right" if turned else "center"
        )
    else:
        many = f", {each} to a bar: the longest of them" if each > 1 else ""
        axes.set_xticks([])
        axes.set_xlabel(f"{len(one.names):,} of them, in their order{many}", parse_math=False)
    if one.line is not None:
        axes.axhline(one.line, color=VERMILION, linestyle="--", label=one.line_label)
        axes.legend(loc="best", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _short(name: str, most: int) -> str:
    """A name in one line, without what no font has."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
