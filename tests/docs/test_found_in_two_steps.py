"""What newcomers look for is found in two steps: from a list of pages to a page, there to a heading in their words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import DOCS, ROOT

README, INDEX = ROOT / "README.md", DOCS / "index.md"

TASKS = {
    "is it for me, when is Spark's own source better": (
        "is-this-for-me",
        "When Spark's own source is the better choice",
    ),
    "a first job": ("commands", "A job to start from"),
    "start two hours ago": ("howto/cookbook", "Start two hours ago, or at a time"),
    "read again from two hours ago, with a query that exists": (
        "howto/cookbook",
        "Rewind a query: read again from two hours ago",
    ),
    "a poison record": ("howto/cookbook", "A poison record: a value that cannot be decoded"),
    "a corrupt batch, without losing the state": (
        "howto/cookbook",
        "A corrupt batch: skip it without losing the state",
    ),
    "limit a batch in bytes": ("howto/cookbook", "Limit a batch in bytes"),
    "write back to Kafka, exactly once": ("howto/writing", "A stream, exactly once"),
    "Avro with a schema registry": ("howto/cookbook", "Avro with a schema registry"),
    "lag in Kafka's own tools": ("howto/cookbook", "Lag in Kafka's own tools"),
    "read several clusters": ("howto/cookbook", "Read several clusters"),
    "dead letters": ("howto/cookbook", "Dead letters, to a topic"),
    "headers": ("howto/cookbook", "Headers"),
    "only some columns": ("howto/cookbook", "Only some columns, or rows"),
    "exactly once into Delta": ("howto/cookbook", "Exactly once into Delta, or Iceberg"),
    "exactly once into a database": ("howto/cookbook", "Exactly once into a database, such as DuckDB or Postgres"),
    "find one record by key": ("howto/cookbook", "Find one record by key, offset or time"),
    "test without a broker": ("howto/cookbook", "Test without a broker"),
    "move a query to other machines": (
        "howto/cookbook",
        "Move a query to other machines, or another checkpoint",
    ),
    "uninstall": ("howto/cookbook", "Uninstall, or go back to Spark's own source"),
    "which version": ("howto/cookbook", "Which version do I have?"),
    "data loss": ("howto/cookbook", "Records that are gone (data loss)"),
    "does it do share groups, continuous mode, a rebalance listener": (
        "howto/cookbook",
        "What it does not do, and what to use instead",
    ),
    "a query does not start": ("howto/troubleshooting", "A query does not start"),
    "lag grows": ("howto/troubleshooting", "A query is slow, or behind"),
    "a login with SASL": ("howto/security", "A name and a password over TLS"),
    "alerts": ("howto/monitoring", "Alerts, and a Grafana dashboard"),
    "install it": ("index", "Installing"),
    "upgrade PySpark": ("howto/upgrading", "PySpark, Python, Kafka"),
    "skew": ("howto/skew", "Cut it"),
    "undo a repair of a checkpoint": ("howto/repair", "Take it back"),
    "Kubernetes": ("howto/deploy", "Kubernetes"),
    "an air-gapped installation": ("howto/deploy", "Without a network"),
    "Databricks, EMR, Glue": ("howto/deploy", "Services: Databricks, EMR, Glue, Dataproc, Fabric"),
    "a container": ("howto/deploy", "A container"),
    "a notebook": ("howto/deploy", "Notebooks"),
    "each hour, by Airflow or cron": ("howto/cookbook", "Read what is there, and end: each hour, from cron or Airflow"),
    "other options, such as topics or readers": ("howto/cookbook", "Change options of a query that has a checkpoint"),
    "another Kafka cluster, MirrorMaker": ("howto/cookbook", "Move to a new Kafka cluster"),
    "read one partition": ("howto/cookbook", "Read one partition"),
    "a follower in my zone": ("howto/cookbook", "Read from the replica in my zone"),
    "a checkpoint on S3 or MinIO": ("howto/cookbook", "A checkpoint on S3, or MinIO"),
    "watch queries without Prometheus": ("howto/cookbook", "Watch queries from cron"),
    "rotate a password": ("howto/security", "Rotate a password"),
    "end a blue/green check": ("howto/repair", "End the check"),
    "give up a rewind": ("howto/repair", "Give up the rest of a rewind"),
    "a warning in the log": ("howto/troubleshooting", "Lines in the log that look like errors"),
}
"""What is looked for -> the page and its heading."""


def headings(page: str, marks: str = "#+") -> list[str]:
    text = re.sub(r"^```.*?^```$", "", (DOCS / f"{page}.md").read_text(), flags=re.M | re.S)
    return re.findall(rf"^{marks} (.+)$", text, re.M)


def listed(page: Path) -> set[str]:
    """The pages that a list of pages leads to in one step."""
    found = re.findall(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", page.read_text())
    return {
        str((page.parent / one).resolve().relative_to(DOCS).with_suffix("")) for one in found if "examples" not in one
    }


@pytest.mark.parametrize("task", TASKS)
def test_a_page_that_is_listed_has_a_heading_for_the_task(task: str) -> None:
    page, heading = TASKS[task]
    assert heading in headings(page)
    assert page in listed(README)
    assert page in {*listed(INDEX), "index"}


@pytest.mark.parametrize("task", [task for task, (page, _) in TASKS.items() if page == "howto/cookbook"])
def test_a_recipe_is_in_the_list_at_the_top(task: str) -> None:
    """The second step is a look at the table, not at a page of forty recipes."""
    text = (DOCS / "howto" / "cookbook.md").read_text()
    top = text.partition("\n## ")[0]
    anchor = re.sub(r"[^\w\- ]", "", TASKS[task][1].lower()).replace(" ", "-")
    assert f"](#{anchor})" in top


def test_the_cookbook_lists_all_its_recipes() -> None:
    text = (DOCS / "howto" / "cookbook.md").read_text()
    made = (re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings("howto/cookbook", "##+"))
    wanted = set(made) - {"and-besides"}
    assert set(re.findall(r"\]\(#([^)]+)\)", text.partition("\n## ")[0])) == wanted


def test_every_page_for_users_is_in_both_lists() -> None:
    """Pages about the project itself, such as decisions, may be a step further away."""
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    wanted = {page for page in pages if not page.startswith("adr/")} - {"index", "reference/planted-bugs"}
    assert wanted - listed(README) == set()
    assert wanted - listed(INDEX) == set()


def test_the_words_that_people_search_are_in_headings() -> None:
    """The search of the site puts pages first that have a word in a title or a heading."""
    words = " ".join(
        heading
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts and "adr" not in page.parts
        for heading in headings(str(page.relative_to(DOCS).with_suffix("")))
    ).lower()
    for word in (
        *(
            "poison",
            "dead letter",
            "corrupt",
            "rewind",
            "skip",
            "hours ago",
            "bytes",
            "registry",
            "avro",
            "json",
            "headers",
        ),
        *("share groups", "rebalance listener", "real-time mode", "registering schemas", "registry"),
        *("lag", "delta", "duckdb", "version", "uninstall", "migrat", "clusters", "exactly once", "test", "alerts"),
        *("prometheus", "tls", "sasl", "skew", "upgrad", "install", "memory", "crash", "consumer group", "data loss"),
        *("kubernetes", "container", "notebook", "databricks", "emr", "glue", "dataproc", "airflow", "cron"),
        *("postgres", "iceberg", "s3", "minio", "rotate", "zone", "partition", "options", "each hour"),
    ):
        assert word in words, word
