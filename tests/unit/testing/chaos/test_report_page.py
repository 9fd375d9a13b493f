"""The report is one file that needs nothing else, with the verdict first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evensplit.errors import ChaosError
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.verdict import Finding, Verdict
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.command import command_of
from evensplit.testing.chaos.page.facts import facts_of
from evensplit.testing.chaos.page.figures import survived
from evensplit.testing.chaos.page.report_page import FINDINGS_OPEN_MAX, report_page
from evensplit.testing.chaos.page.timeline import time_ticks
from evensplit.testing.chaos.plan import QUERIES
from tests.support.chaos_histories import KINDS, Run, faultless
from tests.support.markup import Page

ERROR = """[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):
  File "reader.py", line 157, in _read
    raise <it>
  evensplit.errors.NotThisOne: it is indented
evensplit.errors.AuthenticationError: the broker refused the credentials

Current State: ACTIVE"""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without findings."""
    return faultless().write(tmp_path_factory.mktemp("held"))


def text_of(directory: Path, verdict: Verdict | None = None) -> str:
    return report_page(directory, facts_of(directory), check(directory) if verdict is None else verdict).decode()


def page_of(run: Run, directory: Path) -> Page:
    return Page(text_of(run.write(directory)))


def with_errors(run: Run, *errors: tuple[float, str]) -> Run:
    for at_s, error in errors:
        run.events += [
            ev.QueryEnded(at_s=at_s, query="parquet", error=error),
            ev.QueryStarted(at_s=at_s + 2, query="parquet"),
        ]
    return run


def found(number: int) -> Verdict:
    some = tuple(Finding("lost", f"{n} records were not delivered", "parquet", n, ("a fault",)) for n in range(number))
    return Verdict(some, {}, (), ())


def test_the_page_needs_nothing_else_and_escapes_names(tmp_path: Path) -> None:
    run = faultless()
    run.events.append(ev.FaultBegan(at_s=90, fault=9, nemesis="<script>", what="<b>x</b>"))
    run.events.append(ev.FaultEnded(at_s=95, fault=9))
    with_errors(run, (97, "<i>y</i>"))
    text = text_of(run.write(tmp_path))
    assert not re.search(r"<script|<b>x|<i>y|https?:|url\(|@import|src=", text)
    links = [value for tag, found in Page(text).elements for name, value in found.items() if name == "href"]
    assert set(links) == {"#backdrop"}
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text)
    assert "default-src 'none'" in text


def test_the_verdict_comes_first_with_what_was_survived_and_how_to_repeat_it(held: Path) -> None:
    text = Page(text_of(held)).text
    order = ["Held", "Not judged in full: memory", "with 2 faults of 2 kinds: brokers 1, topics 1.", "Timeline"]
    order += ["Lag", "Latency", "Deliveries", "2 faults in 2 spells"]
    places = [text.index(one, text.index("● Held")) for one in order]
    assert places == sorted(places)
    assert "evensplit chaos --minutes 5 --seed 7 --spark local --query foreach-batch" in text


def test_it_says_in_numbers_what_was_survived(tmp_path: Path) -> None:
    run = faultless()
    run.events.append(ev.JobStarted(at_s=0.5, pid=1, settings={}))
    run.events += [
        ev.FaultBegan(at_s=60.5, fault=3, nemesis="driver-kill", what="SIGKILL of the driver"),
        ev.JobEnded(at_s=61, pid=1, code=-9, expected=True),
        ev.FaultEnded(at_s=62, fault=3),
        ev.JobStarted(at_s=63, pid=2, settings={}),
        ev.JobEnded(at_s=319, pid=2, code=-15, expected=True),
    ]
    directory = run.write(tmp_path)
    verdict = check(directory)
    ends = [
        {"query": "parquet", "at_s": at_s, "error": "x", "cause": cause} for at_s, cause in ((55, "kill"), (190, ""))
    ]
    said = survived(facts_of(directory), replace(verdict, figures={**verdict.figures, "queries' ends": ends}))
    assert said.startswith("3 minutes with 3 faults of 3 kinds: brokers 1, topics 1, Spark 1. 800 records written, 800")
    assert "2 queries ended by an error, 1 of them explained by a fault; faults ended the driver 1 time." in said
    assert "Half of the records arrived within 4 s" in said
    assert "The slowest recovery took" in said
    shown = Page(text_of(directory)).by_id("ends")
    assert "1:01 driver a fault ended it SIGKILL of the driver 2 s later" in shown
    assert "5:19 driver it was stopped, with the run" in shown


@pytest.mark.parametrize("number, said", [(1, "1 finding"), (2, "2 findings")])
def test_numbers_agree_with_their_nouns(held: Path, number: int, said: str) -> None:
    text = Page(text_of(held, found(number))).text
    assert f"Not held: {said} " in text
    assert not re.search(r"\b1 (findings|faults|kinds|spells|queries|minutes|processes)\b", text)


def test_a_verdict_names_what_it_does_not_cover() -> None:
    whole = Verdict((), {}, (), ())
    assert whole.sentence == "Held"
    some = replace(whole, not_judged=("memory: too short", "parquet: 3 records", "parquet: stalls"))
    assert some.sentence == "Held; not judged in full: memory, parquet"
    bad = replace(found(1), not_judged=("liveness: no end",), failed_faults=("cut: it broke",))
    assert bad.sentence == "Not held: 1 finding; not judged in full: liveness; 1 fault could not be made or ended"


def test_without_findings_none_are_announced(held: Path) -> None:
    page = Page(text_of(held))
    assert page.by_id("findings") == ""
    assert "a finding" not in page.text


