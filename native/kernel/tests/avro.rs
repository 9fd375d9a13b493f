//! Values of Avro become columns, whatever bytes they are.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;

use common::values::{array, decoded, fields, VALUE};
use common::{Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::avro::{Field, Program, Skip, Step, Symbol};
use evensplit_kernel::{ColumnBuilder, DataType, Decoding, Format, Framing, Kind, Limits, OnFault};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record of which every field has the column of its number.
fn record(steps: Vec<Step>) -> Step {
    Step::Record(steps.into_iter().enumerate().map(|(at, step)| Field::Column(at, step)).collect())
}

/// A type, and how to read it.
struct Schema {
    of: DataType,
    program: Program,
}

impl Schema {
    fn new(of: DataType, step: Step, skips: Vec<Vec<Skip>>) -> Self {
        let program = Program::new(step, skips, &of).unwrap();
        Schema { of, program }
    }

    fn decoding(&self) -> Decoding {
        let format = Some(Format::Avro(self.program.clone()));
        Decoding { format, framing: Framing::None, data_type: self.of.clone() }
    }

    fn builder(&self, limits: Limits, on_fault: OnFault) -> ColumnBuilder {
        ColumnBuilder::new(VALUE, limits).with_decoding(None, Some(&self.decoding()), on_fault)
    }

    /// The cells of all values, and what is said of those that cannot be decoded.
    fn decoded(&self, values: &[&[u8]], limits: Limits) -> Vec<(String, Option<String>)> {
        decoded(&self.decoding(), values, limits)
    }
}

fn symbols() -> Box<[Symbol]> {
    let symbol = |name: &str, text: Option<&str>| Symbol { name: name.into(), text: text.map(Into::into) };
    [symbol("A", Some("A")), symbol("B", None), symbol("C", Some("other"))].into()
}

fn of_every_type() -> Schema {
    let decimal = DataType::Decimal { precision: 20, scale: 2 };
    let inner = fields(&[("s", DataType::String), ("l", DataType::Long)]);
    let read_inner = record(vec![Step::Bytes, Step::Long(1)]);
    let union = fields(&[("member0", DataType::Int), ("member1", DataType::String)]);
    let member = |at, step| Step::Member(Box::new(Field::Column(at, step)));
    let of = fields(&[
        ("b", DataType::Boolean),
        ("i", DataType::Int),
        ("l", DataType::Long),
        ("f", DataType::Float),
        ("d", DataType::Double),
        ("n", decimal.clone()),
        ("s", DataType::String),
        ("x", DataType::Binary),
        ("t", DataType::Timestamp),
        ("u", DataType::TimestampNtz),
        ("e", DataType::Date),
        ("c", DataType::String),
        ("o", inner.clone()),
        ("a", array(inner)),
        ("m", DataType::Map(Box::new(DataType::String), Box::new(array(DataType::Int)))),
        ("w", union),
        ("z", array(decimal)),
    ]);
    let step = record(vec![
        Step::Boolean,
        Step::Int(1),
        Step::Long(1),
        Step::Float,
        Step::Double,
        Step::Bytes,
        Step::Bytes,
        Step::Fixed(3),
        Step::Long(1000),
        Step::Int(1000),
        Step::Int(1),
        Step::Enum(symbols()),
        Step::Union([Step::Null, read_inner.clone(), Step::Refused("no".into())].into()),
        Step::Array(Box::new(Step::Union([Step::Null, read_inner].into()))),
        Step::Map(Box::new(Step::Array(Box::new(Step::Int(1))))),
        Step::Union([member(0, Step::Int(1)), Step::Null, member(1, Step::Bytes)].into()),
        Step::Default(vec![2, 2, 5, 0].into(), Box::new(Step::Array(Box::new(Step::Bytes)))),
    ]);
    // Between the fields there are some that are passed over: a ring, an array and a map of them, and a union.
    let Step::Record(read) = step else { panic!("it is no record") };
    let ring = Skip::Union([Skip::Fixed(0), Skip::Record(0)].into());
    let passed = [
        Skip::Array(Box::new(Skip::Record(0))),
        Skip::Map(Box::new(Skip::Long)),
        Skip::Array(Box::new(Skip::Record(1))),
        Skip::Fixed(2),
        Skip::Int,
        Skip::Bytes,
    ];
    let mut all = read.into_vec();
    for (at, skip) in passed.into_iter().enumerate() {
        all.insert(2 * at + 1, Field::Skip(skip));
    }
    Schema::new(of, Step::Record(all.into()), vec![vec![Skip::Bytes, ring], vec![Skip::Fixed(0)]])
}

/// A number as it is written.
fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut made = Vec::new();
    while rest > 0x7f {
        made.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    made.push(rest as u8);
    made
}

fn text(value: &str) -> Vec<u8> {
    [long(value.len() as i64), value.as_bytes().to_vec()].concat()
}

fn whole() -> Vec<u8> {
    [
        vec![1],
        [long(1), text("a"), long(1), text("b"), long(0), long(0)].concat(),
        long(-7),
        [long(-1), long(3), text("k"), long(1), long(0)].concat(),
        long(i64::MIN),
        // Items without a byte.
        [long(i64::MAX), long(0)].concat(),
        1.5_f32.to_le_bytes().to_vec(),
        vec![9, 9],
        f64::INFINITY.to_le_bytes().to_vec(),
        long(3),
        vec![4, 0xff, 0x38],
        text("passed over"),
        text("K\u{f6}ln"),
        b"ABC".to_vec(),
        long(-1),
        long(2),
        long(1),
        long(2),
        [long(1), text("x"), long(1)].concat(),
        [long(2), long(0), long(1), text("y"), long(2), long(-1), long(1), long(0), long(0)].concat(),
        [long(1), text("k"), long(2), long(1), long(2), long(0), long(0)].concat(),
        [long(2), text("w")].concat(),
    ]
    .concat()
}

#[test]
fn a_value_of_every_type() {
    let schema = of_every_type();
    let mut broken = whole();
    broken[0] = 0;
    let longer = [whole(), vec![1, 2, 3]].concat();
    let found = schema.decoded(&[&whole(), b"", &longer, &broken], LIMITS);
    let expected = "(true -7 -9223372036854775808 1.5 inf -200 \"Köln\" \"ABC\" -1000 2000 1 \"other\" (\"x\" 1) \
                    [~ (\"y\" 2) ~] {\"k\": [1 2]} (~ \"w\") [5])";
    assert_eq!(found[0], (expected.to_owned(), None));
    assert_eq!(found[1].1.as_deref(), Some("\"b: byte 0: expected a value, found the end\""));
    assert_eq!(found[2], found[0]);
    assert_eq!(found[3].0, expected.replacen("true", "false", 1));
}

#[test]
fn the_beginning_of_a_value_is_none() {
    let (schema, whole) = (of_every_type(), whole());
    let beginnings: Vec<&[u8]> = (0..whole.len()).map(|end| &whole[..end]).collect();
    let found = schema.decoded(&beginnings, LIMITS);
    assert!(found.iter().all(|one| one.1.is_some()));
}

#[test]
fn what_is_wrong_is_named() {
    let inner = fields(&[("i", DataType::Int), ("l", DataType::Long)]);
    let of = fields(&[("o", inner), ("c", DataType::String), ("t", DataType::Timestamp), ("a", array(DataType::Long))]);
    let enumerated = Step::Union([Step::Enum(symbols()), Step::Refused("it is no enum".into())].into());
    let skipped = Field::Skip(Skip::Record(0));
    let Step::Record(read) = record(vec![
        record(vec![Step::Int(1), Step::Long(1)]),
        enumerated,
        Step::Long(1000),
        Step::Array(Box::new(Step::Long(1))),
    ]) else {
        panic!("it is no record")
    };
    let all: Vec<Field> = read.into_vec().into_iter().chain([skipped]).collect();
    let ring = vec![Skip::Union([Skip::Fixed(0), Skip::Record(0)].into())];
    let schema = Schema::new(of, Step::Record(all.into()), vec![ring]);
    let begun = |rest: &[u8]| [&[2, 2][..], rest].concat();
    let deep = [begun(&[0, 0, 0, 0]), vec![2; 300]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![0xff, 0xff, 0xff, 0xff, 0x1f], "o.i: byte 5: expected a number of 32 bits, found a longer one"),
        (vec![0xff; 9], "o.i: byte 0: expected a number of 5 bytes at most, found a longer one"),
        ([vec![0], vec![0xff; 10]].concat(), "o.l: byte 1: expected a number of 10 bytes at most, found a longer one"),
        (begun(&[4]), "c: byte 3: expected one of 2 branches, found number 2"),
        (begun(&[1]), "c: byte 3: expected one of 2 branches, found number -1"),
        (begun(&[2]), "c: it is no enum"),
        (begun(&[0, 6]), "c: byte 4: expected one of 3 symbols, found number 3"),
        (begun(&[0, 2]), "c: byte 4: expected a symbol that the reader has, found \\\"B\\\""),
        ([begun(&[0, 0]), long(i64::MAX)].concat(), "t: byte 14: expected a time whose microseconds are 64 bits"),
        (begun(&[0, 0, 0, 4, 0]), "a: byte 7: expected a value, found the end"),
        (deep, "byte 262: expected values in 256 levels at most, found more"),
    ];
    let values: Vec<&[u8]> = cases.iter().map(|(value, _)| value.as_slice()).collect();
    for ((value, expected), found) in cases.iter().zip(schema.decoded(&values, LIMITS)) {
        let said = found.1.unwrap();
        assert!(said.contains(expected), "{value:?}: {said}, expected {expected}");
    }
}

