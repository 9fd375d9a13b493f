//! The records of one record batch become rows, all at once or part by part.

use crate::batch::Batch;
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::rows::Rows;
use crate::wire::Reader;

const MICROS_PER_MILLI: i64 = 1000;

/// Offsets to read: `start <= offset < end`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first offset that is wanted.
    pub start: i64,
    /// The first offset that is not wanted any more.
    pub end: i64,
}

/// A place among the records of a batch, in front of one of them or behind the last.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// How many bytes are before it.
    position: usize,
    /// How many records are behind it.
    records_left: usize,
    /// No record behind it has a lower offset.
    pub(crate) offset: i64,
}

impl Cursor {
    pub(crate) fn at_first(batch: &Batch<'_>) -> Self {
        Cursor { position: 0, records_left: batch.records_count, offset: batch.base_offset }
    }
}

/// Which records of a batch become rows.
pub(crate) struct Taking<'a> {
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) range: Range,
    /// What a row needs in the columns that are written later.
    pub(crate) bytes_elsewhere: usize,
    pub(crate) bytes_hard_max: usize,
    pub(crate) headers_wanted: bool,
    /// Whether a timestamp that cannot be held is null rather than an error.
    pub(crate) null_timestamps: bool,
}

impl Taking<'_> {
    /// Adds the records behind `from`, and checks those that are not wanted.
    ///
    /// Returns the place of the first record that should have been added and that memory does not allow. What is behind
    /// it was not looked at.
    pub(crate) fn append(&self, records: &[u8], from: Cursor, rows: &mut Rows) -> Result<Option<Cursor>> {
        let elsewhere = from.records_left.saturating_mul(self.bytes_elsewhere);
        let left = records.len().saturating_sub(from.position);
        let bytes = rows.bytes_max(from.records_left, left).saturating_add(elsewhere);
        if rows.bytes().saturating_add(bytes) <= self.bytes_hard_max {
            self.append_records::<false>(records, from, rows)
        } else {
            self.append_records::<true>(records, from, rows)
        }
    }

    /// `BOUNDED`: the bound on all bytes can be reached, so every row is measured.
    fn append_records<const BOUNDED: bool>(
        &self,
        records: &[u8],
        from: Cursor,
        rows: &mut Rows,
    ) -> Result<Option<Cursor>> {
        let mut reader = Reader::new(records.get(from.position..).unwrap_or_default());
        let mut offset_min = from.offset;
        for records_left in (1..=from.records_left).rev() {
            let before = reader;
            let (record, offset) = self.next(&mut reader, offset_min)?;
            if offset >= self.range.start && offset < self.range.end {
                if BOUNDED && rows.count() > 0 {
                    let bytes = self.bytes_elsewhere.saturating_add(rows.bytes_of(&record));
                    if rows.bytes().saturating_add(bytes) > self.bytes_hard_max {
                        let position = records.len() - before.left();
                        return Ok(Some(Cursor { position, records_left, offset }));
                    }
                }
                rows.push(&record, offset, self.bytes_elsewhere, || self.micros(&record, offset))?;
            }
            offset_min = offset + 1;
        }
        match reader.left() {
            0 => Ok(None),
            left => Err(Error::malformed(format!(
                "{} records were announced, and {left} bytes follow the last",
                self.batch.records_count
            ))),
        }
    }

    /// The next record, and its offset.
    #[inline(always)]
    fn next<'a>(&self, reader: &mut Reader<'a>, offset_min: i64) -> Result<(Record<'a>, i64)> {
        let record = Record::read(reader, self.headers_wanted)?;
        let offset = self.batch.base_offset.saturating_add(i64::from(record.offset_delta));
        let last = self.batch.last_offset;
        if offset < offset_min || offset > last {
            return Err(Error::malformed(format!("a record has offset {offset}, expected {offset_min} to {last}")));
        }
        Ok((record, offset))
    }

    /// The record's timestamp in microseconds, as far as they can hold it.
    #[inline]
    fn micros(&self, record: &Record<'_>, offset: i64) -> Result<Option<i64>> {
        let millis = if self.batch.log_append_time {
            self.batch.max_timestamp
        } else {
            // Writers take the difference as readers take the sum: beyond 64 bits, and the record's own comes out.
            self.batch.base_timestamp.wrapping_add(record.timestamp_delta)
        };
        match millis.checked_mul(MICROS_PER_MILLI) {
            Some(micros) => Ok(Some(micros)),
            None if self.null_timestamps => Ok(None),
            None => Err(out_of_range(millis).at(offset)),
        }
    }
}

#[cold]
fn out_of_range(millis: i64) -> Error {
    let [least, most] = [i64::MIN, i64::MAX].map(|micros| micros / MICROS_PER_MILLI);
    Error::new(
        Kind::Timestamp,
        format!(
            "a record's timestamp is {millis} ms since 1970, and 64 bits of microseconds hold {least} to {most} ms"
        ),
    )
}
