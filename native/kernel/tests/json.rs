//! Values in JSON become columns, whatever bytes they are.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;

use common::values::{self, array, fields, json, VALUE};
use common::{Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::{ColumnBuilder, DataType, Kind, Limits, OnFault};
use proptest::collection::vec;
use proptest::prelude::*;

fn decoded(of: &DataType, documents: &[&[u8]], limits: Limits) -> Vec<(String, Option<String>)> {
    values::decoded(&json(of.clone()), documents, limits)
}

fn of_every_type() -> DataType {
    let inner = fields(&[("s", DataType::String), ("l", DataType::Long)]);
    fields(&[
        ("b", DataType::Boolean),
        ("i", DataType::Int),
        ("y", DataType::Byte),
        ("h", DataType::Short),
        ("l", DataType::Long),
        ("f", DataType::Float),
        ("d", DataType::Double),
        ("n", DataType::Decimal { precision: 10, scale: 2 }),
        ("s", DataType::String),
        ("x", DataType::Binary),
        ("t", DataType::Timestamp),
        ("u", DataType::TimestampNtz),
        ("e", DataType::Date),
        ("o", inner.clone()),
        ("a", array(inner)),
        ("m", DataType::Map(Box::new(DataType::String), Box::new(array(DataType::Int)))),
    ])
}

const WHOLE: &str = r#"{"b":true,"i":-7,"y":255,"h":300,"l":9223372036854775807,"f":1.5,"d":1e400,"n":"1,000.005",
"s":"K\u00f6ln \ud83d\ude00 \ud800","x":"QUJD","t":"2020-01-01T00:00:00Z","u":"2020-01-01","e":"1970-01-02",
"o":{"l":1,"unknown":[1,{"deep":[]}],"s":{"a": [1.0, null]}},"a":[{"s":"x"},null,{}],"m":{"k":[1,2],"k":null}} rest"#;

#[test]
fn a_value_of_every_type() {
    let found = decoded(&of_every_type(), &[WHOLE.as_bytes(), b"{}", b" \n", b"null"], LIMITS);
    let whole = "(true -7 -1 300 9223372036854775807 1.5 inf 100001 \"Köln 😀 ?\" \"ABC\" 1577836800000000 \
                 1577836800000000 1 (\"{\\\"a\\\":[1.0,null]}\" 1) [(\"x\" ~) ~ (~ ~)] {\"k\": [1 2] \"k\": ~})";
    assert_eq!(found[0], (whole.to_owned(), None));
    assert_eq!(found[1], ("(~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~)".to_owned(), None));
    assert_eq!(found[2], ("~".to_owned(), None));
    assert_eq!(found[3].1.as_deref(), Some("\"byte 0: expected an object, found \\\"null\\\"\""));
}