def test_of_many_findings_the_rest_is_folded_and_none_is_left_out(held: Path) -> None:
    page = Page(text_of(held, found(300)))
    said = page.by_id("findings")
    assert f"{300 - FINDINGS_OPEN_MAX} more findings" in said
    assert all(f" {n} records were not delivered" in said for n in range(300))


def test_of_a_long_error_the_telling_lines_are_shown_and_all_is_there(tmp_path: Path) -> None:
    page = page_of(with_errors(faultless(), (190, ERROR)), tmp_path)
    for place in ("findings", "ends"):
        said = page.by_id(place)
        shown, whole = said.split("all of it")
        assert "An exception was thrown: evensplit.errors.AuthenticationError: the broker refused" in shown
        assert "Current State" not in shown
        assert "Current State: ACTIVE" in whole
    assert "2 s later" in page.by_id("ends")


def test_faults_are_in_lanes_by_resource_and_behind_everything_else(tmp_path: Path) -> None:
    run = faultless()
    run.events += [ev.FaultBegan(at_s=100, fault=3, nemesis="cut", what="a cut"), ev.FaultEnded(at_s=109, fault=3)]
    page = page_of(run, tmp_path)
    said = page.by_id("timeline")
    order = ["Brokers 1 fault broker-kill", "Network 1 fault cut", "Topics 1 fault topic-recreated", "Starts and ends"]
    assert [said.index(one) for one in order] == sorted(said.index(one) for one in order)
    rects = [found for tag, found in page.elements if tag == "rect"]
    for resource in ("brokers", "network", "topics"):
        colour = {"brokers": 2, "network": 3, "topics": 5}[resource]
        kinds = [(found["class"] or "").split()[0] for found in rects if f"s{colour}" in (found["class"] or "")]
        assert kinds == ["band", "bar"], resource
    pictures = sum((found.get("class") or "") in ("lanes", "curves") for tag, found in page.elements if tag == "svg")
    assert sum(tag == "use" for tag, _ in page.elements) == pictures


def test_times_have_round_ticks() -> None:
    for end_s, first, count in [(45, "10 s", 5), (320, "1 min", 6), (700, "1 min", 12), (3900, "10 min", 7)]:
        some = time_ticks(end_s)
        assert (some[0].label, some[1].label, len(some)) == ("0", first, count)
    assert len(time_ticks(1e6)) > 1


def test_lag_and_latency_are_those_of_the_history(held: Path) -> None:
    facts = facts_of(held)
    # Acknowledged 1 s after it was sent, committed 2 s after, delivered 5 s after: at 6.5 s all of it waits.
    east = facts.clusters.index("east")
    assert facts.lag("parquet", east, np.array([2.5, 6.5, 7.5, 200.0])).tolist() == [0, 4 * len(KINDS), 0, 0]
    half, almost = facts.latencies("parquet")
    assert half[0] == pytest.approx(4.0)
    assert almost[0] <= 4.0
    assert np.isnan(half[-1])
    assert facts.allowed(np.array([0.0, 45.0])).tolist() == [30.0, 45.0]
    assert facts.spells[0].recovery_s is None
    assert "counted: keeps counts, not records, and has no curve." in Page(text_of(held)).by_id("timeline")


def test_memory_tells_its_growth_by_role(tmp_path: Path) -> None:
    run = faultless()
    run.events += [
        ev.MemoryMeasured(at_s=at, process="executor python", pid=pid, resident_mib=80.0 + pid)
        for pid in (1, 2)
        for at in range(0, 200, 5)
    ]
    directory = run.write(tmp_path)
    verdict = check(directory)
    for slopes in ({"executor python 1": 0.25}, {"executor python": {"1": 0.25}}):
        grown = replace(verdict, figures={**verdict.figures, "memory slopes (MiB/min)": slopes})
        page = Page(text_of(directory, grown))
        assert "executor python 2 processes, at most 82 MiB; grew by +0.25 MiB/min" in page.by_id("timeline")
        assert "MiB a minute executor python 1 0.25" in page.text
    assert "none lived long enough" in Page(text_of(directory, verdict)).by_id("timeline")


def test_figures_that_are_new_are_shown_too(held: Path) -> None:
    verdict = Verdict((), {"quick ones": {"parquet": 7}, "seen": 12345}, (), ())
    said = Page(text_of(held, verdict)).text
    assert "quick ones, parquet 7 seen 12,345" in said


def test_a_history_without_events_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    with pytest.raises(ChaosError, match="no history"):
        facts_of(tmp_path)
    (tmp_path / "history" / "run.jsonl").touch()
    said = Page(text_of(tmp_path, Verdict((), {}, (), ()))).text
    assert "No fault began." in said
    assert "0 minutes with 0 faults" in said


def test_the_command_names_all_that_differs_from_the_defaults(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"seed": 4, "minutes": 60.0, "nemeses": (), "schedule": (), "spark": "standalone"}
    ours = ev.RunBegan(**plain, queries=QUERIES[0])
    assert command_of(ours, tmp_path) == "evensplit chaos --minutes 60 --seed 4 --spark standalone"
    other = ev.RunBegan(
        **plain,
        queries=("parquet",),
        asked=("cut", "delay"),
        source="kafka",
        job=("python", "my job.py"),
        options={"readers": "3"},
        records_per_s=50,
    )
    assert command_of(other, Path("chaos-3")) == (
        "evensplit chaos --minutes 60 --seed 4 --spark standalone --nemesis cut --nemesis delay "
        "--job 'python '\"'\"'my job.py'\"'\"'' --query parquet --source kafka --rate 50 --option readers=3"
    )
    again = command_of(replace(other, repeats=True), Path("chaos-3"))
    assert "--schedule chaos-3/schedule.json" in again
    assert "--nemesis" not in again
