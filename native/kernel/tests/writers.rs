//! Values in the frame of a schema registry, by the schema that has written them.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;

use common::typed::cell;
use common::{Batch, Codec, Record, EVERYTHING, LIMITS};
use evensplit_kernel::{
    Array, ColumnBuilder, DataType, Decoding, Field, Format, Framing, Kind, Limits, MissingWriter, OnFault, Selection,
    Typed, Writer, Written,
};

const SELECTION: Selection = Selection {
    topic: false,
    partition: false,
    offset: false,
    timestamp: false,
    timestamp_type: false,
    headers: false,
    cluster: false,
    key: false,
    value_error: true,
    value_raw: true,
    ..Selection::ALL
};

fn of() -> DataType {
    DataType::Struct(vec![Field { name: "id".to_owned(), data_type: DataType::Long }])
}

fn builder(format: Option<Format>, framing: Framing, limits: Limits, on_fault: OnFault) -> ColumnBuilder {
    let decoding = Decoding { format, framing, data_type: of() };
    ColumnBuilder::new(SELECTION, limits).with_decoding(None, Some(&decoding), on_fault)
}

fn framed(id: u32, rest: &str) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), rest.as_bytes()].concat()
}

/// All rows, with the schemas that were asked for, each in turn answered by `answer`.
fn read(
    builder: &mut ColumnBuilder,
    frame: &[u8],
    mut answer: impl FnMut(&Writer) -> Written,
) -> (Vec<(String, String)>, Vec<Writer>) {
    let (mut rows, mut asked, mut range, mut position) = (Vec::new(), Vec::new(), EVERYTHING, 0);
    loop {
        let done = builder.append(&frame[position..], "east", "t", 0, range, &[]).unwrap();
        (range.start, position) = (done.offset_next, position + done.position);
        if let Some(missing) = done.missing {
            assert!(done.stopped);
            asked.push(missing.writer.clone());
            let written = answer(&missing.writer);
            builder.add_writer("east", missing, written.clone(), written);
            continue;
        }
        let columns = builder.finish();
        let Some(Typed { values: Some(values), error: Some(error), raw: Some(_) }) = columns.typed_value else {
            panic!("columns are missing")
        };
        let error = Array::from(error);
        rows.extend((0..columns.rows).map(|row| (cell(&values, &of(), row), cell(&error, &DataType::String, row))));
        if !done.stopped {
            return (rows, asked);
        }
    }
}

fn add(builder: &mut ColumnBuilder, cluster: &str, number: u32, written: Written) {
    let missing = MissingWriter { key: false, writer: id(number) };
    builder.add_writer(cluster, missing, written.clone(), written);
}

fn id(id: u32) -> Writer {
    Writer { id, indexes: Vec::new() }
}