#[test]
fn the_last_of_several_counts_and_every_one_has_to_fit() {
    let of = fields(&[("i", DataType::Int), ("s", DataType::String)]);
    let documents: [&[u8]; 3] = [br#"{"i":1,"s":"a","i":2}"#, br#"{"i":"x","i":2}"#, br#"{"i":1,"i":null,"j":01}"#];
    let found = decoded(&of, &documents, LIMITS);
    assert_eq!(found[0], ("(2 \"a\")".to_owned(), None));
    assert!(found[1].1.as_ref().unwrap().contains("i: byte 5: expected int"));
    assert!(found[2].1.as_ref().unwrap().contains("expected a value"));
}

#[test]
fn names_in_any_order_and_more_than_are_remembered() {
    let names: Vec<String> = (0..200).map(|number| format!("field{number}")).collect();
    let of = fields(&names.iter().map(|name| (name.as_str(), DataType::Int)).collect::<Vec<_>>());
    let document = |order: &mut dyn Iterator<Item = usize>| {
        let members = order.map(|number| format!("\"field{number}\":{number},\"other{number}\" : 0"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let documents = [document(&mut (0..200)), document(&mut (0..200).rev()), document(&mut (0..200).step_by(7))];
    let found = decoded(&of, &documents.each_ref().map(|one| one.as_bytes()), LIMITS);
    assert_eq!(found[0], found[1]);
    let expected = (0..200).map(|number| if number % 7 == 0 { number.to_string() } else { "~".to_owned() });
    assert_eq!(found[2].0, format!("({})", expected.collect::<Vec<_>>().join(" ")));
}

#[test]
fn what_is_nested_deeper_than_jackson_goes() {
    let of = fields(&[("a", DataType::Int)]);
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let found = decoded(&of, &[nested(999).as_bytes(), nested(1000).as_bytes(), nested(100_000).as_bytes()], LIMITS);
    assert_eq!(found.iter().map(|one| one.1.is_some()).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_fault_is_an_error_that_names_the_record_and_takes_its_batch_back() {
    let of = fields(&[("a", DataType::Int)]);
    let frame = Batch::plain(70, Codec::None, &[br#"{"a":1}"#, br#"{"a":true}"#]).encode();
    let mut builder = ColumnBuilder::new(VALUE, LIMITS).with_decoding(None, Some(&json(of.clone())), OnFault::Fail);
    let error = common::append(&mut builder, &frame, EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Undecodable, 71));
    assert_eq!(error.detail, "its value cannot be decoded: a: byte 5: expected int, found \"true}\"");
    assert_eq!((builder.rows(), builder.bytes()), (0, 0));
}

#[test]
fn a_few_bytes_that_stand_for_many_are_bounded() {
    let wide: Vec<(String, DataType)> = (0..500).map(|number| (format!("f{number}"), DataType::Long)).collect();
    let wide = fields(&wide.iter().map(|(name, of)| (name.as_str(), of.clone())).collect::<Vec<_>>());
    let of = fields(&[("a", DataType::Array(Box::new(wide)))]);
    // Each {} is 4,000 bytes of columns.
    let bomb = format!("{{\"a\":[{}{{}}]}}", "{},".repeat(200_000));
    let limits = Limits { bytes_max: 1 << 20, ..LIMITS };
    let found = decoded(&of, &[br#"{"a":[]}"#, bomb.as_bytes(), br#"{"a":[]}"#], limits);
    assert_eq!(found[0].0, "([])");
    assert!(found[1].1.as_ref().unwrap().contains("its columns need more than"));
    assert_eq!(found[2].0, "([])");
}

/// Documents that mostly are of `of_every_type`, some of them damaged.
fn document() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        "-?[0-9]{1,20}(\\.[0-9]{1,3})?(e[0-9]{1,3})?",
        "\"[a-zé\\\\\"\u{1}]{0,40}\"",
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("\"2020-01-01\"".to_owned()),
        Just("[{\"s\":\"x\",\"l\":1},{\"s\":[1,2]}]".to_owned()),
        Just("{\"s\":\"x\",\"k\":[1,2,3]}".to_owned()),
        Just("{\"l\":5}".to_owned()),
    ];
    let name =
        proptest::sample::select(vec!["b", "i", "y", "h", "l", "f", "d", "n", "s", "x", "t", "e", "o", "a", "m", "z"]);
    let whole = vec((name, scalar), 0..8).prop_map(|members| {
        let members: Vec<String> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(",")).into_bytes()
    });
    let damaged =
        (whole, vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), any::<prop::sample::Index>(), any::<bool>());
    damaged.prop_map(|(mut bytes, damages, end, cut)| {
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_document_has_its_own_answer_in_whatever_parts_rows_are_handed_out(
        documents in vec(document(), 1..20), bytes_max in 1..400_usize,
    ) {
        let of = of_every_type();
        let all: Vec<&[u8]> = documents.iter().map(Vec::as_slice).collect();
        let together = decoded(&of, &all, LIMITS);
        let alone: Vec<_> = all.iter().flat_map(|one| decoded(&of, &[one], LIMITS)).collect();
        prop_assert_eq!(&together, &alone);
        prop_assert_eq!(decoded(&of, &all, Limits { bytes_max, ..LIMITS }), alone);
    }

    #[test]
    fn noise(documents in vec(vec(any::<u8>(), 0..60), 1..10)) {
        let documents: Vec<Vec<u8>> = documents.into_iter().map(|bytes| [b"{\"a\":", &bytes[..]].concat()).collect();
        decoded(&of_every_type(), &documents.iter().map(Vec::as_slice).collect::<Vec<_>>(), LIMITS);
    }
}
