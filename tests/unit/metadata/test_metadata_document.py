"""Metadata documents: what they mean, and every problem at once, with its line and its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from evensplit.errors import MetadataError
from evensplit.metadata import ClusterMetadata, Metadata, Stream
from evensplit.metadata.document import Format
from tests.support.metadata_answers import FLINK, SECRET, parse, problems


def parse_json(document: Any) -> Metadata:
    return parse(json.dumps(document), "json")


def cluster(text: str = "", **changes: str) -> str:
    """A document of one stream with one cluster, on lines 1 to 5, and more lines of the cluster."""
    fields = {"clusterId": "c", "bootstrapServers": "b:1", "topics": "[t]", **changes}
    lines = [f"      {name}: {value}" for name, value in fields.items()]
    lines[0] = f"    - {lines[0].strip()}"
    return (
        "\n".join(["- streamId: s", "  clusterMetadataList:", *lines, *(f"      {line}" for line in text.split("\n"))])
        + "\n"
    )


def test_the_format_of_flink() -> None:
    assert parse(FLINK) == Metadata(
        (
            Stream(
                "stream0",
                (
                    ClusterMetadata("cluster0", ("bootstrap-server-0:443",), ("topic0", "topic1")),
                    ClusterMetadata("cluster1", ("bootstrap-server-1:443",), ("topic2", "topic3")),
                ),
            ),
            Stream("stream1", (ClusterMetadata("cluster2", ("bootstrap-server-2:443",), ("topic4", "topic5")),)),
        )
    )


def test_json_says_the_same_as_yaml() -> None:
    indented = json.dumps(yaml.safe_load(FLINK), indent="\t")
    assert parse(indented, "json") == parse(FLINK)


def test_places_are_for_messages_only() -> None:
    answer = parse(FLINK)
    assert answer.streams[1].where == "fleet, line 13, [1]"
    assert answer.streams[0].clusters[1].where == "fleet, line 7, [0].clusterMetadataList[1]"
    assert parse("\n" + FLINK) == answer


def test_all_fields() -> None:
    answer = parse(
        """\
        - streamId: s
          startingOffsets: -10m
          endingOffsets: latest
          clusterMetadataList:
            - clusterId: c
              bootstrapServers: "b:1, [::1]:2 ,b:1"
              topics: [u, t, 2024, u]
              properties: {client.rack: a, fetch.min.bytes: 100, x: 0123, flag: true}
              startingOffsets: {t: {0: 23, "1": -2}, u: earliest}
              endingOffsets: -1000
        """
    )
    found = ClusterMetadata(
        "c",
        ("b:1", "[::1]:2"),
        ("2024", "t", "u"),
        {"client.rack": "a", "fetch.min.bytes": "100", "x": "0123", "flag": "true"},
        {"t": {"0": 23, "1": -2}, "u": "earliest"},
        "-1000",
    )
    assert answer == Metadata((Stream("s", (found,), "-10m", "latest"),))


def test_a_cluster_without_id_is_called_by_its_servers() -> None:
    text = "- streamId: s\n  clusterMetadataList: [{bootstrapServers: 'b:1,b:2', topics: []}]\n"
    assert parse(text).streams[0].clusters == (ClusterMetadata("b:1,b:2", ("b:1", "b:2"), ()),)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_an_empty_list_is_an_answer(form: Format) -> None:
    assert parse("[]", form) == Metadata((), complete=True)


def test_aliases_are_read() -> None:
    text = """\
        - streamId: a
          clusterMetadataList:
            - &c {clusterId: c, bootstrapServers: "b:1", topics: [t], properties: {x: y}}
        - streamId: b
          clusterMetadataList: [*c]
        """
    first, second = parse(text).streams
    assert first.clusters == second.clusters


def test_what_flink_calls_a_stream_may_stand_there() -> None:
    tag = "!!org.apache.flink.connector.kafka.testutils.YamlFileMetadataService$StreamMetadata"
    assert parse(f"- {tag} {{streamId: s, clusterMetadataList: []}}\n") == Metadata((Stream("s", ()),))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", "it is empty; an empty list, [], is how to say that there are no streams"),
        ("# nothing\n", "it is empty; an empty list, [], is how to say that there are no streams"),
        (
            "streamId: s\n",
            "line 1, the document: expected a list of streams, each with streamId and clusterMetadataList, "
            "found a mapping of 1",
        ),
        ("- x\n", "line 1, [0]: expected a mapping with streamId, clusterMetadataList, found a text"),
        (
            "- streamId: s\n  clusterMetadataList:\n",
            "line 2, [0].clusterMetadataList: expected a list of clusters, each with clusterId, bootstrapServers and "
            "topics, found nothing",
        ),
        ("- streamId: s\n", "line 1, [0].clusterMetadataList: expected this field, found none"),
        (
            "- {streamId: '', clusterMetadataList: []}\n",
            "line 1, [0].streamId: expected a text of 1 to 249 printable characters, found ''",
        ),
        (
            "- {streamId: s, clusterMetadataList: [], clusterMetaDataLists: []}\n",
            "line 1, [0]: expected the fields streamId, clusterMetadataList, startingOffsets, endingOffsets, "
            "found 'clusterMetaDataLists'; did you mean clusterMetadataList?",
        ),
        (
            "- streamId: s\n  clusterMetadataList: []\n  streamId: t\n",
            "line 3, [0]: expected each name once, found 'streamId' again, after line 1",
        ),
        (
            "- {streamId: s, clusterMetadataList: []}\n- {streamId: s, clusterMetadataList: []}\n",
            "line 2, [1].streamId: expected each stream once, found 's' again, which is at line 1, [0] too",
        ),
        ("[]\n---\n[]\n", "line 2: a second document begins; expected one"),
        ("- a\n- [\n", "line 3: it is not YAML: did not find expected node content (column 1)"),
        ("- !!python/object/apply:os.system [true]\n", "line 1: a tag (!) stands there; expected none, and a text "
         "with ! in quotes"),
        ("- &a [*a]\n", "line 1: an alias stands inside of what it stands for"),
        ("-\n - *a\n", "line 2: an alias (*) stands for nothing before it; put a text with * in quotes"),
        ("- a\n- b", "line 2: it ends in the middle of a line, as a file does that is being written; end it with a "
         "line break"),
        ("[" * 100, "line 1: lists and mappings are more than 16 deep in each other"),
    ],
)  # fmt: skip
def test_one_problem_of_a_document(text: str, expected: str) -> None:
    assert problems(text) == (expected,)


TOPIC = "expected a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', other than '.' and '..'"
CLUSTER_ID = "expected a text of 1 to 249 printable characters without a slash"
BOOTSTRAP = "expected host:port, or [address]:port for IPv6, with a port from 1 to 65535, separated by commas"
PROPERTY = (
    "expected the name of a client setting, of at most 249 characters, without 'kafka.' and without spaces around it, "
    "other than bootstrap.servers, which has a field of its own"
)


@pytest.mark.parametrize(
    "text, expected",
    [
        (cluster(topics="t"), "line 5, {}.topics: expected a list of topics, found a text"),
        (cluster(topics=""), "line 5, {}.topics: expected a list of topics, found nothing"),
        (cluster(topics="['']"), f"line 5, {{}}.topics[0]: {TOPIC}, found ''"),
        (cluster(topics="[t, ..]"), f"line 5, {{}}.topics[1]: {TOPIC}, found '..'"),
        (cluster(topics="[a b]"), f"line 5, {{}}.topics[0]: {TOPIC}, found 'a b'"),
        (cluster(topics=f"[{'x' * 250}]"), f"line 5, {{}}.topics[0]: {TOPIC}, found '{'x' * 100}…'"),
        (cluster(topics="[[t]]"), f"line 5, {{}}.topics[0]: {TOPIC}, found a list of 1"),
        (cluster(clusterId="''"), f"line 3, {{}}.clusterId: {CLUSTER_ID}, found ''"),
        (cluster(clusterId="a/b"), f"line 3, {{}}.clusterId: {CLUSTER_ID}, found 'a/b'"),
        (cluster(clusterId='"a\\tb"'), f"line 3, {{}}.clusterId: {CLUSTER_ID}, found 'a\\tb'"),
        (cluster(clusterId="x" * 250), f"line 3, {{}}.clusterId: {CLUSTER_ID}, found '{'x' * 100}…'"),
        (cluster(clusterId="[]"), f"line 3, {{}}.clusterId: {CLUSTER_ID}, found a list of 0"),
        (cluster(bootstrapServers="b"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found 'b'"),
        (cluster(bootstrapServers="b:0"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found 'b:0'"),
        (cluster(bootstrapServers="'b:1,'"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found ''"),
        (cluster(bootstrapServers="'[::g]:1'"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found '[::g]:1'"),
        (cluster(bootstrapServers="[b:1]"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found a list of 1"),
        (cluster(bootstrapServers=f"u:{SECRET}@b:1"), f"line 4, {{}}.bootstrapServers: {BOOTSTRAP}, found 'b:1'"),
        (
            cluster(f"properties: {SECRET}"),
            "line 6, {}.properties: expected a mapping from names of client settings to texts, numbers or flags, "
            "found a text",
        ),
        (
            cluster(f"properties:\n  sasl.password: [{SECRET}]"),
            "line 7, {}.properties.'sasl.password': expected a text, a number or a flag, found a list of 1",
        ),
        (
            cluster(f"properties: {{kafka.sasl.password: {SECRET}}}"),
            f"line 6, {{}}.properties: {PROPERTY}, found 'kafka.sasl.password'",
        ),
        (
            cluster("properties: {bootstrap.servers: 'b:1'}"),
            f"line 6, {{}}.properties: {PROPERTY}, found 'bootstrap.servers'",
        ),
        (cluster("startingOffsets: []"), "line 6, {}.startingOffsets: expected a text or a mapping, found a list of 0"),
        (
            cluster("endingOffsets: {t: {0: [1]}}"),
            "line 6, {}.endingOffsets.t.0: expected a text, a whole number or a mapping, found a list of 1",
        ),
        (
            cluster("topic: [t]"),
            "line 6, {}: expected the fields clusterId, bootstrapServers, topics, properties, startingOffsets, "
            "endingOffsets, found 'topic'; did you mean topics?",
        ),
    ],
)
def test_one_problem_of_a_cluster(text: str, expected: str) -> None:
    assert problems(text) == (expected.replace("{}", "[0].clusterMetadataList[0]"),)


def test_every_problem_at_once() -> None:
    text = f"""\
        - streamId: s
          clusterMetadataList:
            - {{clusterId: c, bootstrapServers: "b:1", topics: [t]}}
            - {{clusterId: c, bootstrapServers: "b", topics: [..]}}
        - streamId: t
          clusterMetadataList:
            - {{clusterId: c, bootstrapServers: "b:2", topics: [t], properties: {{password: {SECRET}}}}}
            - {{topics: []}}
        """
    assert problems(text) == (
        f"line 4, [0].clusterMetadataList[1].bootstrapServers: {BOOTSTRAP}, found 'b'",
        f"line 4, [0].clusterMetadataList[1].topics[0]: {TOPIC}, found '..'",
        "line 8, [1].clusterMetadataList[1].bootstrapServers: expected this field, found none",
        "line 4, [0].clusterMetadataList[1].clusterId: expected each cluster once in a stream, found 'c' again, which "
        "is at line 3, [0].clusterMetadataList[0] too",
        "line 7, [1].clusterMetadataList[0].bootstrapServers: expected those of cluster 'c' as at line 3, "
        "[0].clusterMetadataList[0], since one id is one cluster, b:1; found b:2",
        "line 7, [1].clusterMetadataList[0].properties: expected those of cluster 'c' as at line 3, "
        "[0].clusterMetadataList[0], since one id is one cluster; found others: password",
    )


def test_the_order_of_servers_makes_no_other_cluster() -> None:
    def stream(name: str, servers: str) -> dict[str, Any]:
        return {
            "streamId": name,
            "clusterMetadataList": [{"clusterId": "c", "bootstrapServers": servers, "topics": []}],
        }

    assert len(parse_json([stream("a", "b:1,b:2"), stream("b", "b:2,b:1")]).streams) == 2


def test_of_very_many_problems_the_first_are_told() -> None:
    found = problems("[" + "1," * 1000 + "1]")
    assert len(found) == 101
    assert found[-1] == "and 901 more"


def test_secrets_are_in_no_repr() -> None:
    answer = parse(cluster(f"properties: {{password: {SECRET}}}"))
    assert answer.streams[0].clusters[0].properties == {"password": SECRET}
    assert SECRET not in repr(answer)


def test_settings_have_bounds() -> None:
    """They are looked through one by one, and whoever writes metadata may be anybody."""

    def read(properties: dict[str, str]) -> Metadata:
        one = {"clusterId": "c", "bootstrapServers": "b:1", "topics": ["t"], "properties": properties}
        return parse_json([{"streamId": "s", "clusterMetadataList": [one]}])

    most = {f"p{number}": "x" for number in range(499)} | {"n" * 249: "x" * (1 << 20)}
    assert read(most).streams[0].clusters[0].properties == most
    for wrong, expected in (
        ({**most, "more": "x"}, "expected at most 500 client settings, found 501"),
        ({"n" * 250: "x"}, "expected the name of a client setting, of at most 249 characters"),
        (
            {"p": "x" * ((1 << 20) + 1)},
            "properties.p: expected a text of at most 1048576 characters, found one of 1048577",
        ),
    ):
        with pytest.raises(MetadataError) as caught:
            read(wrong)
        (problem,) = caught.value.problems
        assert expected in problem
        assert len(problem) < 500