#[test]
fn a_recursive_value_is_passed_over_to_a_bound_of_depth() {
    // A tree: text, an array of trees, a map of them, one or none.
    let maybe = Skip::Union([Skip::Fixed(0), Skip::Record(0)].into());
    let (items, values) = (Skip::Array(Box::new(Skip::Record(0))), Skip::Map(Box::new(Skip::Record(0))));
    let tree = vec![Skip::Bytes, items, values, maybe];
    let fields_of = vec![Field::Skip(Skip::Record(0)), Field::Column(0, Step::Int(1))];
    let schema = Schema::new(fields(&[("i", DataType::Int)]), Step::Record(fields_of.into()), vec![tree]);
    let leaf = || [text("leaf"), long(0), long(0), long(0)].concat();
    let in_array = |inner: &[u8]| [text("a"), long(1), inner.to_vec(), long(0), long(0), long(0)].concat();
    let in_map = |inner: &[u8]| [text("m"), long(0), long(1), text("k"), inner.to_vec(), long(0), long(0)].concat();
    let in_union = |inner: &[u8]| [text("u"), long(0), long(0), long(1), inner.to_vec()].concat();
    let nested = |levels: usize, within: &dyn Fn(&[u8]) -> Vec<u8>| (0..levels).fold(leaf(), |inner, _| within(&inner));
    let mixed = in_union(&in_map(&in_array(&in_union(&leaf()))));
    let whole = |tree: Vec<u8>| [tree, long(5)].concat();
    let begun = |count: i64| [text("a"), long(count)].concat();
    let good = [mixed, nested(60, &in_array), nested(60, &in_map), nested(60, &in_union)].map(whole);
    let found = schema.decoded(&good.each_ref().map(Vec::as_slice), LIMITS);
    assert!(found.iter().all(|one| *one == ("(5)".to_owned(), None)), "{found:?}");
    let deep = [nested(2000, &in_array), nested(2000, &in_map), nested(2000, &in_union)].map(whole);
    for (_, fault) in schema.decoded(&deep.each_ref().map(Vec::as_slice), LIMITS) {
        assert!(fault.unwrap().contains("expected values in 256 levels at most, found more"));
    }
    let cut = [begun(i64::MAX), begun(1), begun(i64::MIN), [begun(2), leaf()].concat(), vec![2; 100]];
    let found = schema.decoded(&cut.each_ref().map(Vec::as_slice), LIMITS);
    assert!(found.iter().all(|one| one.1.is_some()), "{found:?}");
}

