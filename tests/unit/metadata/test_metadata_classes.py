"""Metadata services that are classes of the user's own: what they are given, and how their answers are checked."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from evensplit.errors import MetadataError
from evensplit.metadata import Metadata, Stream, hidden, open_service
from tests.support.metadata_answers import SECRET, answer, cluster, problem, refused

MANY = {str(number): "" for number in range(501)}
LONG = {"p": "x" * ((1 << 20) + 1)}


class Registry:
    """A service of a user's own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if "fail" in options:
            raise ValueError(f"no such registry{options['fail']}")
        self.answer: Any = answer(options.get("topic", "t"))
        self.closed = False

    def read(self) -> Metadata:
        if isinstance(self.answer, Exception):
            raise self.answer
        result: Metadata = self.answer
        return result

    def close(self) -> None:
        self.closed = True

    class Inner:
        def __init__(self, options: Mapping[str, str]) -> None: ...

        def read(self) -> object:
            return ["x"]


class NoRead:
    def __init__(self, options: Mapping[str, str]) -> None: ...


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "fleet_registry.services", sys.modules[__name__])
    monkeypatch.setitem(sys.modules, "fleet_registry", sys.modules[__name__])
    return "fleet_registry.services"


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_class_of_the_users_own(module: str, separator: str) -> None:
    service: Any = open_service(f"{module}{separator}Registry", options={"topic": "u"})
    assert service.read() == answer("u")
    service.close()
    assert service._service.closed


def test_what_a_users_class_raises_is_passed_on(module: str) -> None:
    service: Any = open_service(f"{module}.Registry")
    service._service.answer = OSError("down")
    with pytest.raises(OSError, match="down"):
        service.read()


def test_a_users_class_that_tells_its_options(module: str) -> None:
    """Also where the message is cut off in the middle of one."""
    for fail in (f": {SECRET}", f"{'x' * 80}{SECRET}"):
        told = refused(f"{module}.Registry", options={"fail": fail, "Key": SECRET})
        assert "<metadata.fail>" in told
    with pytest.raises(MetadataError) as caught:
        open_service(f"{module}.Registry", options={"fail": SECRET})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("https://h/x?token=a%2Fb%20c", "https://h/x?token=<metadata.key>"),
        ("token=a%2Fb+c, a/b c", "token=<metadata.key>, <metadata.key>"),
        ("a/b cd, its id is 7", "<metadata.longer>, its id is 7"),
        (repr('it\'s\n"so"'), "'<metadata.quoted>'"),
        ("nothing", "nothing"),
    ],
)
def test_values_of_options_are_hidden(text: str, expected: str) -> None:
    options = {"key": "a/b c", "longer": "a/b cd", "id": "7", "empty": "", "quoted": 'it\'s\n"so"'}
    assert hidden(text, options) == expected
    assert hidden(text, {}) == text


def test_a_class_that_is_none(module: str) -> None:
    assert "expected a class that can be called with its options, found ValueError: 'no such registry'" in refused(
        f"{module}.Registry", options={"fail": ""}
    )
    assert "expected a class Other in module fleet_registry.services, found none" in refused(f"{module}.Other")
    assert "expected a class SECRET in module" in refused(f"{module}:SECRET")
    assert "expected a method read(), found none in NoRead" in refused(f"{module}.NoRead")
    told = refused("no_such_package.module.Class")
    assert "expected a module no_such_package.module that can be imported, found ModuleNotFoundError" in told
    assert "there is no such file either" in told
    service = open_service(f"{module}:Registry.Inner")
    assert problem(service).endswith("read(): expected evensplit.metadata.Metadata, found list")
    service.close()


@pytest.mark.parametrize(
    "found, expected",
    [
        (Metadata([]), "streams: expected a tuple of Stream, found list"),  # type: ignore[arg-type]
        (Metadata((1,)), "streams: expected a tuple of Stream, found a tuple of int"),  # type: ignore[arg-type]
        (Metadata((), "yes"), "complete: expected a bool, found str"),  # type: ignore[arg-type]
        (Metadata((Stream("s", ("c",)),)), "streams[0].clusters: expected a tuple of ClusterMetadata"),  # type: ignore[arg-type]
        (Metadata((Stream("", ()),)), "streams[0].id: expected a text of 1 to 249 printable characters, found ''"),
        (Metadata((Stream(1, ()),)), "streams[0].id: expected a text of 1 to 249 printable characters, found int"),  # type: ignore[arg-type]
        (Metadata((Stream("s", (), starting_offsets=5),)), "streams[0].starting_offsets: expected a text or a mapping"),
        (Metadata((Stream("s", (cluster("a/b"),)),)), "streams[0].clusters[0].id: expected"),
        (Metadata((Stream("s", (cluster(servers="b:1"),)),)), "bootstrap_servers: expected a tuple of host:port"),
        (Metadata((Stream("s", (cluster(servers=()),)),)), "at least one, found an empty one"),
        (Metadata((Stream("s", (cluster(servers=("hunter2@b",)),)),)), "expected host:port, found 'b'"),
        (Metadata((Stream("s", (cluster(topics="t"),)),)), "topics: expected a tuple of texts, found str"),
        (Metadata((Stream("s", (cluster(topics=("b", "a")),)),)), "topics: expected names in ascending order"),
        (Metadata((Stream("s", (cluster(topics=("",)),)),)), "topics: expected a topic's name"),
        (Metadata((Stream("s", (cluster(properties={"a": 1}),)),)), "properties: expected a mapping of texts to texts"),
        (Metadata((Stream("s", (cluster(properties={"kafka.a": SECRET}),)),)), "properties: expected the name of a"),
        (Metadata((Stream("s", (cluster(properties=MANY),)),)), "expected at most 500 client settings, found 501"),
        (Metadata((Stream("s", (cluster(properties=LONG),)),)), "properties.p: expected a text of at most 1048576"),
        (Metadata((Stream("s", (cluster(), cluster())),)), "streams[0].clusters[1].clusterId: expected each"),
        (Metadata((Stream("s", ()), Stream("s", ()))), "streams[1].streamId: expected each stream once"),
        (
            Metadata((Stream("s", (cluster(),)), Stream("t", (cluster(properties={"p": SECRET}),)))),
            "streams[1].clusters[0].properties: expected those of cluster 'c' as at streams[0].clusters[0]",
        ),
    ],
)  # fmt: skip
def test_answers_of_a_users_class_are_checked(module: str, found: Metadata, expected: str) -> None:
    service: Any = open_service(f"{module}.Registry")
    service._service.answer = found
    assert expected in problem(service)


def test_a_token_where_none_is_used(module: str) -> None:
    for location in ("fleet.yaml", "file:///fleet.yaml", f"{module}.Registry"):
        assert "a token is given, but only http:// and https:// take one" in refused(location, token_env="A")
