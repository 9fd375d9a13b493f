//! Messages of Protocol Buffers become columns, whatever bytes they are.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;

use common::values::{array, decoded, fields};
use common::LIMITS;
use evensplit_kernel::protobuf::{Enum, Field, Kind, Label, Message, Program};
use evensplit_kernel::{DataType, Decoding, Format, Framing, Limits};
use proptest::collection::vec;
use proptest::prelude::*;

fn decoding(message: Message, data_type: DataType) -> Decoding {
    let format = Some(Format::Protobuf(Program::new(message, &data_type).unwrap()));
    Decoding { format, framing: Framing::None, data_type }
}

fn one(how: &Decoding, message: &[u8]) -> String {
    let (value, fault) = decoded(how, &[message], LIMITS).remove(0);
    fault.unwrap_or(value)
}

fn field(number: u32, column: usize, kind: Kind) -> Field {
    Field::new(number, Some(column), Label::Optional, kind, None)
}

fn labelled(number: u32, column: usize, label: Label, kind: Kind) -> Field {
    Field::new(number, Some(column), label, kind, None)
}

fn colours(closed: bool) -> Kind {
    Kind::Enum(Enum::new(
        "Colour",
        vec![(0, "RED".to_owned()), (5, "BLUE".to_owned()), (0, "ROUGE".to_owned())],
        closed,
    ))
}

fn inner() -> (Vec<Field>, DataType) {
    let of = fields(&[("s", DataType::String), ("l", array(DataType::Long)), ("c", DataType::String)]);
    let lenient = Kind::String { strict: false };
    let of_fields = vec![
        field(1, 0, lenient),
        labelled(2, 1, Label::Repeated, Kind::Sint64),
        labelled(3, 2, Label::Default(vec![5]), colours(true)),
    ];
    (of_fields, of)
}

fn of_every_kind() -> Decoding {
    let (within, of_inner) = inner();
    let default =
        |kind: Kind, zero: &[u8], number| labelled(number, number as usize - 1, Label::Default(zero.into()), kind);
    let entry = vec![
        default(Kind::String { strict: true }, &[0], 1),
        default(Kind::Message(Message::new(within.clone())), &[0], 2),
    ];
    let data_type = fields(&[
        ("b", DataType::Boolean),
        ("i", DataType::Int),
        ("si", DataType::Int),
        ("fi", DataType::Int),
        ("l", DataType::Long),
        ("fl", DataType::Long),
        ("f", DataType::Float),
        ("d", DataType::Double),
        ("s", DataType::String),
        ("x", DataType::Binary),
        ("e", DataType::String),
        ("t", DataType::Timestamp),
        ("o", of_inner.clone()),
        ("g", of_inner.clone()),
        ("a", array(of_inner.clone())),
        ("es", array(DataType::String)),
        ("ts", array(DataType::Timestamp)),
        ("m", DataType::Map(Box::new(DataType::String), Box::new(of_inner))),
    ]);
    let message = || Message::new(within.clone());
    let choice = |number, column: Option<usize>, kind| Field::new(number, column, Label::Optional, kind, Some(0));
    let all = vec![
        labelled(1, 0, Label::Implicit, Kind::Bool),
        labelled(2, 1, Label::Implicit, Kind::Int32),
        field(3, 2, Kind::Sint32),
        field(4, 3, Kind::Fixed32),
        choice(5, Some(4), Kind::Int64),
        field(6, 5, Kind::Fixed64),
        labelled(7, 6, Label::Implicit, Kind::Float),
        field(8, 7, Kind::Double),
        choice(9, Some(8), Kind::String { strict: true }),
        field(10, 9, Kind::Bytes),
        field(11, 10, colours(false)),
        field(12, 11, Kind::Timestamp),
        choice(13, Some(12), Kind::Message(message())),
        field(14, 13, Kind::Group(message())),
        labelled(15, 14, Label::Repeated, Kind::Message(message())),
        labelled(16, 15, Label::Repeated, colours(false)),
        labelled(70_000, 16, Label::Repeated, Kind::Timestamp),
        labelled(18, 17, Label::Repeated, Kind::Message(Message::new(entry))),
        choice(19, None, Kind::Bytes),
    ];
    decoding(Message::new(all), data_type)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn tagged(number: u64, wire_type: u64, rest: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | wire_type), rest].concat()
}

