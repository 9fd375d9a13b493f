//! Values that a kernel decodes, as text.

use super::typed::{cell, check};
use super::{append, Batch, Codec, EVERYTHING};
use evensplit_kernel::{
    Array, ColumnBuilder, DataType, Decoding, Field, Format, Framing, Limits, OnFault, Selection, Typed,
};

/// Values, and what is wrong with them.
pub const VALUE: Selection = Selection {
    key: false,
    value: true,
    topic: false,
    partition: false,
    offset: false,
    timestamp: false,
    timestamp_type: false,
    headers: false,
    cluster: false,
    value_error: true,
    value_raw: true,
    ..Selection::ALL
};

pub fn fields(of: &[(&str, DataType)]) -> DataType {
    let field = |(name, data_type): &(&str, DataType)| Field { name: (*name).to_owned(), data_type: data_type.clone() };
    DataType::Struct(of.iter().map(field).collect())
}

pub fn array(of: DataType) -> DataType {
    DataType::Array(Box::new(of))
}

pub fn json(of: DataType) -> Decoding {
    Decoding { format: Some(Format::Json), framing: Framing::None, data_type: of }
}

/// The cells of all values, and what is said of those that cannot be decoded.
pub fn decoded(how: &Decoding, values: &[&[u8]], limits: Limits) -> Vec<(String, Option<String>)> {
    let frame = Batch::plain(0, Codec::None, values).encode();
    let mut builder = ColumnBuilder::new(VALUE, limits).with_decoding(None, Some(how), OnFault::Null);
    let (mut found, mut range) = (Vec::new(), EVERYTHING);
    loop {
        let done = append(&mut builder, &frame, range).unwrap();
        range.start = done.offset_next;
        let columns = builder.finish();
        let Some(Typed { values: Some(cells), error: Some(error), raw: Some(raw) }) = columns.typed_value else {
            panic!("columns are missing")
        };
        check(&cells, &how.data_type);
        let (error, raw) = (Array::from(error), Array::from(raw));
        for row in 0..columns.rows {
            let text = cell(&error, &DataType::String, row);
            let bytes = cell(&raw, &DataType::Binary, row);
            assert_eq!(text == "~", bytes == "~");
            if text != "~" {
                assert_eq!(cell(&cells, &how.data_type, row), "~");
                assert_eq!(bytes, format!("{:?}", String::from_utf8_lossy(values[found.len()])));
            }
            found.push((cell(&cells, &how.data_type, row), (text != "~").then_some(text)));
        }
        assert!(columns.rows > 0 || !done.stopped, "it stands still");
        if !done.stopped {
            return found;
        }
    }
}