#[test]
fn lengths_and_counts_that_are_not_there() {
    let of = fields(&[("s", DataType::String), ("a", array(fields(&[("n", DataType::Boolean)])))]);
    let nothing = record(vec![Step::Null]);
    let schema = Schema::new(of, record(vec![Step::Bytes, Step::Array(Box::new(nothing))]), Vec::new());
    let counted = |count: i64| [text(""), long(count)].concat();
    let values = [long(i64::MAX), long(-1), long(i64::MIN), counted(i64::MAX), counted(i64::MIN), counted(-1 << 40)];
    let limits = Limits { bytes_max: 1 << 16, ..LIMITS };
    let found = schema.decoded(&values.each_ref().map(Vec::as_slice), limits);
    assert!(found.iter().all(|one| one.1.is_some()), "{found:?}");
    assert!(found[3].1.as_ref().unwrap().contains("its columns need more than"));
}

#[test]
fn a_program_that_does_not_fit_its_column() {
    let of = fields(&[("i", DataType::Int), ("s", DataType::String)]);
    let int = || Field::Column(0, Step::Int(1));
    let cases: Vec<(Vec<Field>, &str)> = vec![
        (vec![int()], "1 of 2 columns have a field"),
        (vec![int(), int()], "there is no column 0, or it has two fields"),
        (vec![int(), Field::Column(2, Step::Bytes)], "there is no column 2, or it has two fields"),
        (vec![int(), Field::Column(1, Step::Long(1))], "s: what is decoded into string is not of its type"),
        (vec![int(), Field::Skip(Skip::Record(1))], "record 1 is passed over, but 1 are known"),
    ];
    for (fields, expected) in cases {
        let made = Program::new(Step::Record(fields.into()), vec![vec![]], &of);
        assert_eq!(made.unwrap_err(), expected);
    }
    assert!(Program::new(Step::Map(Box::new(Step::Null)), Vec::new(), &of).is_err());
    let outside = Step::Member(Box::new(Field::Column(5, Step::Null)));
    assert!(Program::new(outside, Vec::new(), &of).is_err());
}