fn with_length(number: u64, bytes: &[u8]) -> Vec<u8> {
    tagged(number, 2, &[&varint(bytes.len() as u64), bytes].concat())
}

fn whole() -> Vec<Vec<u8>> {
    vec![
        tagged(1, 0, &[1]),
        tagged(2, 0, &varint(-7_i64 as u64)),
        tagged(3, 0, &[13]),
        tagged(4, 5, &(-7_i32).to_le_bytes()),
        tagged(5, 0, &varint(1 << 40)),
        tagged(6, 1, &(-7_i64).to_le_bytes()),
        tagged(7, 5, &1.5_f32.to_le_bytes()),
        tagged(8, 1, &(-0.0_f64).to_le_bytes()),
        with_length(10, b"ABC"),
        tagged(11, 0, &[5]),
        with_length(12, &[&tagged(1, 0, &[3])[..], &tagged(2, 0, &varint(2_999_999))].concat()),
        tagged(14, 3, &[&with_length(1, b"in")[..], &with_length(2, &[1, 2]), &tagged(14, 4, &[])].concat()),
        with_length(15, &[&tagged(2, 0, &[3])[..], &with_length(1, b"\xed\xa0\x80")].concat()),
        with_length(16, &[5, 0, 9]),
        with_length(15, &[]),
        tagged(16, 0, &[0]),
        with_length(70_000, &tagged(1, 0, &[1])),
        with_length(18, &[&with_length(1, b"k")[..], &with_length(2, &with_length(1, b"v"))].concat()),
        with_length(18, &[]),
        with_length(100, b"unknown"),
        tagged(101, 3, &[&tagged(7, 3, &tagged(7, 4, &[]))[..], &tagged(101, 4, &[])].concat()),
    ]
}

#[test]
fn a_value_of_every_kind() {
    let how = of_every_kind();
    let value = "(true -7 -7 -7 1099511627776 -7 1.5 -0.0 ~ \"ABC\" \"BLUE\" 3002999 ~ (\"in\" [-1 1] \"BLUE\") \
                 [(\"\u{fffd}\" [-2] \"BLUE\") (~ [] \"BLUE\")] [\"BLUE\" \"RED\" \"UNKNOWN_ENUM_VALUE_Colour_9\" \"RED\"] \
                 [1000000] {\"k\": (\"v\" [] \"BLUE\") \"\": (~ [] \"BLUE\")})";
    let parts = whole();
    assert_eq!(one(&how, &parts.concat()), value);
    // Fields may come in any order, those of one list among others.
    let (lists, mut others): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part[0] >> 3 >= 15 || part[0] > 127);
    others.reverse();
    assert_eq!(one(&how, &[others.concat(), lists.concat()].concat()), value);
    assert_eq!(one(&how, b""), "(~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ [] [] [] {})");
}

#[test]
fn the_last_value_counts_and_messages_are_merged() {
    let how = of_every_kind();
    let object = |bytes: &[u8]| with_length(13, bytes);
    let twice =
        [object(&with_length(2, &[2, 4])), tagged(2, 0, &[7]), object(&with_length(1, b"x")), tagged(2, 0, &[0])];
    assert!(one(&how, &twice.concat()).contains("~ ~ (\"x\" [1 2] \"BLUE\") ~"));
    assert!(one(&how, &twice.concat()).starts_with("(~ ~ "));
    // Another part of the oneof takes its place, also one that is not asked for; what comes then begins anew.
    for other in [tagged(5, 0, &[1]), with_length(19, b"not asked for")] {
        let replaced = [object(&with_length(2, &[2, 4])), other.clone()].concat();
        assert!(!one(&how, &replaced).contains("[1 2]"));
        let again = [&replaced[..], &object(&with_length(1, b"y"))].concat();
        assert!(one(&how, &again).contains("~ ~ (\"y\" [] \"BLUE\") ~"));
    }
    let time = |bytes: &[u8]| with_length(12, bytes);
    let far = time(&tagged(1, 0, &varint(1 << 60)));
    let near = [&far[..], &time(&tagged(2, 0, &varint(5000))), &time(&tagged(1, 0, &[1]))].concat();
    assert!(one(&how, &near).contains(" 1000005 "));
    assert!(one(&how, &far).contains("t: expected a time in 64 bits"));
}

