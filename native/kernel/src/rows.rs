//! The columns whose values differ from record to record.

use crate::binary::{Binary, BinaryColumn};
use crate::decoding::{Outcome, Typed, TypedColumn};
use crate::error::{Error, Kind, Result};
use crate::fault::Fault;
use crate::framing::Writer;
use crate::headers::{HeaderColumn, HeaderColumnBuilder};
use crate::record::Record;
use crate::selection::Selection;
use crate::times::{TimeColumn, Times};
use crate::writers::Written;

/// The column of keys, or of values.
enum Cells {
    /// It is not wanted.
    Absent,
    Bytes(BinaryColumn),
    Typed(Box<TypedColumn>),
}

/// The finished column of keys, or of values.
#[derive(Default)]
pub(crate) struct FinishedCells {
    pub(crate) bytes: Option<Binary>,
    pub(crate) typed: Option<Typed>,
}

pub(crate) struct Rows {
    count: usize,
    /// The bytes of all rows in the columns that are written later.
    bytes_elsewhere: usize,
    /// The bytes that every row needs for numbers and 32-bit offsets.
    row_bytes: usize,
    key: Cells,
    value: Cells,
    offset: Option<Vec<i64>>,
    timestamp: Option<TimeColumn>,
    headers: Option<HeaderColumnBuilder>,
}

/// What there is to do before a record can be a row.
pub(crate) enum Decode {
    /// Nothing: it was decoded, and its row is to be pushed.
    Done,
    /// It does not fit beside the others.
    Full,
    /// Somebody has to say what becomes of values with this schema.
    Unknown(MissingWriter),
}

/// A writer's schema that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingWriter {
    /// Whether it is of a key; otherwise of a value.
    pub key: bool,
    /// The schema.
    pub writer: Writer,
}

/// Something of keys, and of values.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sides<T> {
    pub(crate) key: T,
    pub(crate) value: T,
}

/// A state of the columns, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    rows: usize,
    bytes_elsewhere: usize,
    key_bytes: usize,
    value_bytes: usize,
    faults: Sides<u64>,
}

/// The finished columns.
pub(crate) struct RowColumns {
    pub(crate) key: FinishedCells,
    pub(crate) value: FinishedCells,
    pub(crate) offset: Option<Vec<i64>>,
    pub(crate) timestamp: Option<Times>,
    pub(crate) headers: Option<HeaderColumn>,
}

impl Cells {
    fn new(wanted: bool, typed: Option<TypedColumn>) -> Self {
        match typed {
            Some(column) => Cells::Typed(Box::new(column)),
            None if wanted => Cells::Bytes(BinaryColumn::default()),
            None => Cells::Absent,
        }
    }

    /// The bytes that each row needs for numbers and 32-bit offsets.
    fn row_bytes(&self) -> usize {
        match self {
            Cells::Absent => 0,
            Cells::Bytes(_) => 4,
            Cells::Typed(column) => column.row_bytes(),
        }
    }

    /// The bytes of all rows beyond those.
    #[inline]
    fn data_bytes(&self) -> usize {
        match self {
            Cells::Absent => 0,
            Cells::Bytes(column) => column.data_bytes(),
            Cells::Typed(column) => column.data_bytes(),
        }
    }

