"""One model of what a source does, and everything that shows it: metrics, the dashboard, explanations."""

from __future__ import annotations

from importlib import resources


def files() -> dict[str, str]:
    """The files that go with the metrics, name -> text.

    `alerts.yml` is for Prometheus, `grafana.json` for Grafana, `keda.yml` for KEDA, `spark-dynamic-allocation.conf` for
    Spark.
    """
    directory = resources.files("evensplit.observe") / "files"
    return {one.name: one.read_text("utf-8") for one in sorted(directory.iterdir(), key=lambda one: one.name)}