#[test]
fn faults_say_where() {
    let how = of_every_kind();
    let cases: [(&[u8], &str); 10] = [
        (b"\x00", "byte 1: expected the number of a field, found 0"),
        (b"\x08", "b: byte 1: expected a value, found the end of the message"),
        (b"\x0a\x00", "b: byte 1: expected wire type 0, found 2"),
        (b"\x6a\x03\x0a\x02a", "o.s: byte 4: expected 1 bytes at most, found a length of 2"),
        (b"\x4a\x01\xff", "s: byte 3: expected UTF-8, found 1 bytes that are none after 0"),
        (b"\x73\x74\x74", "byte 3: expected a field, found the end of group 14"),
        (b"\x73", "g: byte 1: expected the end of group 14, found the end of the message"),
        (
            b"\xf8\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "expected a varint of 10 bytes at most, found a longer one",
        ),
        (b"\xfe\x3f", "byte 2: expected a wire type from 0 to 5, found 6"),
        (b"\x6a\xff\xff\xff\xff\xff\x01", "o: byte 7: expected 0 bytes at most, found a length of -1"),
    ];
    for (message, said) in cases {
        assert!(one(&how, message).contains(said), "{message:x?}: {}", one(&how, message));
    }
    let nested = |depth: usize| [b"\xfb\x3f".repeat(depth), b"\xfc\x3f".repeat(depth)].concat();
    assert!(one(&how, &nested(100)).starts_with('('));
    assert!(one(&how, &nested(101)).contains("expected messages in 100 levels at most"));
    assert!(one(&how, &nested(100_000)).contains("expected messages in 100 levels at most"));
}

#[test]
fn a_field_that_has_to_be_there_may_come_in_any_piece() {
    let within = vec![labelled(1, 0, Label::Required, Kind::Int32), field(2, 1, Kind::Int32)];
    let of_inner = fields(&[("a", DataType::Int), ("b", DataType::Int)]);
    let of = fields(&[("o", of_inner.clone()), ("l", array(of_inner))]);
    let all = vec![
        field(1, 0, Kind::Message(Message::new(within.clone()))),
        labelled(2, 1, Label::Repeated, Kind::Message(Message::new(within))),
    ];
    let how = decoding(Message::new(all), of);
    assert_eq!(one(&how, b""), "(~ [])");
    assert_eq!(one(&how, b"\x0a\x02\x10\x01\x0a\x02\x08\x02"), "((2 1) [])");
    assert_eq!(one(&how, b"\x0a\x02\x10\x01"), "\"o.a: a required field is missing\"");
    assert_eq!(one(&how, b"\x12\x02\x08\x01\x12\x00"), "\"l.a: a required field is missing\"");
    assert_eq!(one(&how, b"\x12\x02\x08\x01"), "(~ [(1 ~)])");
}

#[test]
fn a_few_bytes_that_stand_for_many_are_bounded() {
    let wide: Vec<(String, DataType)> = (0..500).map(|number| (format!("f{number}"), DataType::Long)).collect();
    let of_wide = fields(&wide.iter().map(|(name, of)| (name.as_str(), of.clone())).collect::<Vec<_>>());
    let message = || Message::new((0..500).map(|at| field(at + 1, at as usize, Kind::Int64)).collect());
    let of = fields(&[("a", array(of_wide.clone())), ("o", of_wide.clone()), ("p", of_wide)]);
    let choice = |number, column| Field::new(number, Some(column), Label::Optional, Kind::Message(message()), Some(0));
    let all = vec![labelled(1, 0, Label::Repeated, Kind::Message(message())), choice(2, 1), choice(3, 2)];
    let how = decoding(Message::new(all), of);
    let limits = Limits { bytes_max: 1 << 20, ..LIMITS };
    // Each message without a field is 4,000 bytes of columns, or as much work.
    for bomb in [b"\x0a\x00\x0a\x00", b"\x12\x00\x12\x00", b"\x12\x00\x1a\x00"] {
        let found = decoded(&how, &[b"", &bomb.repeat(100_000), b""], limits);
        assert!(found[0].0.starts_with("([] ~"));
        assert!(found[1].1.as_ref().unwrap().contains("its columns need more than"));
        assert!(found[2].0.starts_with("([] ~"));
    }
}

