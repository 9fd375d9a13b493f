//! The columns whose values differ from record to record.

use crate::binary::{Binary, BinaryColumn};
use crate::error::Result;
use crate::headers::{HeaderColumn, HeaderColumnBuilder};
use crate::record::Record;
use crate::selection::Selection;
use crate::times::{TimeColumn, Times};

pub(crate) struct Rows {
    count: usize,
    /// The bytes of all rows in the columns that are written later.
    bytes_elsewhere: usize,
    /// The bytes that every row needs for numbers and 32-bit offsets.
    row_bytes: usize,
    key: Option<BinaryColumn>,
    value: Option<BinaryColumn>,
    offset: Option<Vec<i64>>,
    timestamp: Option<TimeColumn>,
    headers: Option<HeaderColumnBuilder>,
}

/// A state of the columns, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    rows: usize,
    bytes_elsewhere: usize,
}

/// The finished columns.
pub(crate) struct RowColumns {
    pub(crate) key: Option<Binary>,
    pub(crate) value: Option<Binary>,
    pub(crate) offset: Option<Vec<i64>>,
    pub(crate) timestamp: Option<Times>,
    pub(crate) headers: Option<HeaderColumn>,
}

impl Rows {
    pub(crate) fn new(selection: Selection) -> Self {
        Rows {
            count: 0,
            bytes_elsewhere: 0,
            row_bytes: selection.row_bytes(),
            key: selection.key.then(BinaryColumn::default),
            value: selection.value.then(BinaryColumn::default),
            offset: selection.offset.then(Vec::new),
            timestamp: selection.timestamp.then(TimeColumn::default),
            headers: selection.headers.then(HeaderColumnBuilder::new),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of all rows, including those pushed as `bytes_elsewhere`.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let data = |column: &Option<BinaryColumn>| column.as_ref().map_or(0, BinaryColumn::data_bytes);
        let headers = self.headers.as_ref().map_or(0, HeaderColumnBuilder::bytes);
        self.count * self.row_bytes + data(&self.key) + data(&self.value) + headers + self.bytes_elsewhere
    }

    /// The bytes that a record needs here, and in the columns of numbers that are written later.
    #[inline]
    pub(crate) fn bytes_of(&self, record: &Record<'_>) -> usize {
        let length = |column: &Option<BinaryColumn>, cell: Option<&[u8]>| match (column, cell) {
            (Some(_), Some(bytes)) => bytes.len(),
            _ => 0,
        };
        let headers = self.headers.as_ref().map_or(0, |_| HeaderColumnBuilder::row_bytes(&record.headers));
        self.row_bytes + length(&self.key, record.key) + length(&self.value, record.value) + headers
    }

    /// An upper bound on the bytes that so many records in so many bytes need here.
    pub(crate) fn bytes_max(&self, records: usize, bytes: usize) -> usize {
        // One byte of a header's key can become three, and its two lengths become two 32-bit offsets and one for the
        // row.
        let factor = if self.headers.is_some() { 5 } else { 1 };
        records.saturating_mul(self.row_bytes + 4).saturating_add(bytes.saturating_mul(factor))
    }

    /// Adds a row, which needs `bytes_elsewhere`. `micros` is called only if there is a column for it.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        record: &Record<'_>,
        offset: i64,
        bytes_elsewhere: usize,
        micros: impl FnOnce() -> Result<Option<i64>>,
    ) -> Result<()> {
        if let Some(column) = &mut self.timestamp {
            column.push(micros()?);
        }
        if let Some(column) = &mut self.headers {
            column.push(&record.headers)?;
        }
        if let Some(column) = &mut self.key {
            column.push(record.key)?;
        }
        if let Some(column) = &mut self.value {
            column.push(record.value)?;
        }
        if let Some(column) = &mut self.offset {
            column.push(offset);
        }
        self.count += 1;
        self.bytes_elsewhere = self.bytes_elsewhere.saturating_add(bytes_elsewhere);
        Ok(())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { rows: self.count, bytes_elsewhere: self.bytes_elsewhere }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.count = mark.rows;
        self.bytes_elsewhere = mark.bytes_elsewhere;
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.truncate(mark.rows);
        }
        if let Some(offsets) = &mut self.offset {
            offsets.truncate(mark.rows);
        }
        if let Some(times) = &mut self.timestamp {
            times.truncate(mark.rows);
        }
        if let Some(headers) = &mut self.headers {
            headers.truncate(mark.rows);
        }
    }

    /// Returns the rows and starts over, with room for as many rows.
    pub(crate) fn finish(&mut self) -> RowColumns {
        let rows = std::mem::take(&mut self.count);
        self.bytes_elsewhere = 0;
        RowColumns {
            key: self.key.as_mut().map(BinaryColumn::finish),
            value: self.value.as_mut().map(BinaryColumn::finish),
            offset: self.offset.as_mut().map(|column| std::mem::replace(column, Vec::with_capacity(rows))),
            timestamp: self.timestamp.as_mut().map(TimeColumn::finish),
            headers: self.headers.as_mut().map(HeaderColumnBuilder::finish),
        }
    }
}
