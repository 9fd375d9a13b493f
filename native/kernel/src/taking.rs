//! Turns the records of one record batch into rows, all at once or part by part.

use crate::batch::Batch;
use crate::error::{Error, Kind, Result};
use crate::filter::{Facts, Filter, Verdict};
use crate::record::Record;
use crate::rows::{Decode, MissingWriter, Rows, Sides};
use crate::runs::Labels;
use crate::wire::Reader;

const MICROS_PER_MILLI: i64 = 1000;

/// Offsets to read: `start <= offset < end`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first offset that is wanted.
    pub start: i64,
    /// The first offset after those that are wanted.
    pub end: i64,
}

/// A place among the records of a batch: before one of them, or after the last.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// The number of bytes before it.
    position: usize,
    /// The number of records after it.
    records_left: usize,
    /// No record after it has a lower offset.
    pub(crate) offset: i64,
}

impl Cursor {
    pub(crate) fn at_first(batch: &Batch<'_>) -> Self {
        Cursor { position: 0, records_left: batch.records_count, offset: batch.base_offset }
    }
}

/// Where and why a batch was left before its end.
pub(crate) struct Stopped {
    pub(crate) at: Cursor,
    /// The schema that is not known; `None`: memory does not allow more.
    pub(crate) missing: Option<MissingWriter>,
}

/// Which records of a batch become rows.
pub(crate) struct Taking<'a> {
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) range: Range,
    /// The bytes that a row needs in the columns that are written later.
    pub(crate) bytes_elsewhere: usize,
    pub(crate) bytes_hard_max: usize,
    pub(crate) headers_wanted: bool,
    /// Whether a timestamp that cannot be held is null rather than an error.
    pub(crate) null_timestamps: bool,
    pub(crate) labels: &'a Labels,
}

