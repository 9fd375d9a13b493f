//! What a condition needs of one record, decoded before anything of its row is built.

use crate::decoding::{Decoding, OnFault, Outcome, TypedColumn};
use crate::error::Result;
use crate::fault::Fault;
use crate::header_key;
use crate::record::Headers;
use crate::typed::{Column, DataType, Field};

/// A key or a value.
pub(crate) struct Probe {
    column: TypedColumn,
    bytes_max: usize,
}

impl Probe {
    pub(crate) fn new(decoding: &Decoding, bytes_max: usize) -> Self {
        Probe { column: TypedColumn::new(decoding, OnFault::Fail, false, false), bytes_max }
    }

    /// Decodes `bytes`; why that is not possible, if so.
    #[inline]
    pub(crate) fn decode(&mut self, bytes: Option<&[u8]>) -> Result<Option<Fault>> {
        self.column.truncate(0, 0);
        match self.column.push(bytes, self.bytes_max, true, None)? {
            Outcome::Refused(fault) => Ok(Some(fault)),
            Outcome::Pushed | Outcome::TooLong => Ok(None),
        }
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
