"""What tasks make of what a registry says: of one schema, that its values cannot be decoded; of all else, an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping

import pytest

from evensplit.errors import (
    LibraryMissing,
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    SchemaUnknown,
    SchemaUnusable,
)
from evensplit.registry import kept
from evensplit.registry.client import ID_MAX, Registry
from evensplit.registry.kept import MISSED_S, Missed
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.task import writers
from evensplit.spark.task.writers import UNKNOWN_MAX, SideDecodings, Writers
from evensplit.typed.decoding import AVRO_FORMAT, PROTOBUF_FORMAT, Decoding, Written
from evensplit.typed.readers import AvroReader, ProtobufReader
from evensplit.typed.types import Struct
from tests.support.registry_clients import Skipping, client, refusal
from tests.support.registry_server import FakeRegistry, Trouble, gone, nonsense, status

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
WIDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})
UNUSED = SideDecodings(None, None)


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        running.add("orders-value", "AVRO", ORDER)
        running.add("orders-value", "AVRO", WIDER)
        yield running


def settings(fake: FakeRegistry, timeout_ms: int = 20_000, **values: str) -> RegistrySettings:
    given = {name.replace("_", "."): value for name, value in values.items()}
    return RegistrySettings.of({"url": fake.url, **given}, timeout_ms=timeout_ms)


def task(registries: Mapping[str, RegistrySettings], home: RegistrySettings | None = None) -> Writers:
    """What a new task asks, whose values are read by schema 1."""
    reader = AvroReader(ORDER, (), 1)
    decoding = Decoding(AVRO_FORMAT, reader.fields().decoded(), framed=True, by_writer=True, reader=reader)
    return Writers(UNUSED, SideDecodings(decoding, None), registries, home)


def of(writers: Writers, schema_id: int, cluster: str = "east") -> Written:
    """What becomes of values that this schema has written."""
    return writers(cluster, ("value", schema_id, ()))[0]


def why(written: Written) -> str:
    """Why such values cannot be decoded."""
    assert written[0] == "refused", written
    return str(written[1])


def test_values_of_another_schema_are_decoded(fake: FakeRegistry) -> None:
    one = task({"east": settings(fake)})
    assert [of(one, number)[0] for number in (1, 2)] == ["avro", "avro"]
    home = task({"east": settings(fake)}, settings(fake))
    before = len(fake.asked)
    assert of(home, 1)[0] == "avro"
    assert len(fake.asked) == before


@pytest.mark.parametrize(
    "trouble, said",
    [
        (status(404, None, b'{"error_code": 40403}'), "schema 7: it has no such schema (error 40403)"),
        (status(404, None, b'{"error_code": 40499}'), "schema 7: it does not have it (error 40499)"),
        (status(422, None, b'{"error_code": 42201}'), "found status 422, error 42201: it does not give this schema"),
        (nonsense(b'{"schema": "x", "schemaType": "XML"}'), "expected a schemaType of AVRO, JSON, PROTOBUF"),
        (nonsense(json.dumps({"schema": "x", "references": [7] * 257}).encode()), "expected at most 256 references"),
        (nonsense(b'{"schema": "{\\"type\\": \\"record\\"}"}'), "schema 7: "),
        (nonsense(b'{"schema": "\\ud800"}'), "schema 7: expected a schema in Unicode"),
        (nonsense(b'{"schema": "' + b"[" * 100_000 + b'"}'), "schema 7: "),
        (nonsense(b'{"schema": "{}", "schemaType": "JSON"}'), "schema 7: it is written by schema 7, of JSON"),
    ],
)
def test_what_is_wrong_with_one_schema_is_about_its_values(fake: FakeRegistry, trouble: Trouble, said: str) -> None:
    one = task({"east": settings(fake)})
    fake.troubles.append(trouble)
    assert said in why(of(one, 7))
    assert of(one, 2)[0] == "avro"


def test_a_circle_is_about_its_values(fake: FakeRegistry) -> None:
    made = fake.add("a", "AVRO", ORDER, (("B", "b", 1),))
    fake.add("b", "AVRO", WIDER, (("A", "a", 1),))
    with pytest.raises(SchemaUnusable):
        Registry(settings(fake)).schema_by_id(made)
    assert "which needs it" in why(of(task({"east": settings(fake)}), made))


@pytest.mark.parametrize(
    "trouble, kind",
    [
        (status(404), RegistryError),
        (status(404, None, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'), RegistryError),
        (status(422, None, b'{"detail": "no"}'), RegistryError),
        (nonsense(), RegistryError),
        (nonsense(b'{"status": "UP"}'), RegistryError),
        (status(401), RegistryRefused),
        (status(403), RegistryRefused),
        (gone, RegistryUnreachable),
    ],
)
def test_what_is_wrong_with_the_registry_ends_the_task(
    fake: FakeRegistry, trouble: Trouble, kind: type[RegistryError]
) -> None:
    """Else a wrong path or password would make null of whole topics."""
    one = task({"east": settings(fake, timeout_ms=200)})
    fake.troubles.extend([trouble] * 100)
    refusal(lambda: of(one, 7), kind)


def test_ids_that_no_registry_gives_are_not_asked_for(fake: FakeRegistry) -> None:
    """The frame has 32 bits without a sign."""
    one = task({"east": settings(fake)})
    for number in (ID_MAX + 1, 2**32 - 1):
        assert f"schema {number}: expected an id of at most 2147483647" in why(of(one, number))
        refusal(lambda number=number: client(fake).schema_by_id(number), SchemaUnknown)  # type: ignore[misc]
    assert fake.asked == []
    assert "it has no such schema" in why(of(one, ID_MAX))


def test_an_unknown_id_is_asked_for_once_by_all_tasks_of_a_process(fake: FakeRegistry) -> None:
    own = settings(fake)
    for _ in range(5):
        assert "schema 99: it has no such schema (error 40403)" in why(of(task({"east": own}), 99))
    assert fake.asked == ["/schemas/ids/99"]


def test_a_task_asks_for_so_many_unknown_ids_and_no_more(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    # A thousand questions may take longer than what was not there is remembered for.
    monkeypatch.setattr("evensplit.registry.client.MISSED", Missed(missed_s=600))
    own, known = settings(fake), 2
    Registry(own).schema_by_id(known)
    one = task({"east": own})
    asked = len(fake.asked)
    for number in range(1000, 1000 + UNKNOWN_MAX):
        assert "it has no such schema" in why(of(one, number))
    for number in range(5000, 5050):
        assert why(of(one, number)) == (
            f"schema {number}: the registry was not asked for it, since it could not give {UNKNOWN_MAX} others that "
            "this task has met"
        )
    assert len(fake.asked) - asked == UNKNOWN_MAX
    # What is known costs no question.
    assert of(one, known)[0] == "avro"
    assert "it has no such schema" in why(of(one, 1000))
    # Another task begins anew.
    assert "it has no such schema" in why(of(task({"east": own}), 5000))
    assert len(fake.asked) - asked == UNKNOWN_MAX + 1


def test_each_registry_has_its_own_share_of_questions(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "UNKNOWN_MAX", 1)
    with FakeRegistry() as west:
        west.add("s", "AVRO", ORDER)
        west.add("s", "AVRO", WIDER)
        one = task({"east": settings(fake), "west": settings(west)})
        assert "it has no such schema" in why(of(one, 99))
        assert "was not asked" in why(of(one, 98))
        assert of(one, 2, "west")[0] == "avro"


def test_what_is_registered_later_is_decoded_a_minute_later(fake: FakeRegistry) -> None:
    clock = Skipping()
    registry = client(fake, clock=clock)
    for _ in range(2):
        refusal(lambda: registry.schema_by_id(3), SchemaUnknown)
    made = fake.add("late", "AVRO", '"string"')
    assert made == 3
    clock.sleep(MISSED_S - 1)
    refusal(lambda: registry.schema_by_id(3), SchemaUnknown)
    assert fake.asked == ["/schemas/ids/3"]
    clock.sleep(1)
    assert registry.schema_by_id(3).text == '"string"'


def test_logins_do_not_share_what_they_could_not_have() -> None:
    with FakeRegistry(users={"alice": "a", "bob": "b"}) as fake:
        for user in ("alice:a", "bob:b", "alice:a"):
            one = task({"east": settings(fake, basic_auth_user_info=user)})
            assert "it has no such schema" in why(of(one, 9))
        assert len(fake.asked) == 2


def test_only_so_much_is_remembered_of_what_could_not_be_had() -> None:
    one, at = Missed(2, 60.0), RegistrySettings(("http://r",))
    for number in range(3):
        one.put(at, number, SchemaUnknown("http://r", str(number)), float(number))
    assert [str(one.get(at, number, 3.0)) for number in range(3)] == [
        "None",
        "schema registry http://r: 1",
        "schema registry http://r: 2",
    ]
    assert one.get(at, 1, 61.0) is None
    assert isinstance(one.get(at, 2, 61.9), SchemaUnknown)
    assert len(one) == 1
    one.clear()
    assert len(one) == 0
    assert kept.MISSED_MAX == 10_000


def test_a_cluster_without_a_registry(fake: FakeRegistry) -> None:
    assert why(of(task({"east": settings(fake)}), 2, "west")) == "schema 2: cluster west has no schema.registry.url"
    assert fake.asked == []


@pytest.mark.parametrize("kind, library", [("AVRO", "fastavro"), ("PROTOBUF", "google.protobuf")])
def test_a_library_that_executors_lack_is_named(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch, kind: str, library: str
) -> None:
    text = ORDER.replace("Order", f"Never{kind}") if kind == "AVRO" else "message NeverBefore {}"
    made = fake.add("new", kind, text)
    reader = AvroReader(text.replace("Never", "Also")) if kind == "AVRO" else ProtobufReader("A", (0,))
    form = AVRO_FORMAT if kind == "AVRO" else PROTOBUF_FORMAT
    decoding = Decoding(form, Struct(()), framed=True, by_writer=True, reader=reader)
    one = Writers(UNUSED, SideDecodings(decoding, None), {"east": settings(fake)})
    fake.troubles.append(
        nonsense(json.dumps({"schema": text if kind == "AVRO" else "CgdhLnByb3Rv", "schemaType": kind}).encode())
    )
    for name in {library, *(one for one in sys.modules if one.startswith(f"{library}."))}:
        # So Python says that there is none.
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        LibraryMissing, match=r"takes .*run pip install 'evensplit\[typed\]' on the executors"
    ) as caught:
        of(one, made)
    assert caught.value.library.startswith(library)
