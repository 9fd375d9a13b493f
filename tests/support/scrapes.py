"""Metrics as a scraper is given them, taken apart."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Exported = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Exported:
    """name and labels -> value."""
    found: Exported = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Exported, name: str, **labels: str) -> float | None:
    labels = {"query": "orders", "source": "0", **labels}
    return found.get((f"evensplit_{name}", frozenset(labels.items())))
