//! Whether a row is decoded before or after its condition is evaluated changes nothing.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::conditions::{boxed, compare, field};
use common::values::{array, fields, json};
use common::{Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::avro::{self, Skip, Step, Symbol};
use evensplit_kernel::protobuf::{self, Enum, Label, Message};
use evensplit_kernel::{
    Appended, ColumnBuilder, Columns, Comparison, Condition, DataType, Decoding, Expression, Format, Framing, Kind,
    Limits, OnFault, Selection, Source,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// After so many records that pass, rows are decoded first.
const FIRST: i64 = 256;

/// What is decoded for the condition, for the row, and a value that can be both.
struct Schemas {
    needed: Decoding,
    wanted: Decoding,
    whole: Vec<u8>,
}

type Found = Result<(Appended, u64, u64, Columns), (Kind, i64)>;

/// The offsets of the rows, how many were left out, and how many could not be decoded; or the error.
type Kept = Result<(Vec<i64>, u64, u64), (Kind, i64)>;

impl Schemas {
    /// What decodes values after `FIRST` others. `rows_first`: most of these have passed.
    fn builder(&self, condition: &Expression, on_fault: OnFault, rows_first: bool, limits: Limits) -> ColumnBuilder {
        let before = compare(Comparison::Less, Expression::Column(Source::Offset), Expression::Long(FIRST));
        let condition = Condition {
            expression: Expression::Or(vec![before, condition.clone()]),
            key: None,
            value: Some(self.needed.clone()),
            headers: false,
        };
        let selection = Selection::of(&["offset", "value", "value_error", "value_raw"]).unwrap();
        let mut builder = ColumnBuilder::new(selection, limits)
            .with_decoding(None, Some(&self.wanted), on_fault)
            .with_condition(condition, on_fault);
        if rows_first {
            let passing = vec![self.whole.clone(); FIRST as usize];
            let (offsets, filtered, faults) = kept(&mut builder, 0, &passing).unwrap();
            assert_eq!((offsets.len(), filtered, faults), (FIRST as usize, 0, 0));
        }
        builder
    }

    /// What becomes of `values`, all at once.
    fn found(&self, condition: &Expression, values: &[Vec<u8>], on_fault: OnFault, rows_first: bool) -> Found {
        let mut builder = self.builder(condition, on_fault, rows_first, LIMITS);
        let frame = frame(FIRST, values);
        let done = common::append(&mut builder, &frame, EVERYTHING).map_err(|error| (error.kind, error.offset))?;
        Ok((done, builder.filtered(), builder.faults(), builder.finish()))
    }

    /// What becomes of `values`, in parts of so many bytes.
    fn in_parts(
        &self,
        condition: &Expression,
        values: &[Vec<u8>],
        on_fault: OnFault,
        rows_first: bool,
        bytes_max: usize,
    ) -> Kept {
        let mut builder = self.builder(condition, on_fault, rows_first, Limits { bytes_max, ..LIMITS });
        kept(&mut builder, FIRST, values)
    }

    fn check(
        &self,
        condition: &Expression,
        values: &[Vec<u8>],
        null: bool,
        bytes_max: usize,
    ) -> Result<(), TestCaseError> {
        let on_fault = if null { OnFault::Null } else { OnFault::Fail };
        let [condition_first, rows_first] = [false, true].map(|first| self.found(condition, values, on_fault, first));
        let whole =
            condition_first.clone().map(|(_, filtered, faults, columns)| (columns.offset.unwrap(), filtered, faults));
        prop_assert_eq!(condition_first, rows_first);
        for first in [false, true] {
            let parts = self.in_parts(condition, values, on_fault, first, bytes_max);
            prop_assert_eq!(&parts, &whole, "rows first: {}", first);
        }
        Ok(())
    }
}

fn frame(offset: i64, values: &[Vec<u8>]) -> Vec<u8> {
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    Batch::plain(offset, Codec::None, &values).encode()
}

/// What a builder keeps of values, in as many parts as it needs.
fn kept(builder: &mut ColumnBuilder, offset: i64, values: &[Vec<u8>]) -> Kept {
    let (frame, mut range, mut offsets) = (frame(offset, values), EVERYTHING, Vec::new());
    loop {
        let done = common::append(builder, &frame, range).map_err(|error| (error.kind, error.offset))?;
        range.start = done.offset_next;
        let rows = builder.finish().offset.unwrap();
        assert!(!rows.is_empty() || !done.stopped, "it stands still");
        offsets.extend(rows);
        if !done.stopped {
            return Ok((offsets, builder.filtered(), builder.faults()));
        }
    }
}

/// Conditions on the first field that is needed, an integer.
fn condition() -> impl Strategy<Value = Expression> {
    let value = || boxed(Expression::Column(Source::Value));
    let positive = || compare(Comparison::Greater, field(0), Expression::Long(0));
    prop_oneof![
        Just(positive()),
        Just(Expression::Not(boxed(positive()))),
        Just(Expression::IsNull(boxed(field(0)))),
        Just(Expression::IsNull(value())),
        Just(Expression::Or(vec![Expression::IsNull(value()), positive()])),
        Just(compare(Comparison::Equal, Expression::Item(value(), boxed(Expression::Long(0))), Expression::Long(1))),
    ]
}

/// A value, perhaps with bytes that are others, more or fewer.
fn damaged(wholes: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), 0_usize..3, prop_oneof![any::<u8>(), 0_u8..4, Just(b'\n')]);
    (prop::sample::select(wholes), vec(change, 0..3)).prop_map(|(mut value, changes)| {
        for (at, how, byte) in changes {
            let at = at.index(value.len() + 1);
            match how {
                0 => value.insert(at, byte),
                1 if at < value.len() => value[at] = byte,
                _ if at < value.len() => drop(value.remove(at)),
                _ => {}
            }
        }
        value
    })
}

