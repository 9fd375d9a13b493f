"""Descriptors of messages, the types that they are decoded to, and the kernel's programs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from evensplit.typed.decoding import PROTOBUF_FORMAT, Decoding
from evensplit.typed.protobuf.descriptors import (
    Descriptors,
    find_message,
    from_registry,
    from_set,
    message_at,
    message_indexes,
    messages_in,
)
from evensplit.typed.protobuf.programs import program
from evensplit.typed.protobuf.reading import FIELDS_MAX, LEVELS_MAX, read_type
from evensplit.typed.types import DEPTH_MAX, INT, LONG, Array, Field, Struct, depth
from tests.support.from_json import Answer
from tests.support.from_protobuf import answers_of, compiled, decoding, descriptor_set
from tests.support.protobuf_facts import inside

ORDERS = """
syntax = "proto3";
package shop.orders;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message Order {
  int64 id = 1;
  Money amount = 2;
  repeated Line lines = 3;
  map<string, Line> by_name = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.Duration took = 6;
  oneof paid { string card = 7; bool cash = 8; }
  Order first = 9;
  Nothing nothing = 10;
  message Line { string name = 1; uint32 count = 2; Kind kind = 3; message Deep { bytes x = 1; } Deep deep = 4; }
  enum Kind { PLAIN = 0; GIFT = 1; }
}
message Nothing {}
message Line { float f = 1; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { sfixed64 cents = 1; string currency = 2; }'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The set of ORDERS, as protoc writes it."""
    return compiled(tmp_path_factory.mktemp("protos"), ("shop/money.proto", MONEY), ("orders.proto", ORDERS))


@pytest.fixture(scope="module")
def orders(made: bytes) -> Descriptors:
    """ORDERS."""
    return from_set(made)


def files_of(made: bytes) -> dict[str, FileDescriptorProto]:
    return {file.name: file for file in FileDescriptorSet.FromString(made).file}


def data_of(file: FileDescriptorProto) -> bytes:
    return bytes(file.SerializeToString())


def single(**field: Any) -> Descriptors:
    """A message `M` with one field."""
    file = FileDescriptorProto(name="m.proto", syntax="proto3")
    file.message_type.add(name="M").field.add(name="f", number=1, label=1, **field)
    return from_set(descriptor_set(file))


def test_files_may_come_in_any_order_and_without_those_that_everyone_has(made: bytes, orders: Descriptors) -> None:
    files = files_of(made)
    assert [file.name for file in orders.files][-1] == orders.main.name == "orders.proto"
    fewer = from_set(descriptor_set(files["orders.proto"], files["shop/money.proto"]))
    assert [file.name for file in fewer.files] == ["shop/money.proto", "orders.proto"]
    assert fewer.main.name == "shop/money.proto"
    wanted = ["amount.cents", "at"]
    assert decoding(fewer, "Order", *wanted) == decoding(orders, "Order", *wanted)


def test_what_is_no_set_of_files_that_fit_together(made: bytes) -> None:
    files = files_of(made)
    with pytest.raises(ValueError, match="a descriptor set cannot be read"):
        from_set(b"\xff")
    with pytest.raises(ValueError, match="the descriptor set has no file"):
        from_set(b"")
    with pytest.raises(ValueError, match=r"shop/money.proto is imported, and is not there; expected all imports"):
        from_set(descriptor_set(files["orders.proto"]))
    wrong = FileDescriptorProto(name="w.proto")
    wrong.message_type.add(name="M").field.add(name="f", number=1, label=1, type=11, type_name=".Other")
    with pytest.raises(ValueError, match=r"w\.proto cannot be used: .*Other"):
        from_set(descriptor_set(wrong))
    circle = [FileDescriptorProto(name=one, dependency=[other]) for one, other in (("a", "b"), ("b", "a"))]
    with pytest.raises(ValueError, match="cannot be used"):
        from_set(descriptor_set(*circle))


def test_a_registry_names_files_by_what_imports_them(made: bytes, orders: Descriptors) -> None:
    files = files_of(made)
    files["orders.proto"].name = "default"
    files["shop/money.proto"].name = "money in the registry"
    found = from_set(
        from_registry(data_of(files["orders.proto"]), {"shop/money.proto": data_of(files["shop/money.proto"])})
    )
    assert found.main.name == "default"
    assert decoding(found, "Order", "lines", "amount") == decoding(orders, "Order", "lines", "amount")
    files["orders.proto"].name = "shop/money.proto"
    again = from_set(
        from_registry(data_of(files["orders.proto"]), {"shop/money.proto": data_of(files["shop/money.proto"])})
    )
    assert again.main.name == "shop/money.proto_"
    with pytest.raises(ValueError, match="the schema cannot be read"):
        from_registry(b"{", {})
    with pytest.raises(ValueError, match="the reference 'a' cannot be read"):
        from_registry(b"", {"a": b"\0\0\0"})


def test_messages_are_found_by_name_and_by_indexes(made: bytes, orders: Descriptors) -> None:
    assert find_message(orders, "Money").full_name == "shop.Money"
    assert find_message(orders, "shop.orders.Line").full_name == "shop.orders.Line"
    assert find_message(orders, "Deep").full_name == "shop.orders.Order.Line.Deep"
    with pytest.raises(
        ValueError, match=r"there are 2 messages 'Line'; .*one: shop.orders.Line, shop.orders.Order.Line"
    ):
        find_message(orders, "Line")
    with pytest.raises(
        ValueError, match=r"no message 'X'; expected one of shop.Money, shop.orders.Order, shop.*Nothing, "
    ):
        find_message(orders, "X")
    # Entries of maps count, as in the file.
    messages = messages_in(data_of(files_of(made)["orders.proto"]))
    for name, indexes in (("Order", (0,)), ("shop.orders.Line", (2,)), ("Deep", (0, 1, 0))):
        assert message_indexes(find_message(orders, name)) == indexes
        assert message_at(messages, indexes) == find_message(orders, name).full_name
    with pytest.raises(ValueError, match=r"indexes \[0, 7\] lead nowhere: shop.orders.Order has 2 messages"):
        message_at(messages, (0, 7))
    with pytest.raises(ValueError, match=r"indexes \[-1\] lead nowhere: the file has 3 messages"):
        message_at(messages, (-1,))


def test_the_type_is_that_of_spark(orders: Descriptors) -> None:
    line = "struct<name:string,count:int,kind:string,deep:struct<x:binary>>"
    paths = [(name,) for name in ("id", "amount", "lines", "by_name", "at", "card", "cash")]
    assert str(read_type(orders, "Order", paths)) == (
        "struct<id:bigint,amount:struct<cents:bigint,currency:string>,"
        f"lines:array<{line}>,by_name:map<string,{line}>,at:timestamp,card:string,cash:boolean>"
    )
    pruned = read_type(orders, "Order", [("lines", "Deep", "x"), ("lines", "count"), ("AMOUNT", "cents")])
    assert str(pruned) == "struct<amount:struct<cents:bigint>,lines:array<struct<count:int,deep:struct<x:binary>>>>"


@pytest.mark.parametrize(
    "paths, reason",
    [
        ((), "took is a google.protobuf.Duration, which Spark makes an interval of; nothing is decoded to intervals"),
        ((), "first is a shop.orders.Order, which it is inside of; what is recursive is not decoded"),
        ((("took", "seconds"),), "took is a google.protobuf.Duration"),
        ((("FIRST", "id"), ("id",)), "first is a shop.orders.Order"),
        ((("nothing",),), "nothing is not there; expected one of id, amount"),
        ((("lines", "price"),), "lines.price is not there; expected one of name, count"),
    ],
)
def test_what_is_not_decoded(orders: Descriptors, paths: tuple[tuple[str, ...], ...], reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_type(orders, "Order", paths)
    assert reason in str(caught.value)


def test_messages_that_have_nothing_or_too_much(orders: Descriptors, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the message shop.orders.Nothing has no field that Spark would have"):
        read_type(orders, "Nothing")
    # Each message is in the one before, twice: 2 to the 14th fields.
    twice = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(14))
    source = f'syntax = "proto3"; {twice} message M14 {{ int32 i = 1; }}'
    with pytest.raises(ValueError, match=f"the message has more than {FIELDS_MAX:,} fields"):
        read_type(from_set(compiled(tmp_path, ("m.proto", source))), "M0")
    chain = "".join(f"message M{n} {{ repeated M{n + 1} a = 1; repeated int32 i = 2; }}" for n in range(LEVELS_MAX + 1))
    last = f"message M{LEVELS_MAX + 1} {{ repeated int32 i = 1; }}"
    deep = from_set(compiled(tmp_path, ("m.proto", f'syntax = "proto3"; {chain} {last}')))
    of = read_type(deep, "M1")
    assert depth(of) in (DEPTH_MAX, DEPTH_MAX - 1)
    inner = b""
    for _ in range(LEVELS_MAX):
        inner = b"\x0a" + bytes([len(inner)]) + inner
    assert not answers_of(Decoding(PROTOBUF_FORMAT, of, program=program(deep, "M1", of)), [inner])[0].bad
    with pytest.raises(ValueError, match=f"in more than {LEVELS_MAX} others"):
        read_type(deep, "M0")
    times = (
        'syntax = "proto3"; message Timestamp { uint64 seconds = 1; int32 nanos = 2; } message M { Timestamp t = 1; }'
    )
    with pytest.raises(
        ValueError, match=r"t is a Timestamp, whose fields are not those of google\.protobuf\.Timestamp"
    ):
        read_type(from_set(compiled(tmp_path, ("m.proto", times))), "M")


def test_a_message_becomes_the_fields_that_are_wanted(orders: Descriptors) -> None:
    line = inside(1, b"pen") + b"\x10\x02\x18\x01"
    message = (
        b"\x08\x07" + inside(2, b"\x09" + (250).to_bytes(8, "little")) + inside(3, line) + inside(7, b"x") + b"\x40\x00"
    )
    whole = decoding(orders, "Order", "id", "amount", "lines.name", "lines.kind", "card", "by_name")
    # As a task gets it.
    how = pickle.loads(pickle.dumps(whole))
    assert how == whole
    found = answers_of(how, [message, b"", b"\x08", b"\x0a\x00"])
    assert found == [
        Answer(False, (7, (250, None), (("pen", "GIFT"),), (), None)),
        Answer(False, (None, None, (), (), None)),
        Answer(True, None),
        Answer(True, None),
    ]


def test_a_field_gives_way_to_others_of_its_oneof_that_are_not_asked_for(tmp_path: Path) -> None:
    first = "".join(f"oneof o{n} {{ int32 a{n} = {n + 1}; }}" for n in range(9))
    source = f'syntax = "proto3"; message M {{ {first} oneof last {{ int32 x = 10; string y = 11; int32 z = 12; }} }}'
    how = decoding(from_set(compiled(tmp_path, ("m.proto", source))), "M", "x", "z")
    messages = [b"\x50\x01", b"\x50\x01\x60\x02", b"\x50\x01\x5a\x00", b"\x5a\x00\x50\x01", b"\x50\x01\x08\x05"]
    found = [(1, None), (None, 2), (None, None), (1, None), (1, None)]
    assert answers_of(how, messages) == [Answer(False, one) for one in found]


def test_programs_need_the_fields_that_are_wanted(orders: Descriptors) -> None:
    with pytest.raises(ValueError, match=r"the message shop.Money has no field a, b"):
        program(orders, "Money", Struct((Field("b", INT), Field("cents", LONG), Field("a", INT))))
    with pytest.raises(ValueError, match=r"shop.orders.Order.amount is of type int, expected that of shop.Money"):
        program(orders, "Order", Struct((Field("amount", INT),)))
    cents = Struct((Field("cents", LONG),))
    for wrong in (Struct((Field("cents", INT),)), Struct((Field("cents", Array(LONG)),))):
        with pytest.raises(ValueError, match=r"cents: a field is decoded into .*, which is not its type"):
            answers_of(Decoding(PROTOBUF_FORMAT, wrong, program=program(orders, "Money", cents)), [b""])


@pytest.mark.parametrize(
    "tree, reason",
    [
        (((1, 0, "optional", ("int65",), None),), "there is no kind of field 'int65'"),
        (((1, 0, "often", ("int64",), None),), "there is no label 'often'"),
        (((1, 1, "optional", ("int64",), None),), "field 1 has no column of its own"),
        (((1, 0, "optional", ("int64",), 1),), "field 1 is in oneof 1, expected 0 at most"),
        ((), "0 of 1 columns have a field"),
    ],
)
def test_programs_that_there_are_not(tree: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        answers_of(Decoding(PROTOBUF_FORMAT, Struct((Field("f", LONG),)), program=tree), [b""])
    assert reason.replace("'", '"') in str(caught.value)


def test_descriptors_of_one_name_do_not_meet() -> None:
    one, other = single(type=5), single(type=9)
    assert str(read_type(one, "M")) == "struct<f:int>"
    assert str(read_type(other, "M")) == "struct<f:string>"
