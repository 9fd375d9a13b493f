"""What happened, for people and programs: one model, and the outlets that show it."""

from __future__ import annotations

from importlib import resources


def files() -> dict[str, str]:
    """What goes with the metrics, name -> text: `alerts.yml` for Prometheus, `grafana.json` for Grafana."""
    directory = resources.files("evensplit.observe") / "files"
    return {one.name: one.read_text("utf-8") for one in sorted(directory.iterdir(), key=lambda one: one.name)}
