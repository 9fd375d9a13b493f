"""Pictures over the time of a run, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _LEFT, _HEIGHT = 1140.0, 150.0, 110.0
_COLOURS = ("var(--a)", "var(--b)", "var(--good)", "var(--bad)", "var(--soft)")


def lanes(bars: Sequence[tuple[str, str, float, float]], end_s: float) -> str:
    """Bars of (lane, title, begin, end), one lane for each name."""
    names = sorted({name for name, *_ in bars})
    parts = [
        f'<text x="0" y="{18 * row + 13}">{escape(name[:24])}</text>'
        f'<path d="M{_LEFT} {18 * row + 17.5}H{_WIDTH}" stroke="var(--line)"/>'
        for row, name in enumerate(names)
    ]
    for name, title, begin, end in bars:
        x, width = _x(begin, end_s), max(2.0, _x(end, end_s) - _x(begin, end_s))
        parts.append(
            f'<rect x="{x:.1f}" y="{18 * names.index(name) + 3}" width="{width:.1f}" height="12" rx="2" '
            f'fill="var(--b)"><title>{escape(title)}, {begin:.1f} to {end:.1f} s</title></rect>'
        )
    return _svg("Faults", parts, 18.0 * len(names), end_s)


def area(title: str, points: Sequence[tuple[float, float]], end_s: float) -> str:
    """An area below (time, value)."""
    most = max((value for _, value in points), default=0) or 1
    shown = _thinned(points)
    path = "".join(f"L{_x(at, end_s):.1f} {_y(value, most):.1f}" for at, value in shown)
    body = f'<path d="M{_LEFT} {_HEIGHT}{path}V{_HEIGHT}Z" fill="var(--a)" fill-opacity=".45"/>'
    return _svg(title, [_most(most), body if shown else ""], _HEIGHT, end_s)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], end_s: float) -> str:
    """Lines by name, with a legend."""
    most = max((value for points in series.values() for _, value in points), default=0) or 1
    parts = [_most(most)]
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{_x(at, end_s):.1f},{_y(value, most):.1f}" for at, value in _thinned(points))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}"><title>{escape(name)}</title></polyline>'
        )
        if number < len(_COLOURS):
            parts.append(f'<text x="0" y="{34 + 15 * number}" style="fill:{colour}">{escape(name[:22])}</text>')
    return _svg(title, parts, _HEIGHT, end_s)


def marks(title: str, some: Sequence[tuple[float, str, bool]], end_s: float) -> str:
    """Marks of (time, title, bad)."""
    parts = [
        f'<circle cx="{_x(at, end_s):.1f}" cy="10" r="4" fill="{"var(--bad)" if bad else "var(--good)"}">'
        f"<title>{escape(name)}, {at:.1f} s</title></circle>"
        for at, name, bad in some
    ]
    return _svg(title, parts, 20.0, end_s)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The highest value for each point of the picture."""
    size = max(1, len(points) // 1000)
    return [(points[at][0], max(value for _, value in points[at : at + size])) for at in range(0, len(points), size)]


def _most(most: float) -> str:
    return f'<text x="{_LEFT - 8}" y="12" text-anchor="end">{most:,.0f}</text>'


def _x(at_s: float, end_s: float) -> float:
    return _LEFT + (_WIDTH - _LEFT) * min(1.0, max(0.0, at_s / end_s))


def _y(value: float, most: float) -> float:
    return _HEIGHT - (_HEIGHT - 4) * value / most


def _svg(title: str, parts: Sequence[str], height: float, end_s: float) -> str:
    ticks = []
    for part in range(7):
        anchor = "end" if part == 6 else "middle"
        x = _x(end_s * part / 6, end_s)
        ticks.append(f'<text x="{x:.1f}" y="{height + 14}" text-anchor="{anchor}">{end_s * part / 360:.1f} min</text>')
    axis = f'<path d="M{_LEFT} {height}H{_WIDTH}" stroke="var(--line)"/>'
    picture = f'<svg viewBox="0 0 {_WIDTH:g} {height + 20:g}" role="img" aria-label="{escape(title)}">'
    drawn = f"{picture}{axis}{''.join(parts)}{''.join(ticks)}</svg>"
    return f'<p class="soft">{escape(title)}</p><div class="wide">{drawn}</div>'
