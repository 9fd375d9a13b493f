//! Conditions decide which records become rows, whatever bytes they are.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;

use common::conditions::{boxed, compare, field};
use common::values::{fields, json};
use common::{Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::{
    ColumnBuilder, Comparison, Condition, DataType, Expression, Function, Kind, OnFault, Operator, Part, Pattern,
    Selection, Source,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn builder(columns: &[&str], condition: Condition, on_fault: OnFault) -> ColumnBuilder {
    let value = condition.value.clone();
    ColumnBuilder::new(Selection::of(columns).unwrap(), LIMITS)
        .with_decoding(None, value.as_ref(), on_fault)
        .with_condition(condition, on_fault)
}

fn of_value(expression: Expression, of: DataType) -> Condition {
    Condition { expression, key: None, value: Some(json(of)), headers: false }
}

/// The offsets of the rows, and how many were left out.
fn offsets(documents: &[&[u8]], condition: Condition, on_fault: OnFault) -> Result<(Vec<i64>, u64), (Kind, i64)> {
    let frame = Batch::plain(0, Codec::None, documents).encode();
    let mut builder = builder(&["offset", "value"], condition, on_fault);
    match common::append(&mut builder, &frame, EVERYTHING) {
        Ok(done) => {
            assert_eq!(done.offset_next, i64::try_from(documents.len()).unwrap());
            let filtered = builder.filtered();
            Ok((builder.finish().offset.unwrap(), filtered))
        }
        Err(error) => {
            assert_eq!(builder.rows(), 0);
            Err((error.kind, error.offset))
        }
    }
}

#[test]
fn only_true_is_true() {
    let at_least = || compare(Comparison::AtLeast, field(0), Expression::Long(5));
    let of = || fields(&[("id", DataType::Long)]);
    let documents: [&[u8]; 5] = [br#"{"id":5}"#, br#"{"id":4}"#, b"{}", b"", br#"{"id":9}"#];
    assert_eq!(offsets(&documents, of_value(at_least(), of()), OnFault::Fail), Ok((vec![0, 4], 3)));
    let not = Expression::Not(boxed(at_least()));
    assert_eq!(offsets(&documents, of_value(not, of()), OnFault::Fail), Ok((vec![1], 4)));
    let null = Expression::IsNull(boxed(Expression::Column(Source::Value)));
    assert_eq!(offsets(&documents, of_value(null, fields(&[])), OnFault::Fail), Ok((vec![3], 4)));
}

#[test]
fn what_cannot_be_evaluated_is_an_error_of_the_record() {
    let quotient = |right| {
        let divided =
            Expression::Arithmetic(Operator::IntegerDivide, DataType::Long, boxed(Expression::Long(8)), boxed(right));
        compare(Comparison::Greater, divided, Expression::Long(1))
    };
    let of = || fields(&[("id", DataType::Long)]);
    let documents: [&[u8]; 3] = [br#"{"id":2}"#, b"{}", br#"{"id":0}"#];
    let found = offsets(&documents, of_value(quotient(field(0)), of()), OnFault::Fail);
    assert_eq!(found, Err((Kind::Condition, 2)));
    // The second is not evaluated where the first decides.
    let guarded =
        Expression::And(vec![compare(Comparison::Greater, field(0), Expression::Long(0)), quotient(field(0))]);
    assert_eq!(offsets(&documents, of_value(guarded, of()), OnFault::Fail), Ok((vec![0], 2)));
    // A tree that no compiler makes.
    let wrong = compare(Comparison::Equal, field(0), Expression::Text(b"a".to_vec()));
    assert_eq!(offsets(&documents, of_value(wrong, of()), OnFault::Fail), Err((Kind::Condition, 0)));
}

#[test]
fn a_value_that_cannot_be_decoded_is_null_or_an_error() {
    let of = || fields(&[("id", DataType::Long)]);
    let documents: [&[u8]; 4] = [br#"{"id":1}"#, br#"{"id":"#, br#"{"id":"no"}"#, br#"{"id":7}"#];
    let more = || compare(Comparison::Greater, field(0), Expression::Long(5));
    assert_eq!(offsets(&documents, of_value(more(), of()), OnFault::Fail), Err((Kind::Undecodable, 1)));
    assert_eq!(offsets(&documents, of_value(more(), of()), OnFault::Null), Ok((vec![3], 3)));
    let dead_too = Expression::Or(vec![Expression::IsNull(boxed(field(0))), more()]);
    assert_eq!(offsets(&documents, of_value(dead_too, of()), OnFault::Null), Ok((vec![1, 2, 3], 1)));
}

#[test]
fn what_only_the_row_needs_can_make_its_value_null() {
    // The condition needs `id` alone, and the row has a field that does not fit.
    let null = Expression::IsNull(boxed(field(0)));
    let condition = of_value(null, fields(&[("id", DataType::Long)]));
    let row = json(fields(&[("id", DataType::Long), ("n", DataType::Int)]));
    let frame = Batch::plain(0, Codec::None, &[br#"{"id":1,"n":2}"#, br#"{"id":1,"n":"no"}"#]).encode();
    let mut builder = ColumnBuilder::new(Selection::of(&["offset", "value", "value_error"]).unwrap(), LIMITS)
        .with_decoding(None, Some(&row), OnFault::Null)
        .with_condition(condition, OnFault::Null);
    common::append(&mut builder, &frame, EVERYTHING).unwrap();
    assert_eq!((builder.filtered(), builder.faults()), (1, 1));
    assert_eq!(builder.finish().offset, Some(vec![1]));
}

fn leaf() -> impl Strategy<Value = Expression> {
    prop_oneof![
        Just(Expression::Null),
        any::<bool>().prop_map(Expression::Boolean),
        any::<i64>().prop_map(Expression::Long),
        any::<f64>().prop_map(Expression::Double),
        any::<i128>().prop_map(Expression::Decimal),
        vec(any::<u8>(), 0..6).prop_map(Expression::Text),
        Just(Expression::Column(Source::Headers)),
        Just(Expression::Column(Source::ValueBytes)),
        Just(Expression::Column(Source::KeyBytes)),
        Just(Expression::Column(Source::Timestamp)),
        (0_usize..6).prop_map(field),
    ]
}

fn kind() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Byte),
        Just(DataType::Int),
        Just(DataType::Long),
        Just(DataType::Float),
        Just(DataType::Double),
        (1_u8..=38, 0_u8..=38)
            .prop_map(|(precision, scale)| DataType::Decimal { precision, scale: scale.min(precision) }),
        Just(DataType::String),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::TimestampNtz),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        let one = || inner.clone().prop_map(Box::new);
        let operator = prop_oneof![
            Just(Operator::Add),
            Just(Operator::Subtract),
            Just(Operator::Multiply),
            Just(Operator::Divide),
            Just(Operator::IntegerDivide),
            Just(Operator::Remainder),
        ];
        let function = prop_oneof![
            Just(Function::Length),
            Just(Function::Lower),
            Just(Function::Upper),
            Just(Function::Trim),
            Just(Function::Substring),
            Just(Function::Contains),
            Just(Function::Concat),
            Just(Function::Size),
            Just(Function::ArrayContains),
        ];
        let part = prop_oneof![Just(Part::Any), Just(Part::One), any::<char>().prop_map(Part::Char)];
        prop_oneof![
            (one(), one()).prop_map(|(a, b)| Expression::Compare(Comparison::Less, a, b)),
            (one(), one()).prop_map(|(a, b)| Expression::Compare(Comparison::Same, a, b)),
            one().prop_map(Expression::Not),
            one().prop_map(Expression::IsNull),
            vec(inner.clone(), 0..3).prop_map(Expression::And),
            vec(inner.clone(), 0..3).prop_map(Expression::Or),
            vec(inner.clone(), 0..3).prop_map(Expression::Coalesce),
            (one(), vec(inner.clone(), 0..3)).prop_map(|(a, all)| Expression::In(a, all)),
            (operator, kind(), one(), one()).prop_map(|(how, of, a, b)| Expression::Arithmetic(how, of, a, b)),
            (inner.clone(), kind(), kind(), any::<bool>())
                .prop_map(|(a, from, to, or_null)| { Expression::cast(a, from, to, or_null) }),
            (one(), vec(part, 0..5)).prop_map(|(a, parts)| Expression::Like(a, Pattern(parts))),
            (one(), one()).prop_map(|(a, b)| Expression::Item(a, b)),
            (one(), one()).prop_map(|(a, b)| Expression::ElementAt(a, b)),
            (one(), one()).prop_map(|(a, b)| Expression::Entry(a, b)),
            (function, vec(inner.clone(), 0..4)).prop_map(|(name, all)| Expression::Call(name, all)),
        ]
    })
}

proptest! {
    /// Also trees that no compiler makes, over documents that may be none: an answer or an error, and no more rows than
    /// there are records.
    #[test]
    fn any_condition_on_any_bytes(
        expression in expression(),
        documents in vec(prop_oneof![
            vec(any::<u8>(), 0..40),
            Just(br#"{"a":1,"b":"x","c":[1,null],"d":{"k":"v"},"e":1.5,"f":{"g":true}}"#.to_vec()),
            Just(br#"{"a":-9223372036854775808,"b":"\u00e9","c":[],"d":{},"e":"NaN","f":null}"#.to_vec()),
        ], 1..6),
        null in any::<bool>(),
    ) {
        let of = fields(&[
            ("a", DataType::Long),
            ("b", DataType::String),
            ("c", DataType::Array(Box::new(DataType::Int))),
            ("d", DataType::Map(Box::new(DataType::String), Box::new(DataType::String))),
            ("e", DataType::Double),
            ("f", fields(&[("g", DataType::Boolean)])),
        ]);
        let on_fault = if null { OnFault::Null } else { OnFault::Fail };
        let condition = Condition { expression, key: None, value: Some(json(of)), headers: true };
        let documents: Vec<&[u8]> = documents.iter().map(Vec::as_slice).collect();
        match offsets(&documents, condition, on_fault) {
            Ok((found, filtered)) => {
                prop_assert_eq!(found.len() as u64 + filtered, documents.len() as u64);
                prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
            }
            Err((kind, offset)) => {
                prop_assert!(matches!(kind, Kind::Condition | Kind::Undecodable));
                prop_assert!((0..documents.len() as i64).contains(&offset));
            }
        }
    }

    /// Where most records pass, rows are decoded before the condition is evaluated over them: the answer is the same.
    #[test]
    fn the_order_of_the_work_changes_nothing(
        expression in expression(),
        documents in vec(prop_oneof![
            vec(any::<u8>(), 0..40),
            Just(br#"{"a":1,"b":"x","c":[1,null],"d":{"k":"v"},"e":1.5,"f":{"g":true},"x":2}"#.to_vec()),
            Just(br#"{"a":-1,"b":"y","c":[2],"d":{},"e":"NaN","f":{"y":1,"g":false},"x":"no"}"#.to_vec()),
            Just(br#"{"a":"no","b":"y","f":{"y":"no"}}"#.to_vec()),
        ], 1..6),
        null in any::<bool>(),
    ) {
        let inner = |more: &[(&str, DataType)]| fields(&[more, &[("g", DataType::Boolean)]].concat());
        let each = |f: DataType| [
            ("a", DataType::Long),
            ("b", DataType::String),
            ("c", DataType::Array(Box::new(DataType::Int))),
            ("d", DataType::Map(Box::new(DataType::String), Box::new(DataType::String))),
            ("e", DataType::Double),
            ("f", f),
        ];
        let needed = fields(&each(inner(&[])));
        let wanted = fields(&[&[("x", DataType::Int)][..], &each(inner(&[("y", DataType::Long)]))].concat());
        let on_fault = if null { OnFault::Null } else { OnFault::Fail };
        let first = compare(Comparison::Less, Expression::Column(Source::Offset), Expression::Long(FIRST));
        let condition = Condition {
            expression: Expression::Or(vec![first, expression]),
            key: None,
            value: Some(json(needed)),
            headers: true,
        };
        let documents: Vec<&[u8]> = documents.iter().map(Vec::as_slice).collect();
        let frame = Batch::plain(FIRST, Codec::None, &documents).encode();
        let found = [false, true].map(|most_pass| {
            let selection = Selection::of(&["offset", "value", "value_error", "value_raw"]).unwrap();
            let mut builder = ColumnBuilder::new(selection, LIMITS)
                .with_decoding(None, Some(&json(wanted.clone())), on_fault)
                .with_condition(condition.clone(), on_fault);
            if most_pass {
                let passing = vec![&b"{}"[..]; FIRST as usize];
                common::append(&mut builder, &Batch::plain(0, Codec::None, &passing).encode(), EVERYTHING).unwrap();
                assert_eq!(builder.finish().rows, FIRST as usize);
            }
            let done = common::append(&mut builder, &frame, EVERYTHING).map_err(|error| (error.kind, error.offset));
            done.map(|done| (done, builder.filtered(), builder.faults(), builder.finish()))
        });
        let [one_by_one, rows_first] = found;
        prop_assert_eq!(one_by_one, rows_first);
    }
}

/// So many records that pass change the order of the work.
const FIRST: i64 = 256;
