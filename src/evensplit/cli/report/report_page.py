"""A report as one HTML file that needs no network and no script, from the templates and the style of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evensplit.checkpoint.history import CheckpointHistory
from evensplit.cli.live.lags import LogEnds
from evensplit.cli.report.report_charts import plots_of
from evensplit.core.state.observation import Report
from evensplit.observe.dashboard.rendering import HERE, render
from evensplit.observe.dashboard.view.page import tiles
from evensplit.observe.dashboard.view.proofs import how_far, proofs
from evensplit.observe.health.figures import needed_now
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import View, look

ROWS_MAX = 200
"""How many clusters, and how many changes, have a row each."""


def page_of(kept: CheckpointHistory, views: Mapping[str, View], ends: LogEnds, made_ms: int) -> bytes:
    """The whole file, of `views`: source -> its view. `ends`: the ends of the logs, as far as they are known."""
    return render(
        "report.html",
        {
            "kept": kept,
            "path": kept.path.resolve() if isinstance(kept.path, Path) else kept.path,
            "made_ms": made_ms,
            # Our own file.
            "css": Markup((HERE / "assets" / "dashboard.css").read_text("utf-8")),  # noqa: S704
            "sources": list(_sources(views, ends)),
        },
    )


def _sources(views: Mapping[str, View], ends: LogEnds) -> Iterator[dict[str, Any]]:
    for name, view in views.items():
        seen = ends.report(name, view)
        shown, clusters = look(view, seen), view.explanation.clusters
        watched = SourceStatus(shown, QueryStatus.UNKNOWN, None)
        splits = sum(sum(one.splits.values()) for one in clusters)
        yield {
            "name": name,
            "asked": seen != Report(),
            "tiles": tiles(watched, splits, needed_now(watched)),
            "how_far": how_far(shown),
            "proofs": proofs(shown),
            "clusters": shown.explanation.clusters[:ROWS_MAX],
            "clusters_left": max(0, len(clusters) - ROWS_MAX),
            "rates": view.rates(),
            "totals": view.totals,
            "plots": plots_of(view),
            "happenings": view.happenings[: -ROWS_MAX - 1 : -1],
            "happenings_left": max(0, len(view.happenings) - ROWS_MAX),
            "works": view.work,
        }