fn map(of: DataType) -> DataType {
    DataType::Map(Box::new(DataType::String), Box::new(of))
}

fn by_json() -> Schemas {
    let wanted = fields(&[
        ("x", DataType::Binary),
        ("d", DataType::Decimal { precision: 6, scale: 2 }),
        ("t", DataType::Timestamp),
        ("s", DataType::String),
        ("a", DataType::Long),
        ("f", DataType::Double),
        ("l", array(DataType::Int)),
        ("m", map(DataType::Boolean)),
        ("o", fields(&[("y", DataType::Date), ("b", DataType::Byte)])),
    ]);
    Schemas { needed: json(fields(&[("a", DataType::Long)])), wanted: json(wanted), whole: JSON[0].as_bytes().to_vec() }
}

const JSON: [&str; 4] = [
    r#"{"x":"YWJj","d":"1.50","t":"2026-01-02","s":"é\u00e9","a":1,"f":1e3,"l":[1,2],"m":{"k":true},"o":{"b":3}}"#,
    r#"{"a":-1,"x":"YW Jj","s":{"deep":[1,{"x":"y"}]},"f":"Infinity","o":{"y":"2026-01-02","b":200},"l":[],"m":{}}"#,
    r#"{"b":[[["a"]],{"a":2}],"a":2,"a":0,"d":3.25,"t":5,"other":'single'}"#,
    r#"{"a":null,"l":null,"s":12.50,"x":"YWJjZGVm","t":"no"}"#,
];

/// As it is written, and how it is read: an array, a map and a union before the field that the condition needs.
fn by_avro() -> Schemas {
    let symbols = ["A", "B"].map(|name| Symbol { name: name.into(), text: (name == "A").then(|| "A".into()) });
    let union = Step::Union([Step::Null, Step::Enum(symbols.into())].into());
    let steps = [
        Step::Array(Box::new(Step::Int(1))),
        Step::Map(Box::new(Step::Bytes)),
        union,
        Step::Boolean,
        Step::Long(1),
        Step::Bytes,
    ];
    let skips = [
        Skip::Array(Box::new(Skip::Int)),
        Skip::Map(Box::new(Skip::Bytes)),
        Skip::Union([Skip::Fixed(0), Skip::Int].into()),
        Skip::Fixed(1),
        Skip::Fixed(0),
        Skip::Bytes,
    ];
    let wanted = fields(&[
        ("l", array(DataType::Int)),
        ("m", map(DataType::String)),
        ("u", DataType::String),
        ("b", DataType::Boolean),
        ("a", DataType::Long),
        ("s", DataType::String),
    ]);
    let needed = fields(&[("a", DataType::Long)]);
    let all = steps.iter().cloned().enumerate().map(|(at, step)| avro::Field::Column(at, step)).collect();
    let some = skips.into_iter().enumerate().map(|(at, skip)| match at {
        4 => avro::Field::Column(0, Step::Long(1)),
        _ => avro::Field::Skip(skip),
    });
    let how = |step, data_type: DataType| {
        let format = Some(Format::Avro(avro::Program::new(step, Vec::new(), &data_type).unwrap()));
        Decoding { format, framing: Framing::None, data_type }
    };
    Schemas {
        needed: how(Step::Record(some.collect()), needed),
        wanted: how(Step::Record(all), wanted),
        whole: AVRO[0].to_vec(),
    }
}