impl Taking<'_> {
    /// Adds the records after `from`, and checks those that are not wanted.
    ///
    /// Returns the place of the first wanted record that cannot be a row yet. The records after it were not read.
    pub(crate) fn append(
        &self,
        records: &[u8],
        from: Cursor,
        rows: &mut Rows,
        filter: Option<&mut Filter>,
    ) -> Result<Option<Stopped>> {
        if let Some(filter) = filter {
            return self
                .append_each(records, from, rows, |record, offset, rows| self.append_if(filter, record, offset, rows));
        }
        let typed = rows.typed();
        if typed.key.is_some() || typed.value.is_some() {
            return self.append_each(records, from, rows, |record, offset, rows| {
                let done = rows.decode(record, offset, self.bytes_elsewhere, self.bytes_hard_max, Sides::default())?;
                if let Decode::Done = done {
                    self.push(record, offset, rows)?;
                }
                Ok(done)
            });
        }
        let elsewhere = from.records_left.saturating_mul(self.bytes_elsewhere);
        let left = records.len().saturating_sub(from.position);
        let bytes = rows.bytes_max(from.records_left, left).saturating_add(elsewhere);
        if rows.bytes().saturating_add(bytes) <= self.bytes_hard_max {
            self.append_each(records, from, rows, |record, offset, rows| {
                self.push(record, offset, rows)?;
                Ok(Decode::Done)
            })
        } else {
            self.append_each(records, from, rows, |record, offset, rows| {
                let bytes = self.bytes_elsewhere.saturating_add(rows.bytes_of(record));
                let fits = rows.count() == 0 || rows.bytes().saturating_add(bytes) <= self.bytes_hard_max;
                if !fits {
                    return Ok(Decode::Full);
                }
                self.push(record, offset, rows)?;
                Ok(Decode::Done)
            })
        }
    }

    /// `one` adds a record that is in the range, if it can be a row yet.
    #[inline(always)]
    fn append_each(
        &self,
        records: &[u8],
        from: Cursor,
        rows: &mut Rows,
        mut one: impl FnMut(&Record<'_>, i64, &mut Rows) -> Result<Decode>,
    ) -> Result<Option<Stopped>> {
        let mut reader = Reader::new(records.get(from.position..).unwrap_or_default());
        let mut offset_min = from.offset;
        for records_left in (1..=from.records_left).rev() {
            let before = reader;
            let (record, offset) = self.next(&mut reader, offset_min)?;
            if offset >= self.range.start && offset < self.range.end {
                let missing = match one(&record, offset, rows)? {
                    Decode::Done => None,
                    Decode::Full => Some(None),
                    Decode::Unknown(missing) => Some(Some(missing)),
                };
                if let Some(missing) = missing {
                    let position = records.len() - before.left();
                    return Ok(Some(Stopped { at: Cursor { position, records_left, offset }, missing }));
                }
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

    #[inline(always)]
    fn push(&self, record: &Record<'_>, offset: i64, rows: &mut Rows) -> Result<()> {
        rows.push(record, offset, self.bytes_elsewhere, || self.micros(record, offset))
    }

    /// Adds a record if the condition is true of it, and if it can be a row yet.
    ///
    /// A key or a value that cannot be decoded is null in the condition, too. Most records that are left out are not
    /// decoded to the row's fields for that: only if the condition would be true of a null.
    fn append_if(&self, filter: &mut Filter, record: &Record<'_>, offset: i64, rows: &mut Rows) -> Result<Decode> {
        let micros = self.micros(record, offset);
        let timestamp_type = self.batch.timestamp_type();
        let facts = Facts { record, labels: self.labels, offset, micros: &micros, timestamp_type };
        let rows_first = filter.rows_first();
        let mut row = if rows_first { self.append_or_take_back(filter, &facts, rows)? } else { None };
        if let Some(Decode::Done) = row {
            return Ok(Decode::Done);
        }
        if let Some(missing) = filter.probe(record)? {
            return Ok(Decode::Unknown(missing));
        }
        // Where the row can be decoded, now or beside fewer others, it decides, whatever came first.
        if filter.is_row_to_decide() {
            if !rows_first {
                row = self.append_or_take_back(filter, &facts, rows)?;
            }
            if let Some(done) = row {
                return Ok(done);
            }
        }
        let typed = rows.typed();
        let decoded = Sides { key: typed.key.is_some(), value: typed.value.is_some() };
        let verdict = match filter.judge(&facts, decoded)? {
            Verdict::Unwanted => {
                filter.leave_out(filter.faulty_now());
                return Ok(Decode::Done);
            }
            verdict => verdict,
        };
        let (mark, before) = (rows.mark(), rows.faults());
        let known = filter.faults();
        match rows.decode(record, offset, self.bytes_elsewhere, self.bytes_hard_max, known.clone())? {
            Decode::Done => {}
            stopped => return Ok(stopped),
        }
        let after = rows.faults();
        let faulty = Sides {
            key: known.key.is_some() || after.key > before.key,
            value: known.value.is_some() || after.value > before.value,
        };
        let known = filter.faulty_now();
        let wanted = match verdict {
            Verdict::Wanted if faulty == known => true,
            Verdict::IfFaulty if faulty == known => false,
            _ => filter.is_true(&facts, faulty)?,
        };
        if wanted {
            self.push(record, offset, rows)?;
            filter.let_in();
        } else {
            rows.roll_back(mark);
            filter.leave_out(faulty);
        }
        Ok(Decode::Done)
    }

    /// Decodes a record to a row, and takes that back if the condition is not true of it: less work where most pass.
    ///
    /// `None` if it cannot be decoded to a row; then, and if it does not fit beside the others, nothing has changed.
    fn append_or_take_back(&self, filter: &mut Filter, facts: &Facts<'_>, rows: &mut Rows) -> Result<Option<Decode>> {
        let (record, offset) = (facts.record, facts.offset);
        let (mark, before) = (rows.mark(), rows.faults());
        let decoded = rows.decode(record, offset, self.bytes_elsewhere, self.bytes_hard_max, Sides::default());
        match decoded {
            Ok(Decode::Done) if rows.faults() == before => {}
            Ok(Decode::Full) => return Ok(Some(Decode::Full)),
            _ => {
                rows.roll_back(mark);
                return Ok(None);
            }
        }
        if filter.is_true_of_last(facts, rows)? {
            self.push(record, offset, rows)?;
            filter.let_in();
        } else {
            rows.roll_back(mark);
            filter.leave_out(Sides::default());
        }
        Ok(Some(Decode::Done))
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

    /// The record's timestamp in microseconds, if 64 bits can hold it.
    #[inline]
    fn micros(&self, record: &Record<'_>, offset: i64) -> Result<Option<i64>> {
        let millis = if self.batch.log_append_time {
            self.batch.max_timestamp
        } else {
            // The writer's difference and the reader's sum wrap around in the same way, which gives the record's own
            // timestamp.
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