#[test]
fn a_frame_is_checked_and_passed_over() {
    let values = [framed(7, r#"{"id":1}"#), br#"{"id":2}"#.to_vec(), framed(8, r#"{"id":3}"#), framed(8, "")];
    let frame = Batch::plain(0, Codec::None, &values.each_ref().map(Vec::as_slice)).encode();
    let mut builder = builder(Some(Format::Json), Framing::Id, LIMITS, OnFault::Null);
    let (rows, asked) = read(&mut builder, &frame, |_| panic!("nobody has to be asked"));
    assert!(asked.is_empty());
    let cells: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(cells, ["(1)", "~", "(3)", "~"]);
    assert!(rows[1].1.contains("expected the frame of a schema registry"), "{}", rows[1].1);
    assert_eq!(rows[3].1, "~");
}

#[test]
fn each_schema_is_asked_for_once_in_whatever_parts_rows_are_handed_out() {
    let values: Vec<Vec<u8>> = (0..300).map(|n| framed([1, 2, 1, 3, 4][n % 5], &format!("{{\"id\":{n}}}"))).collect();
    let all: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let frame = [
        Batch::plain(0, Codec::None, &all[..100]).encode(),
        Batch::plain(100, Codec::Lz4, &all[100..200]).encode(),
        Batch::plain(200, Codec::Zstd, &all[200..]).encode(),
    ]
    .concat();
    let answer = |writer: &Writer| match writer.id {
        3 => Written::Refused("nobody has this schema".to_owned()),
        _ => Written::In(Format::Json),
    };
    let (whole, asked) = read(&mut builder(None, Framing::Id, LIMITS, OnFault::Null), &frame, answer);
    assert_eq!(asked, [id(1), id(2), id(3), id(4)]);
    for (n, row) in whole.iter().enumerate() {
        let refused = n % 5 == 3;
        let expected = if refused { "~".to_owned() } else { format!("({n})") };
        assert_eq!((&row.0, row.1 != "~"), (&expected, refused));
    }
    for bytes_max in [1, 100, 1000] {
        let limits = Limits { bytes_max, ..LIMITS };
        let (parts, asked) = read(&mut builder(None, Framing::Id, limits, OnFault::Null), &frame, answer);
        assert_eq!((parts == whole, asked.len()), (true, 4), "{bytes_max}");
    }
}

#[test]
fn ids_of_one_cluster_say_nothing_of_another() {
    let value_1 = framed(1, r#"{"id":1}"#);
    let frame = Batch::plain(0, Codec::None, &[&value_1]).encode();
    let mut builder = builder(None, Framing::Id, LIMITS, OnFault::Null);
    add(&mut builder, "east", 1, Written::In(Format::Json));
    let append = |builder: &mut ColumnBuilder, cluster| {
        builder.append(&frame, cluster, "t", 0, EVERYTHING, &[]).unwrap().missing.map(|missing| missing.writer)
    };
    assert_eq!(append(&mut builder, "east"), None);
    assert_eq!(append(&mut builder, "west"), Some(id(1)));
    add(&mut builder, "west", 1, Written::Refused("no".to_owned()));
    assert_eq!(append(&mut builder, "west"), None);
    assert_eq!(append(&mut builder, "east"), None);
    let Some(Typed { values: Some(values), .. }) = builder.finish().typed_value else { panic!("no values") };
    assert_eq!([0, 1, 2].map(|row| cell(&values, &of(), row)), ["(1)", "~", "(1)"]);
}

#[test]
fn a_message_is_named_by_its_place() {
    let values = [framed(1, "\0{\"id\":1}"), framed(1, "\x02\0{\"id\":2}"), framed(1, "\x04\x02\0{\"id\":3}")];
    let frame = Batch::plain(0, Codec::None, &values.each_ref().map(Vec::as_slice)).encode();
    let mut builder = builder(None, Framing::IdAndIndexes, LIMITS, OnFault::Null);
    let (rows, asked) = read(&mut builder, &frame, |_| Written::In(Format::Json));
    assert_eq!(asked, [id(1), Writer { id: 1, indexes: vec![1, 0] }]);
    assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["(1)", "(2)", "(3)"]);
}

#[test]
fn what_a_schema_refuses_is_an_error_where_nothing_is_null() {
    let values = [framed(1, r#"{"id":1}"#), framed(2, r#"{"id":2}"#)];
    let frame = Batch::plain(5, Codec::None, &values.each_ref().map(Vec::as_slice)).encode();
    let mut builder = builder(None, Framing::Id, LIMITS, OnFault::Fail);
    add(&mut builder, "east", 1, Written::In(Format::Json));
    add(&mut builder, "east", 2, Written::Refused("nobody has it".to_owned()));
    let error = builder.append(&frame, "east", "t", 0, EVERYTHING, &[]).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Undecodable, 6));
    assert!(error.detail.contains("nobody has it"));
    assert_eq!(builder.rows(), 0);
}

#[test]
fn more_schemas_than_are_remembered() {
    let values: Vec<Vec<u8>> = (0..20_050).map(|n| framed(n, "{}")).collect();
    let frame = Batch::plain(0, Codec::None, &values.iter().map(Vec::as_slice).collect::<Vec<_>>()).encode();
    let mut builder = builder(None, Framing::Id, LIMITS, OnFault::Null);
    let (rows, asked) = read(&mut builder, &frame, |_| Written::In(Format::Json));
    assert_eq!((rows.len(), asked.len()), (20_050, 20_050));
    let (rows, asked) = read(&mut builder, &frame, |_| Written::In(Format::Json));
    assert_eq!((rows.len(), asked.len()), (20_050, 20_050), "none of them is there any more");
}

#[test]
fn what_is_tried_again_is_counted_once() {
    // The key cannot be decoded, and the schema of the value is asked for after that.
    let record = Record { key: Some(b"{".to_vec()), ..Record::plain(0, &framed(1, "{}")) };
    let frame = Batch { records: vec![record], ..Batch::plain(0, Codec::None, &[b"x"]) }.encode();
    let key = Decoding { format: Some(Format::Json), framing: Framing::None, data_type: of() };
    let value = Decoding { format: None, framing: Framing::Id, data_type: of() };
    let mut builder = ColumnBuilder::new(Selection { key: true, ..SELECTION }, LIMITS).with_decoding(
        Some(&key),
        Some(&value),
        OnFault::Null,
    );
    let done = builder.append(&frame, "east", "t", 0, EVERYTHING, &[]).unwrap();
    assert_eq!((done.missing.map(|missing| missing.writer), builder.faults()), (Some(id(1)), 0));
    add(&mut builder, "east", 1, Written::In(Format::Json));
    let again = builder.append(&frame, "east", "t", 0, EVERYTHING, &[]).unwrap();
    assert_eq!((again.missing, builder.faults(), builder.rows()), (None, 1, 1));
}
