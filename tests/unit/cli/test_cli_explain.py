"""`evensplit explain`: the cause and the cure of an error, by its id or its class."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from evensplit.cli.explain import SUGGESTIONS_MAX, find
from evensplit.cli.group import COMMANDS, evensplit
from evensplit.cli.subjects import COMMAND_WORDS, SUBJECTS
from evensplit.errors import BY_ID, EvenSplitError, OptionError
from evensplit.observe import files
from evensplit.observe.metric import Metric
from evensplit.observe.metrics import METRICS
from evensplit.spark.options.spec.all import BY_NAME, DECLARED
from evensplit.spark.options.spec.sink import SINK_BY_NAME
from tests.support.pages import anchors

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(evensplit, ["explain", *arguments], env={"COLUMNS": "2000"})
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.mark.parametrize("error", BY_ID.values(), ids=lambda error: error.id)
def test_every_error_by_its_id_and_its_name(error: type[EvenSplitError]) -> None:
    name, shown = error.__name__, run(error.id)[0]
    assert shown.startswith(f"{error.id} {name}\n\nCause: ")
    assert "\nCure: " in shown
    assert "](" not in shown
    assert run(name.lower())[0] == run(f"evensplit.errors.{name}:")[0] == shown


def test_what_an_error_says_of_itself_leads_there() -> None:
    note = OptionError(["subscribe is missing"]).reference
    assert note == "ES-101: `evensplit explain ES-101` tells its cause and its cure"
    (_, words, _) = note.split("`")
    result = CliRunner().invoke(evensplit, words.split()[1:])
    assert result.stdout.startswith("ES-101 OptionError")


def test_as_json() -> None:
    found = json.loads(run("es-101", "--format", "json")[0])
    assert (found["id"], found["name"]) == ("ES-101", "OptionError")
    assert found["cause"].startswith("One or more options are missing")
    assert "`evensplit explain NAME` shows one option" in found["cure"]
    assert "Options (docs/reference/options.md) has all of them" in found["cure"]


def test_an_error_that_there_is_not() -> None:
    told = " ".join(run("ES-999", code=1)[1].split())
    assert "there is no error 'ES-999'; there are ES-001, ES-100 to ES-1" in told
    assert "did you mean" not in told


@pytest.mark.parametrize("typed", ["101", "es101", "ES101:"])
def test_an_id_as_people_type_it(typed: str) -> None:
    assert run(typed)[0].startswith("ES-101 OptionError")


def test_a_name_that_there_is_not() -> None:
    told = run("\x1b[2J", code=1)[1]
    assert "expected an error such as ES-101 or OptionError, or an option such as subscribe" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    "typed, nearest",
    [
        ("OptionEror", "ES-101 OptionError"),
        ("evensplit.errors.OptionErorr", "ES-101 OptionError"),
        ("startingOfsets", "startingOffsets"),
        ("maxOffsetPerTriger", "maxOffsetsPerTrigger"),
        ("kafka.clint.id", "kafka.client.id"),
        ("kafka.ssl.trustore.location", "kafka.ssl.truststore.location"),
        ("rewnd", "rewind"),
        ("dashbord", "dashboard"),
        ("exactly onec", "exactly once?"),
        ("poison recrod", "poison record"),
        ("retnetion", "retention or removedRetention?"),
        # Of the words for one thing, the closest.
        ("lossess", "losses?"),
    ],
)
def test_the_nearest_names_are_few_and_the_closest_is_first(typed: str, nearest: str) -> None:
    told = " ".join(run(typed, code=1)[1].split())
    assert f"there is no error, option, metric, alert or command {typed!r}; did you mean {nearest}" in told
    assert len(told.partition("did you mean")[2].split(",")) <= SUGGESTIONS_MAX == 3


@pytest.mark.parametrize("name", [one.name for one in DECLARED])
def test_every_option_by_its_name(name: str) -> None:
    shown = run(name.upper())[0]
    assert shown.startswith(f"{name}\n\nType: ")
    parts = re.findall(r"^([A-Z][a-z]+): .", shown, re.M)
    assert parts == ["Type", "Default", "Where", "Since", "Meaning", "Example"]
    assert "](" not in shown


def test_an_option_as_json() -> None:
    assert json.loads(run("maxrecordsperpartition", "--format", "json")[0]) == {
        "option": "maxRecordsPerPartition",
        "type": "a whole number, 1 or more",
        "default": "no limit",
        "where": "query",
        "since": "0.1.0",
        "meaning": "Maximum number of offsets in a task. Longer ranges are cut into several tasks.",
        "example": "500000",
    }


@pytest.mark.parametrize(
    "typed, told",
    [
        ("maxFilesPerTrigger", "maxFilesPerTrigger\n\nMeaning: it is not an option; use maxOffsetsPerTrigger"),
        ("groupid", "groupId\n\nMeaning: it is not an option; use startingGroup to start where"),
        ("kafka.group.id", "kafka.group.id\n\nMeaning: it is taken and ignored; startingGroup starts where a group"),
        ("KAFKA.retries", "kafka.retries\n\nMeaning: it is taken and ignored: this setting of Kafka's consumer has no"),
        ("client.id", "client.id\n\nMeaning: it is not an option; write kafka.client.id: the settings of Kafka's"),
        (
            "kafka.sasl.mechanism",
            "kafka.sasl.mechanism\n\nMeaning: it works as in Kafka's consumer; see Security",
        ),
        ("kafka.auto.offset.reset", "an error: kafka.auto.offset.reset is given, but it is not supported: where"),
        ("metadata.team", "metadata.<name>\n\nType: a text"),
    ],
)
def test_names_that_people_look_for(typed: str, told: str) -> None:
    assert told in run(typed)[0]


def test_what_is_referred_to_is_a_page_that_there_is() -> None:
    names = [*BY_ID] + [one.name for one in DECLARED]
    named = {page for name in [*names, "kafka.sasl.mechanism"] for page in re.findall(r"\((docs/[^)#]+)", run(name)[0])}
    assert {"docs/reference/options.md", "docs/howto/metadata.md", "docs/migration.md", "docs/assignment.md"} <= named
    assert [page for page in named if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize(
    "word, commands",
    [
        *((name, (name,)) for name in ("rewind", "skip", "undo", "fork", "drop", "rename-cluster")),
        ("Rewound", ("rewind",)),
        ("skipped", ("skip",)),
        ("edit", ("rewind", "skip", "drop", "rename-cluster", "fork", "undo")),
    ],
)
def test_a_word_about_repairs_leads_to_the_command_and_its_page(word: str, commands: tuple[str, ...]) -> None:
    shown, _ = run(word)
    for command in commands:
        assert f"`evensplit {command}`: " in shown
    assert "docs/howto/repair.md" in shown


def test_every_command_is_explained_and_no_option_is_hidden_by_one() -> None:
    for name in COMMANDS:
        assert find(name, evensplit)
    assert find("top", evensplit)["command"] == "evensplit top"
    assert find("top", evensplit)["more"].endswith("[this page](commands.md#evensplit-top).")
    assert not {*COMMAND_WORDS, *SUBJECTS} & {*BY_NAME, *SINK_BY_NAME, *COMMANDS}
    assert not COMMAND_WORDS.keys() & SUBJECTS.keys()


def test_several_words_are_one_name() -> None:
    assert run("Poison", "record") == run("poison record")
    assert "`evensplit skip`: " in run("poison record")[0]


@pytest.mark.parametrize("word", SUBJECTS)
def test_what_people_search_for_leads_to_a_page_that_there_is(word: str) -> None:
    shown, _ = run(word)
    page, _, anchor = re.findall(r"\((docs/\S+\.md)(#?)([^)]*)\)", shown)[-1]
    assert not anchor or anchor in anchors(ROOT / page)
    for command in re.findall(r"evensplit ([a-z]+)", shown):
        assert command in COMMANDS


def test_commands_that_show_the_lag_are_said_with_the_option_that_does_it() -> None:
    shown = " ".join(run("lag")[0].split())
    commands = re.findall(r"`evensplit (?:top|offsets) [^`]*`", shown)
    assert len(commands) == 3
    assert all(one.endswith(" --lag`") for one in commands)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: str(metric.name))
def test_every_metric_by_its_name(metric: Metric) -> None:
    shown, _ = run(metric.name)
    assert shown.startswith(f"{metric.name}\n\nType: {metric.kind}\n")
    assert metric.help in shown


def test_every_alert_by_its_name() -> None:
    for group in yaml.safe_load(files()["alerts.yml"])["groups"]:
        for rule in group["rules"]:
            shown, _ = run(rule["alert"].lower())
            assert shown.startswith(f"{rule['alert']}\n\nMeaning: {rule['annotations']['description']}")
            assert rule["expr"] in shown
            assert rule["alert"].lower() in anchors(ROOT / "docs/reference/metrics.md")
