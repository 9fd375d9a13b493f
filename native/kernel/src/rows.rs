//! The columns whose values differ from record to record.

use crate::binary::{self, Binary, BinaryColumn};
use crate::error::Result;
use crate::headers::{self, HeaderColumn, HeaderColumnBuilder};
use crate::record::Record;

/// The fixed-width columns (partition, offset, timestamp, timestamp type) and the 32-bit offsets of key and value.
const ROW_BYTES: usize = 4 + 8 + 8 + 4 + 4 + 4;

pub(crate) struct Rows {
    bytes: usize,
    key: BinaryColumn,
    value: BinaryColumn,
    offset: Vec<i64>,
    timestamp: Vec<i64>,
    headers: Option<HeaderColumnBuilder>,
}

/// The state of the columns at a moment, to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    rows: usize,
    bytes: usize,
    key: binary::Mark,
    value: binary::Mark,
    headers: Option<headers::Mark>,
}

/// The finished columns.
pub(crate) struct RowColumns {
    pub(crate) key: Binary,
    pub(crate) value: Binary,
    pub(crate) offset: Vec<i64>,
    pub(crate) timestamp: Vec<i64>,
    pub(crate) headers: Option<HeaderColumn>,
}

impl Rows {
    pub(crate) fn new(headers: bool) -> Self {
        Rows {
            bytes: 0,
            key: BinaryColumn::default(),
            value: BinaryColumn::default(),
            offset: Vec::new(),
            timestamp: Vec::new(),
            headers: headers.then(HeaderColumnBuilder::new),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.offset.len()
    }

    /// The bytes of all rows, those included that were pushed as `bytes_elsewhere`.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes that a record needs here, in the fixed-width columns, and in 32-bit offsets.
    #[inline]
    pub(crate) fn bytes_of(&self, record: &Record<'_>) -> usize {
        let headers = match &self.headers {
            Some(_) => HeaderColumnBuilder::row_bytes(&record.headers),
            None => 0,
        };
        ROW_BYTES + record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers
    }

    /// Adds a row, which counts as `bytes`.
    #[inline]
    pub(crate) fn push(&mut self, record: &Record<'_>, offset: i64, timestamp: i64, bytes: usize) -> Result<()> {
        if let Some(headers) = &mut self.headers {
            headers.push(&record.headers)?;
        }
        self.key.push(record.key)?;
        self.value.push(record.value)?;
        self.offset.push(offset);
        self.timestamp.push(timestamp);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            rows: self.count(),
            bytes: self.bytes,
            key: self.key.mark(),
            value: self.value.mark(),
            headers: self.headers.as_ref().map(HeaderColumnBuilder::mark),
        }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.bytes = mark.bytes;
        self.key.roll_back(mark.key);
        self.value.roll_back(mark.value);
        self.offset.truncate(mark.rows);
        self.timestamp.truncate(mark.rows);
        if let (Some(headers), Some(mark)) = (&mut self.headers, mark.headers) {
            headers.roll_back(mark);
        }
    }

    /// Hands the rows out and begins anew, with room for as many rows again.
    pub(crate) fn finish(&mut self) -> RowColumns {
        let rows = self.count();
        self.bytes = 0;
        RowColumns {
            key: self.key.finish(),
            value: self.value.finish(),
            offset: std::mem::replace(&mut self.offset, Vec::with_capacity(rows)),
            timestamp: std::mem::replace(&mut self.timestamp, Vec::with_capacity(rows)),
            headers: self.headers.as_mut().map(HeaderColumnBuilder::finish),
        }
    }
}