/// Arrays and maps in blocks with and without their sizes, right and wrong.
const AVRO: [&[u8]; 4] = [
    &[4, 2, 4, 0, 2, 2, b'k', 2, b'v', 0, 2, 0, 1, 2, 2, b's'],
    &[3, 4, 2, 4, 0, 1, 8, 2, b'k', 2, b'v', 0, 0, 0, 1, 2, b's'],
    &[1, 9, 2, 0, 1, 0, 2, b'k', 2, b'v', 0, 2, 2, 1, 2, 0],
    &[0, 0, 2, 0, 0, 4, 4, 0xc3, 0xa9],
];

fn by_protobuf() -> Schemas {
    use protobuf::Kind::{Bool, Int64, Message as Nested, Sint32, String, Timestamp};
    let one = |number, column, label, kind| protobuf::Field::new(number, Some(column), label, kind, None);
    let colours = Enum::new("Colour", vec![(0, "RED".to_owned()), (5, "BLUE".to_owned())], true);
    let in_oneof = |number, column, kind| protobuf::Field::new(number, Some(column), Label::Optional, kind, Some(0));
    let within = Message::new(vec![one(1, 0, Label::Optional, String { strict: true })]);
    let number = |column| one(2, column, Label::Optional, Int64);
    let all = vec![
        one(1, 0, Label::Optional, String { strict: true }),
        number(1),
        one(3, 2, Label::Repeated, Sint32),
        one(4, 3, Label::Optional, Nested(within)),
        one(5, 4, Label::Optional, protobuf::Kind::Enum(colours)),
        one(6, 5, Label::Optional, Timestamp),
        in_oneof(7, 6, Bool),
        in_oneof(8, 7, Int64),
    ];
    let wanted = fields(&[
        ("s", DataType::String),
        ("a", DataType::Long),
        ("l", array(DataType::Int)),
        ("o", fields(&[("t", DataType::String)])),
        ("c", DataType::String),
        ("t", DataType::Timestamp),
        ("b", DataType::Boolean),
        ("n", DataType::Long),
    ]);
    let how = |of, data_type: DataType| {
        let format = Some(Format::Protobuf(protobuf::Program::new(Message::new(of), &data_type).unwrap()));
        Decoding { format, framing: Framing::None, data_type }
    };
    Schemas {
        needed: how(vec![number(0)], fields(&[("a", DataType::Long)])),
        wanted: how(all, wanted),
        whole: PROTOBUF[0].to_vec(),
    }
}

const PROTOBUF: [&[u8]; 3] = [
    &[10, 2, 0xc3, 0xa9, 16, 1, 26, 2, 2, 4, 34, 3, 10, 1, b'x', 40, 5, 50, 2, 8, 9, 56, 1],
    &[64, 7, 16, 0, 24, 6, 34, 0, 56, 0, 34, 3, 10, 1, b'y', 16, 3, 122, 1, 0],
    &[16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 40, 4],
];

fn owned(values: &[&[u8]]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.to_vec()).collect()
}

#[test]
fn a_field_that_cannot_be_passed_over_is_no_fault_of_a_row_that_has_it() {
    // As in Jackson, base64 may have lines, and what is passed over may not.
    let value = || b"{\"a\":1,\"x\":\"YWJj\nYWJj\"}".to_vec();
    let positive = compare(Comparison::Greater, field(0), Expression::Long(0));
    for on_fault in [OnFault::Fail, OnFault::Null] {
        for first in [false, true] {
            let (_, filtered, faults, columns) = by_json().found(&positive, &[value()], on_fault, first).unwrap();
            assert_eq!((filtered, faults, columns.rows), (0, 0, 1));
            // Nor of one that does not fit beside the others.
            for bytes_max in [1, 20, 60] {
                let values = [by_json().whole, value()];
                let found = by_json().in_parts(&positive, &values, on_fault, first, bytes_max);
                assert_eq!(found, Ok((vec![FIRST, FIRST + 1], 0, 0)));
            }
        }
    }
}

proptest! {
    #[test]
    fn of_json(
        condition in condition(),
        values in vec(damaged(JSON.iter().map(|text| text.as_bytes().to_vec()).collect()), 1..6),
        null in any::<bool>(),
        bytes_max in prop::sample::select(vec![1, 20, 60]),
    ) {
        by_json().check(&condition, &values, null, bytes_max)?;
    }

    #[test]
    fn of_avro(
        condition in condition(),
        values in vec(damaged(owned(&AVRO)), 1..6),
        null in any::<bool>(),
        bytes_max in prop::sample::select(vec![1, 20, 60]),
    ) {
        by_avro().check(&condition, &values, null, bytes_max)?;
    }

    #[test]
    fn of_protobuf(
        condition in condition(),
        values in vec(damaged(owned(&PROTOBUF)), 1..6),
        null in any::<bool>(),
        bytes_max in prop::sample::select(vec![1, 20, 60]),
    ) {
        by_protobuf().check(&condition, &values, null, bytes_max)?;
    }
}
