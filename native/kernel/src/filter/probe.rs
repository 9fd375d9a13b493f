//! What a condition needs of one record, decoded before anything of its row is built.

use crate::decoding::{Decoding, OnFault, Outcome, TypedColumn};
use crate::error::Result;
use crate::fault::Fault;
use crate::framing::Writer;
use crate::header_key;
use crate::record::Headers;
use crate::typed::{Column, DataType, Field};
use crate::writers::Written;

/// What became of a key or a value.
pub(crate) enum Probed {
    Decoded,
    /// It cannot be decoded.
    Refused(Fault),
    /// Somebody has to say what becomes of values with this schema.
    Unknown(Writer),
}

/// A key or a value.
pub(crate) struct Probe {
    column: TypedColumn,
    bytes_max: usize,
}

impl Probe {
    pub(crate) fn new(decoding: &Decoding, bytes_max: usize) -> Self {
        Probe { column: TypedColumn::new(decoding, OnFault::Fail, false, false), bytes_max }
    }

    /// Notes that what comes next is from this cluster.
    pub(crate) fn select(&mut self, cluster: &str) {
        self.column.select(cluster);
    }

    /// Notes what becomes of all that `writer` has written in the cluster that is selected.
    pub(crate) fn add_writer(&mut self, writer: Writer, written: Written) {
        self.column.add_writer(writer, written);
    }

    /// Decodes `bytes`.
    #[inline]
    pub(crate) fn decode(&mut self, bytes: Option<&[u8]>) -> Result<Probed> {
        self.column.truncate(0, 0);
        Ok(match self.column.push(bytes, self.bytes_max, true, None)? {
            Outcome::Refused(fault) => Probed::Refused(fault),
            Outcome::Unknown(writer) => Probed::Unknown(writer),
            Outcome::Pushed | Outcome::TooLong => Probed::Decoded,
        })
    }

    pub(crate) fn column(&self) -> &Column {
        self.column.column()
    }
}

/// A column for the headers of one record.
pub(crate) fn header_column() -> Column {
    let field = |name: &str, data_type| Field { name: name.to_owned(), data_type };
    let item = DataType::Struct(vec![field("key", DataType::String), field("value", DataType::Binary)]);
    Column::new(&DataType::Array(Box::new(item)))
}

/// Makes `headers` the one row of `column`: null if there are none.
pub(crate) fn read_headers(headers: &Headers<'_>, column: &mut Column) -> Result<()> {
    column.truncate(0);
    if headers.count() == 0 {
        column.push_null();
        return Ok(());
    }
    let Column::Array(list) = column else { return Ok(()) };
    if let Column::Struct(items) = list.items() {
        for (key, value) in headers.iter() {
            if let Some(Column::String(keys)) = items.child(0) {
                keys.push(Some(header_key::decode(key).as_bytes()))?;
            }
            if let Some(Column::Binary(values)) = items.child(1) {
                values.push(value)?;
            }
            items.push_complete();
        }
    }
    list.push()
}
