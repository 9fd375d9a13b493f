"""What is known of Spark's `from_protobuf`: types, and messages of them, one for each fact."""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """A file whose message `Root` these messages are of."""

    name: str
    source: str
    messages: tuple[bytes, ...]


def field(number: int, wire_type: int, rest: bytes) -> bytes:
    """A field with a number up to 15."""
    return bytes([number << 3 | wire_type]) + rest


def inside(number: int, *parts: bytes) -> bytes:
    """A message, text, or packed list up to 127 bytes."""
    whole = b"".join(parts)
    return field(number, 2, bytes([len(whole)]) + whole)


PROTO3 = """
syntax = "proto3";
package facts;
import "google/protobuf/any.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { option allow_alias = true; ZERO = 0; ONE = 1; UN = 1; MINUS = -1; }
message Nothing { Nothing2 nothing = 1; map<string, Nothing2> nothings = 2; message Nothing2 {} }
message Inner { int32 number = 1; string text = 2; repeated fixed32 list = 3; optional Kind kind = 4; }
"""

MESSAGES = (
    Fact(
        "what is missing, and what stands for it",
        PROTO3 + "message Root { bool b = 1; int32 i = 2; double d = 3; string s = 4; bytes x = 5; Kind e = 6;"
        "optional int32 o = 7; Inner m = 8; repeated int32 l = 9; map<int32, Inner> a = 10; Nothing n = 11;"
        "google.protobuf.Empty y = 12; repeated google.protobuf.Empty ys = 13; sint32 z = 14; float f = 15; }",
        (
            b"",
            b"\x08\x00\x10\x00\x19" + bytes(8) + b"\x22\x00\x2a\x00\x30\x00\x38\x00\x42\x00\x4a\x00\x52\x00",
            b"\x19" + bytes(7) + b"\x80" + b"\x7d" + bytes(3) + b"\x80",
            b"\x10\x05\x10\x00\x22\x01a\x22\x00\x30\x01\x30\x00",
            b"\x5a\x00\x62\x00\x6a\x00",
            b"\x58\x00",
            b"\x70\x01\x70\x00",
        ),
    ),
    Fact(
        "numbers in more bytes, or with more bits, than they need",
        PROTO3 + "message Root { int64 l = 1; int32 i = 2; bool b = 3; sint64 z = 4; repeated bool s = 5; Kind e = 6;"
        "uint32 u = 7; uint64 v = 8; fixed32 x = 9; fixed64 y = 10; }",
        (
            b"\x08" + b"\xff" * 9 + b"\x01",
            b"\x08" + b"\xff" * 9 + b"\x00",
            b"\x08" + b"\x80" * 9 + b"\x00",
            b"\x08" + b"\x80" * 9 + b"\x7e" + bytes(0),
            b"\x08" + b"\x80" * 10 + b"\x00",
            b"\x08" + b"\xff" * 9,
            b"\x10\xff\xff\xff\xff\xff\x7f",
            b"\x10\x80\x80\x80\x80\x10",
            b"\x18" + b"\x80" * 9 + b"\x00",
            b"\x18\x80\x80\x00",
            b"\x18\x80\x80\x80\x80\x80\x20",
            b"\x20" + b"\xff" * 9 + b"\x01",
            b"\x88\x80\x80\x80\x80\x80\x00\x05",
            b"\x88\x80\x80\x80\x80\x01\x05",
            b"\x2a\x03\x80\x80\x00\x28\x02",
            b"\x30\x81\x80\x80\x80\x10",
            b"\x38\xff\xff\xff\xff\x0f\x40" + b"\xff" * 9 + b"\x01\x4d\xff\xff\xff\xff\x51" + b"\xff" * 8,
            inside(2, b"\x01"),
        ),
    ),
    Fact(
        "enums in proto3",
        PROTO3 + "message Root { Kind e = 1; repeated Kind l = 2; map<string, Kind> m = 3; optional Kind o = 4; }",
        (b"\x08\x01", b"\x08\x07", inside(2, b"\x00\x01\x07"), inside(3, b"\x0a\x01k\x10\x07"), b"\x1a\x00\x20\x00"),
    ),
    Fact(
        "text that is no UTF-8 in proto3",
        PROTO3 + "message Root { string s = 1; repeated string l = 2; map<string, string> m = 3; }",
        (b"\x0a\x01\xff", b"\x12\x03\xed\xa0\x80", b"\x1a\x03\x0a\x01\xc3", b"\x0a\x04\xf0\x9f\x98\x80"),
    ),
    Fact(
        "messages that come in pieces",
        PROTO3 + "message Root { Inner a = 1; oneof one { Inner b = 2; string c = 3; Kind d = 4; }"
        "repeated Inner l = 5; map<string, Inner> m = 6; repeated int32 n = 7; }",
        (
            inside(1, b"\x08\x05") + inside(1, inside(2, b"x")),
            inside(1, inside(3, bytes(4))) + b"\x38\x01" + inside(1, b"\x1d\x01\x00\x00\x00") + b"\x38\x02",
            inside(1, b"\x08\x05") + inside(1, b"\x08\x00"),
            inside(1, b"\x08\x05") + inside(1, b"\x08"),
            inside(2, b"\x08\x05") + b"\x1a\x00",
            inside(2, b"\x08\x05") + b"\x1a\x00" + inside(2),
            b"\x1a\x01x" + inside(2) + inside(2, b"\x08\x05"),
            b"\x1a\x01x\x20\x09",
            inside(5) + inside(7, b"\x01\x02") + inside(5, b"\x08\x05") + b"\x38\x03",
            inside(6, inside(1, b"k"), inside(2, b"\x08\x05"), inside(2, inside(2, b"x"))),
            inside(6, inside(2, b"\x08\x05")) * 2,
            inside(6, inside(1, b"a"), inside(1, b"b"), b"\x18\x00"),
            inside(1, b"\x0a\x00"),
            inside(1, b"\x18\x05\x20\x09"),
        ),
    ),
    Fact(
        "times",
        PROTO3 + "message Root { google.protobuf.Timestamp t = 1; repeated google.protobuf.Timestamp l = 2;"
        "map<string, google.protobuf.Timestamp> m = 3; Own o = 4; oneof one { google.protobuf.Timestamp a = 5;"
        "int32 b = 6; } message Own { message Timestamp { int64 seconds = 1; int32 nanos = 2; } Timestamp t = 1; } }",
        (
            b"\x0a\x00\x12\x00\x1a\x00\x22\x00",
            inside(1, b"\x08\x05\x10\xe7\x07"),
            inside(1, b"\x08\x05\x10" + b"\xff" * 9 + b"\x01"),
            inside(1, b"\x10\xcf\xfc\xff\xff\xff\xff\xff\xff\xff\x01"),
            inside(1, b"\x08" + b"\xff" * 8 + b"\x7f"),
            inside(1, b"\x08" + b"\x80" * 8 + b"\x20"),
            inside(1, b"\x08" + b"\x80" * 8 + b"\x10"),
            inside(1, b"\x08" + b"\x80" * 8 + b"\x10") + inside(1, b"\x10\x64"),
            inside(1, b"\x08" + b"\x80" * 8 + b"\x10") + inside(1, b"\x08\x01"),
            inside(5, b"\x08" + b"\xff" * 8 + b"\x7f"),
            inside(5, b"\x08" + b"\xff" * 8 + b"\x7f") + b"\x30\x01",
            inside(2, b"\x08" + b"\xff" * 8 + b"\x7f"),
            inside(4, inside(1, b"\x08\x05\x18\x00")),
            inside(4, inside(1, b"\x0a\x00")),
            inside(1, b"\x0b\x0c"),
            inside(1, b"\x0b"),
        ),
    ),
    Fact(
        "messages that everyone has",
        PROTO3 + "message Root { google.protobuf.Any a = 1; google.protobuf.Int64Value i = 2;"
        "google.protobuf.StringValue s = 3; google.protobuf.UInt32Value u = 4; google.protobuf.BytesValue b = 5; }",
        (
            b"",
            b"\x0a\x00\x12\x00\x1a\x00",
            inside(1, inside(1, b"t"), inside(2, b"v")) + inside(2, b"\x08\x05"),
            inside(3, inside(1, b"x")) + inside(4, b"\x08\xff\xff\xff\xff\x0f") + inside(5, inside(1, b"\x00")),
        ),
    ),
    Fact(
        "the wire",
        PROTO3 + "message Root { int32 i = 1; Inner m = 2; }",
        (
            *(b"\x00", b"\x02", b"\x08", b"\x0c", b"\x0b\x0c", b"\x0e", b"\x0f", b"\x7e", b"\x7f", b"\x7c"),
            *(b"\x7b\x7c", b"\x7b\x74", b"\x7b", b"\x7b\x00\x7c", b"\x12\x02\x7b\x7c", b"\x12\x01\x7c", b"\x7a\x05a"),
            *(b"\x12\xff\xff\xff\xff\x0f", b"\x12\xff\xff\xff\xff\x07", b"\x7d\x00\x00", b"\x79\x00", b"\x12\x01\x00"),
            *(b"\x7b" * depth + b"\x7c" * depth for depth in (100, 101)),
            *(inside(2, b"\x7b" * depth, b"\x7c" * depth) for depth in (60,)),
            b"\x12\xc6\x01" + b"\x7b" * 99 + b"\x7c" * 99,
            b"\x12\xc8\x01" + b"\x7b" * 100 + b"\x7c" * 100,
        ),
    ),
    Fact(
        "proto2",
        """
        syntax = "proto2";
        package facts;
        enum Kind { FIVE = 5; ZERO = 0; }
        enum Few { NONE = 0; SOME = 1; }
        message Inner { optional Kind e = 1; repeated Kind l = 2; map<string, Few> m = 3; optional string s = 4; }
        message Root {
          optional int32 i = 1 [default = -7];
          optional string s = 2 [default = "K\\303\\266ln"];
          optional Kind e = 3;
          optional Kind f = 4 [default = ZERO];
          optional group G = 5 { optional int32 a = 1 [default = 3]; optional int32 b = 2; }
          repeated group H = 6 { optional int32 a = 1; }
          optional Inner inner = 7;
          oneof one { int32 a = 8 [default = 9]; string b = 9; Kind c = 10; }
          repeated Kind l = 11;
          optional bytes x = 12 [default = "\\377\\000"];
          repeated string texts = 13;
          optional double d = 14 [default = inf];
          optional uint64 u = 15 [default = 18446744073709551615];
          extensions 100 to 200;
        }
        extend Root { optional int32 extended = 100; }
        """,
        (
            b"",
            b"\x08\x00\x12\x00\x20\x05",
            *(b"\x18\x05", b"\x18\x07", b"\x18\x00", b"\x58\x07", inside(11, b"\x05\x07"), b"\x50\x07", b"\x48\x00"),
            inside(7, b"\x08\x07", inside(2, b"\x05\x07\x00"), b"\x10\x07\x10\x00"),
            inside(7, inside(3, inside(1, b"k"), b"\x10\x07")),
            inside(7, inside(3)),
            b"\x2b\x10\x05\x2c",
            b"\x2b\x10\x05\x2c\x40\x01\x2b\x08\x07\x2c",
            b"\x2b\x10\x05",
            b"\x2b\x10\x05\x34",
            b"\x2a\x00",
            b"\x33\x34\x33\x08\x05\x34",
            b"\x40\x01\x4a\x01x",
            b"\x4a\x01x\x40\x01",
            b"\x4a\x01x\x50\x05\x50\x07",
            inside(7, b"\x22\x03\xed\xa0\x80"),
            *(b"\x12" + bytes([len(text)]) + text for text in (b"\xff", b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xa0A")),
            *(
                inside(13, text)
                for text in (b"\xc0\xaf", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"\xedA")
            ),
            inside(2, b"\xf0\x9f\x98\xed\xb0\x80\xe0\x80a"),
            b"\xa0\x06\x05",
            b"\xa2\x06\x01a",
        ),
    ),
    Fact(
        "fields that have to be there",
        """
        syntax = "proto2";
        package facts;
        message Inner { required int32 i = 1; optional int32 j = 2; }
        message Root {
          required int32 a = 1 [default = 5]; optional Inner o = 2; repeated Inner l = 3; map<string, Inner> m = 4;
        }
        """,
        (
            *(b"", b"\x08\x01", b"\x08\x01\x12\x00", b"\x08\x01\x12\x02\x10\x01\x12\x02\x08\x01", b"\x08\x01\x1a\x00"),
            b"\x08\x01\x1a\x02\x08\x01",
            b"\x08\x01" + inside(4, inside(1, b"k")),
            b"\x08\x01" + inside(4, inside(2, b"\x08\x01")),
            b"\x08\x01" + inside(4, inside(2)),
        ),
    ),
    Fact(
        "text that is checked in proto2",
        'syntax = "proto2"; package facts; option java_string_check_utf8 = true;'
        "message Root { optional string s = 1; optional int32 i = 2; }",
        (b"\x0a\x01\xff", b"\x0a\x01a"),
    ),
    Fact(
        "editions",
        """
        edition = "2023";
        package facts;
        option features.utf8_validation = NONE;
        enum Kind { ZERO = 0; ONE = 1; }
        enum Closed { option features.enum_type = CLOSED; FIVE = 5; SIX = 6; }
        message Loose {
          string s = 1; string t = 2 [features.utf8_validation = VERIFY];
        }
        message Root {
          int32 a = 1;
          int32 b = 2 [features.field_presence = IMPLICIT];
          int32 c = 3 [features.field_presence = LEGACY_REQUIRED];
          Kind d = 4;
          Closed e = 5;
          Inner f = 6 [features.message_encoding = DELIMITED];
          repeated Closed g = 7;
          Loose h = 8;
          string i = 9 [features.utf8_validation = VERIFY];
          message Inner {
            int32 a = 1 [default = 7];
            repeated int32 l = 2 [features.repeated_field_encoding = EXPANDED];
          }
        }
        """,
        (
            b"",
            b"\x18\x00",
            b"\x18\x01\x08\x00\x10\x00",
            b"\x18\x01\x20\x07",
            b"\x18\x01\x28\x06",
            b"\x18\x01\x28\x07",
            b"\x18\x01\x33\x10\x05\x34",
            b"\x18\x01\x32\x00",
            b"\x18\x01\x3a\x02\x05\x07",
            b"\x18\x01" + inside(8, b"\x0a\x01\xff"),
            b"\x18\x01" + inside(8, b"\x12\x01\xff"),
            b"\x18\x01\x4a\x01\xff",
        ),
    ),
)