#[test]
fn a_fault_is_an_error_that_names_the_record_and_takes_its_batch_back() {
    let schema = Schema::new(fields(&[("a", DataType::Int)]), record(vec![Step::Int(1)]), Vec::new());
    let frame = Batch::plain(70, Codec::None, &[b"\x02", b""]).encode();
    let mut builder = schema.builder(LIMITS, OnFault::Fail);
    let error = common::append(&mut builder, &frame, EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Undecodable, 71));
    assert_eq!(error.detail, "its value cannot be decoded: a: byte 0: expected a value, found the end");
    assert_eq!((builder.rows(), builder.bytes()), (0, 0));
}

/// Values of `of_every_type` that are whole, damaged, cut off.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let damages = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (damages, any::<prop::sample::Index>(), 0..4_u8).prop_map(|(damages, end, cut)| {
        let mut bytes = whole();
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut == 0 {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_value_has_its_own_answer_in_whatever_parts_rows_are_handed_out(
        values in vec(value(), 1..20), bytes_max in 1..400_usize,
    ) {
        let schema = of_every_type();
        let all: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let together = schema.decoded(&all, LIMITS);
        let alone: Vec<_> = all.iter().flat_map(|one| schema.decoded(&[one], LIMITS)).collect();
        prop_assert_eq!(&together, &alone);
        let parts = schema.decoded(&all, Limits { bytes_max, ..LIMITS });
        // What needs more than all rows may have is said with that number.
        let bounded = |one: &(String, Option<String>)| one.1.as_ref().is_some_and(|why| why.contains("columns need"));
        for (part, one) in parts.iter().zip(&alone) {
            prop_assert!(part == one || (bounded(part) && bounded(one)), "{part:?}, {one:?}");
        }
        prop_assert_eq!(parts.len(), alone.len());
    }

    #[test]
    fn noise(values in vec(vec(any::<u8>(), 0..80), 1..10)) {
        let all: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(of_every_type().decoded(&all, LIMITS).len(), all.len());
    }
}