    /// The bytes of a row beyond those, unless it is decoded.
    #[inline]
    fn bytes_of(&self, cell: Option<&[u8]>) -> usize {
        match (self, cell) {
            (Cells::Bytes(_), Some(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// Adds a row that is not decoded.
    #[inline(always)]
    fn push(&mut self, cell: Option<&[u8]>) -> Result<()> {
        match self {
            Cells::Bytes(column) => column.push(cell),
            _ => Ok(()),
        }
    }

    /// The bytes of lists and texts in all rows that were decoded.
    fn mark(&self) -> usize {
        match self {
            Cells::Typed(column) => column.bytes(),
            _ => 0,
        }
    }

    fn truncate(&mut self, rows: usize, bytes: usize) {
        match self {
            Cells::Absent => {}
            Cells::Bytes(column) => column.truncate(rows),
            Cells::Typed(column) => column.truncate(rows, bytes),
        }
    }

    fn finish(&mut self) -> FinishedCells {
        match self {
            Cells::Absent => FinishedCells::default(),
            Cells::Bytes(column) => FinishedCells { bytes: Some(column.finish()), typed: None },
            Cells::Typed(column) => FinishedCells { bytes: None, typed: Some(column.finish()) },
        }
    }

    fn faults(&self) -> u64 {
        self.typed().map_or(0, TypedColumn::faults)
    }

    fn typed(&self) -> Option<&TypedColumn> {
        match self {
            Cells::Typed(column) => Some(column),
            _ => None,
        }
    }
}

impl Rows {
    /// `key`, `value`: the columns that they are decoded into, if they are.
    pub(crate) fn new(selection: Selection, key: Option<TypedColumn>, value: Option<TypedColumn>) -> Self {
        let (key, value) = (Cells::new(selection.key, key), Cells::new(selection.value, value));
        Rows {
            count: 0,
            bytes_elsewhere: 0,
            row_bytes: selection.row_bytes() + key.row_bytes() + value.row_bytes(),
            key,
            value,
            offset: selection.offset.then(Vec::new),
            timestamp: selection.timestamp.then(TimeColumn::default),
            headers: selection.headers.then(HeaderColumnBuilder::new),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The columns that keys and values are decoded into, if they are.
    pub(crate) fn typed(&self) -> Sides<Option<&TypedColumn>> {
        Sides { key: self.key.typed(), value: self.value.typed() }
    }

    /// How many keys and values could not be decoded so far, and became null.
    pub(crate) fn faults(&self) -> Sides<u64> {
        Sides { key: self.key.faults(), value: self.value.faults() }
    }

    /// The bytes of all rows, including those pushed as `bytes_elsewhere`.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, HeaderColumnBuilder::bytes);
        let data = self.key.data_bytes() + self.value.data_bytes();
        self.count * self.row_bytes + data + headers + self.bytes_elsewhere
    }

    /// The bytes that a record needs here, and in the columns of numbers that are written later; those of what is
    /// decoded are known only when it is.
    #[inline]
    pub(crate) fn bytes_of(&self, record: &Record<'_>) -> usize {
        let headers = self.headers.as_ref().map_or(0, |_| HeaderColumnBuilder::row_bytes(&record.headers));
        self.row_bytes + self.key.bytes_of(record.key) + self.value.bytes_of(record.value) + headers
    }

    /// An upper bound on the bytes that so many records in so many bytes need here, if none is decoded.
    pub(crate) fn bytes_max(&self, records: usize, bytes: usize) -> usize {
        // One byte of a header's key can become three, and its two lengths become two 32-bit offsets and one for the
        // row.
        let factor = if self.headers.is_some() { 5 } else { 1 };
        records.saturating_mul(self.row_bytes + 4).saturating_add(bytes.saturating_mul(factor))
    }

    /// Adds a row, which needs `bytes_elsewhere`, of a record that is not decoded. `micros` is called only if there is a
    /// column for it.
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
        self.key.push(record.key)?;
        self.value.push(record.value)?;
        if let Some(column) = &mut self.offset {
            column.push(offset);
        }
        self.count += 1;
        self.bytes_elsewhere = self.bytes_elsewhere.saturating_add(bytes_elsewhere);
        Ok(())
    }

    /// Notes that what comes next is from this cluster.
    pub(crate) fn select(&mut self, cluster: &str) {
        for cells in [&mut self.key, &mut self.value] {
            if let Cells::Typed(column) = cells {
                column.select(cluster);
            }
        }
    }

    /// Notes what becomes of all that `missing` has written in the cluster that is selected.
    pub(crate) fn add_writer(&mut self, missing: MissingWriter, written: Written) {
        if let Cells::Typed(column) = if missing.key { &mut self.key } else { &mut self.value } {
            column.add_writer(missing.writer, written);
        }
    }

    /// Decodes what is to be decoded of a record, for the row that is added next. It is full if all rows would then
    /// need more than `bytes_hard_max`, unless it is the first one. `known`: why its key and its value cannot be
    /// decoded, if that is known.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        record: &Record<'_>,
        offset: i64,
        bytes_elsewhere: usize,
        bytes_hard_max: usize,
        known: Sides<Option<Fault>>,
    ) -> Result<Decode> {
        let first = self.count == 0;
        let mark = self.mark();
        let needed = self.bytes().saturating_add(self.bytes_of(record)).saturating_add(bytes_elsewhere);
        let mut left = bytes_hard_max.saturating_sub(needed);
        if !first && left == 0 {
            return Ok(Decode::Full);
        }
        let mut done = Decode::Done;
        for (what, cells, cell, known) in
            [("key", &mut self.key, record.key, known.key), ("value", &mut self.value, record.value, known.value)]
        {
            let Cells::Typed(column) = cells else { continue };
            let before = column.data_bytes();
            match column.push(cell, left, first, known)? {
                Outcome::Pushed => left = left.saturating_sub(column.data_bytes() - before),
                Outcome::TooLong => {
                    done = Decode::Full;
                    break;
                }
                Outcome::Unknown(writer) => {
                    done = Decode::Unknown(MissingWriter { key: what == "key", writer });
                    break;
                }
                Outcome::Refused(fault) => {
                    let detail = format!("its {what} cannot be decoded: {}", fault.text());
                    return Err(Error::new(Kind::Undecodable, detail).at(offset));
                }
            }
        }
        if !matches!(done, Decode::Done) {
            self.roll_back(mark);
        }
        Ok(done)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            rows: self.count,
            bytes_elsewhere: self.bytes_elsewhere,
            key_bytes: self.key.mark(),
            value_bytes: self.value.mark(),
            faults: self.faults(),
        }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.count = mark.rows;
        self.bytes_elsewhere = mark.bytes_elsewhere;
        self.key.truncate(mark.rows, mark.key_bytes);
        self.value.truncate(mark.rows, mark.value_bytes);
        for (cells, faults) in [(&mut self.key, mark.faults.key), (&mut self.value, mark.faults.value)] {
            if let Cells::Typed(column) = cells {
                column.restore_faults(faults);
            }
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
            key: self.key.finish(),
            value: self.value.finish(),
            offset: self.offset.as_mut().map(|column| std::mem::replace(column, Vec::with_capacity(rows))),
            timestamp: self.timestamp.as_mut().map(TimeColumn::finish),
            headers: self.headers.as_mut().map(HeaderColumnBuilder::finish),
        }
    }
}