#[test]
fn programs_that_do_not_fit_their_type() {
    let of = fields(&[("a", DataType::Int), ("b", DataType::Int)]);
    let int = |number, column| field(number, column, Kind::Int32);
    let wrong = |all: Vec<Field>, of: &DataType| Program::new(Message::new(all), of).unwrap_err();
    assert!(Program::new(Message::new(vec![int(2, 0), int(1, 1)]), &of).is_ok());
    assert_eq!(wrong(vec![int(1, 0)], &of), "1 of 2 columns have a field");
    assert_eq!(wrong(vec![int(1, 0), int(2, 0)], &of), "field 2 has no column of its own");
    assert_eq!(wrong(vec![int(1, 0), int(2, 2)], &of), "field 2 has no column of its own");
    assert!(wrong(vec![int(1, 0), int(1, 1)], &of).starts_with("a field has the number 1"));
    assert!(wrong(vec![int(0, 0), int(1, 1)], &of).starts_with("a field has the number 0"));
    assert_eq!(
        wrong(vec![int(1, 0), field(2, 1, Kind::Int64)], &of),
        "b: a field is decoded into int, which is not its type"
    );
    assert!(wrong(vec![int(1, 0), labelled(2, 1, Label::Repeated, Kind::Int32)], &of).starts_with("b: "));
    assert_eq!(wrong(vec![], &DataType::Int), "messages become int, expected a struct");
    let map = fields(&[("m", DataType::Map(Box::new(DataType::Int), Box::new(DataType::Int)))]);
    let entry = Kind::Message(Message::new(vec![int(1, 0), int(2, 1)]));
    assert_eq!(wrong(vec![labelled(1, 0, Label::Repeated, entry)], &map), "m: a key or value has no default");
}

#[test]
fn every_truncation_has_an_answer() {
    let (how, message) = (of_every_kind(), whole().concat());
    for end in 0..=message.len() {
        one(&how, &message[..end]);
    }
}

/// Messages that mostly are of `of_every_kind`, some of them damaged.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let (every, object) = (whole(), with_length(13, &with_length(2, &[2, 4])));
    let more =
        [object, with_length(19, b""), with_length(9, "Köln".as_bytes()), tagged(2, 0, &[0]), tagged(11, 0, &[77])];
    let part = proptest::sample::select([every, more.to_vec()].concat());
    let damages = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let damaged = (vec(part, 0..12), damages, any::<prop::sample::Index>(), any::<bool>());
    damaged.prop_map(|(parts, damages, end, cut)| {
        let mut bytes = parts.concat();
        for (at, byte) in damages {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if cut && !bytes.is_empty() {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_message_has_its_own_answer_in_whatever_parts_rows_are_handed_out(
        messages in vec(message(), 1..20), bytes_max in 1..400_usize,
    ) {
        let how = of_every_kind();
        let all: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let together = decoded(&how, &all, LIMITS);
        let alone: Vec<_> = all.iter().flat_map(|one| decoded(&how, &[one], LIMITS)).collect();
        prop_assert_eq!(&together, &alone);
        let parts = decoded(&how, &all, Limits { bytes_max, ..LIMITS });
        for (part, one) in parts.iter().zip(&alone) {
            // A value whose columns are many times as long may only be decoded where there is room.
            let too_long = part.1.as_ref().is_some_and(|said| said.contains("its columns need more than"));
            prop_assert!(too_long || part == one, "{:?} is not {:?}", part, one);
        }
    }

    #[test]
    fn noise(messages in vec(vec(any::<u8>(), 0..60), 1..10)) {
        decoded(&of_every_kind(), &messages.iter().map(Vec::as_slice).collect::<Vec<_>>(), LIMITS);
    }
}
