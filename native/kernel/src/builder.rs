//! Record batches in, Arrow columns out.

use crate::aborted::{Aborted, Transactions};
use crate::batch::{Batch, Frame};
use crate::binary::Binary;
use crate::codec::Decompressor;
use crate::error::{Error, Kind, Result};
use crate::headers::HeaderColumn;
use crate::record::Record;
use crate::rows::Rows;
use crate::runs::{Labels, Runs};
use crate::selection::Selection;
use crate::wire::Reader;

/// A record batch is finished although it fills the builder, but not beyond this many times `bytes_max`.
const HARD_FACTOR: usize = 4;

/// The key of a control record is a version and a type, 16 bits each.
const CONTROL_KEY_BYTES: usize = 4;
const ABORT: i16 = 0;

/// How much a builder takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From this many rows on, no further record batch is begun. At least 1.
    pub rows_max: usize,
    /// From this many bytes of columns on, no further record batch is begun. At least 1.
    pub bytes_max: usize,
    /// A record batch that decompresses to more is an error.
    pub uncompressed_bytes_max: usize,
}

/// Offsets to read: `start <= offset < end`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first offset that is wanted.
    pub start: i64,
    /// The first offset that is not wanted any more.
    pub end: i64,
}

/// What a record's timestamp is, as Kafka numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TimestampType {
    /// The producer's.
    CreateTime = 0,
    /// The broker's.
    LogAppendTime = 1,
}

/// What one call of [`ColumnBuilder::append`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset to go on from.
    pub offset_next: i64,
    /// Where in the bytes to go on: at the first record batch that is not done with.
    pub position: usize,
    /// The rows that were added.
    pub rows: usize,
    /// Whether there is more in the bytes, and only the builder's limits kept it out.
    pub stopped: bool,
    /// The whole record batches that were met, including those that were skipped or stopped at.
    pub complete_batches: usize,
    /// Those of the aborted transactions that have not ended before `position`, to go on with.
    pub aborted: Vec<Aborted>,
}

/// Finished rows, by columns: those of the [`Selection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The number of rows.
    pub rows: usize,
    /// Record keys.
    pub key: Option<Binary>,
    /// Record values.
    pub value: Option<Binary>,
    /// Topic names.
    pub topic: Option<Binary>,
    /// Partition numbers.
    pub partition: Option<Vec<i32>>,
    /// Offsets.
    pub offset: Option<Vec<i64>>,
    /// Timestamps in microseconds since 1970 (UTC).
    pub timestamp: Option<Vec<i64>>,
    /// [`TimestampType`] as numbers.
    pub timestamp_type: Option<Vec<i32>>,
    /// Record headers.
    pub headers: Option<HeaderColumn>,
    /// Cluster names.
    pub cluster: Option<Binary>,
}

/// Decodes record batches (message format v2) into the columns of one Arrow batch after the other.
pub struct ColumnBuilder {
    limits: Limits,
    bytes_hard_max: usize,
    selection: Selection,
    decompressor: Decompressor,
    overflowing: bool,
    rows: Rows,
    runs: Runs,
}

impl ColumnBuilder {
    /// An empty builder of the columns in `selection`, at least one.
    pub fn new(selection: Selection, limits: Limits) -> Self {
        ColumnBuilder {
            limits,
            bytes_hard_max: limits.bytes_max.saturating_mul(HARD_FACTOR).min(i32::MAX as usize),
            selection,
            decompressor: Decompressor::new(limits.uncompressed_bytes_max),
            overflowing: false,
            rows: Rows::new(selection),
            runs: Runs::default(),
        }
    }

    /// The rows so far.
    pub fn rows(&self) -> usize {
        self.rows.count()
    }

    /// The bytes of all columns so far, validity bitmaps left out.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Whether no further record batch will be begun.
    pub fn full(&self) -> bool {
        self.overflowing || self.rows() >= self.limits.rows_max || self.bytes() >= self.limits.bytes_max
    }

    /// Adds the records of one partition whose offsets are in `range`.
    ///
    /// `bytes` are record batches one behind the other, the last of which may be cut off. Control batches hold no rows,
    /// nor do those of the transactions in `aborted`: from its first offset on, what the producer wrote in transactions
    /// is left out, until the marker that aborts it. Without a row in reach, `offset_next` still moves: over what
    /// compaction took away, and to the end of the range when a record batch begins behind it. After an error the
    /// builder holds what it held before the call.
    pub fn append(
        &mut self,
        bytes: &[u8],
        cluster: &str,
        topic: &str,
        partition: i32,
        range: Range,
        aborted: &[Aborted],
    ) -> Result<Appended> {
        let labels = Labels::new(self.runs.last(), cluster, topic, partition)?;
        let (rows, runs) = (self.rows.mark(), self.runs.mark());
        let result = self.append_batches(bytes, &labels, range, Transactions::new(aborted));
        if result.is_err() {
            self.rows.roll_back(rows);
            self.runs.roll_back(runs);
        }
        result
    }

    fn append_batches(
        &mut self,
        bytes: &[u8],
        labels: &Labels,
        range: Range,
        mut transactions: Transactions,
    ) -> Result<Appended> {
        let rows_before = self.rows();
        let mut rest = bytes;
        let mut offset_min = 0;
        let mut done = Appended {
            offset_next: range.start,
            position: 0,
            rows: 0,
            stopped: false,
            complete_batches: 0,
            aborted: Vec::new(),
        };
        while done.offset_next < range.end {
            let Some(frame) = Frame::peek(rest)? else { break };
            done.complete_batches += usize::from(frame.bytes.is_some());
            if frame.base_offset >= range.end {
                done.offset_next = range.end;
                break;
            }
            let Some(whole) = frame.bytes else { break };
            if self.full() {
                done.stopped = true;
                break;
            }
            let at_batch = |e: Error| e.at(frame.base_offset);
            if frame.base_offset < offset_min {
                let detail = format!("the base offset is {}, expected {offset_min} or more", frame.base_offset);
                return Err(at_batch(Error::malformed(detail)));
            }
            let batch = Batch::open(frame.base_offset, whole).map_err(at_batch)?;
            let left_out = self.is_left_out(&batch, &mut transactions).map_err(at_batch)?;
            if batch.last_offset >= range.start && !left_out {
                if let Some(first_left_out) = self.append_batch(&batch, labels, range).map_err(at_batch)? {
                    self.overflowing = true;
                    done.stopped = true;
                    done.offset_next = first_left_out;
                    break;
                }
            }
            offset_min = batch.last_offset + 1;
            done.offset_next = done.offset_next.max(offset_min).min(range.end);
            done.position += whole.len();
            rest = rest.get(whole.len()..).unwrap_or_default();
        }
        done.rows = self.rows() - rows_before;
        done.aborted = transactions.rest();
        Ok(done)
    }

    /// Whether nothing in a batch is for readers; takes note of what it says of transactions.
    fn is_left_out(&mut self, batch: &Batch<'_>, transactions: &mut Transactions) -> Result<bool> {
        if transactions.over() || batch.producer_id < 0 {
            return Ok(batch.control);
        }
        transactions.reach(batch.last_offset);
        let aborted = transactions.has(batch.producer_id);
        if batch.control && aborted && self.is_abort(batch)? {
            transactions.end(batch.producer_id);
        }
        Ok(batch.control || (aborted && batch.transactional))
    }

    /// Whether a control batch is the marker of an abort; one that compaction has emptied is none.
    #[inline(never)]
    fn is_abort(&mut self, batch: &Batch<'_>) -> Result<bool> {
        if batch.records_count == 0 {
            return Ok(false);
        }
        let records = self.decompressor.decompress(batch.codec, batch.payload)?;
        let key = Record::read(&mut Reader::new(records), false)?.key.unwrap_or_default();
        let mut reader = Reader::new(key);
        if key.len() < CONTROL_KEY_BYTES || reader.i16("a control record's version")? < 0 {
            return Err(Error::malformed(format!("a control record's key is {key:?}, expected a version and a type")));
        }
        Ok(reader.i16("a control record's type")? == ABORT)
    }

    /// Adds the records of one batch, and checks also those that it does not add.
    ///
    /// Returns the offset of the first record that should have been added and that memory does not allow.
    fn append_batch(&mut self, batch: &Batch<'_>, labels: &Labels, range: Range) -> Result<Option<i64>> {
        if batch.records_count == 0 && batch.payload.is_empty() {
            return Ok(None);
        }
        let rows_before = self.rows.count();
        let records = self.decompressor.decompress(batch.codec, batch.payload)?;
        let taking = Taking {
            batch,
            range,
            bytes_elsewhere: labels.row_bytes(self.selection),
            bytes_hard_max: self.bytes_hard_max,
            headers_wanted: self.selection.headers,
        };
        let first_left_out = taking.append(records, &mut self.rows)?;
        let timestamp_type =
            if batch.log_append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime };
        self.runs.push(labels, timestamp_type, self.rows.count() - rows_before);
        Ok(first_left_out)
    }

    /// Hands the rows out and begins anew, with room for as many rows again.
    pub fn finish(&mut self) -> Columns {
        self.overflowing = false;
        self.decompressor.release_beyond(self.bytes_hard_max);
        let rows = self.rows();
        let own = self.rows.finish();
        let runs = self.runs.finish(self.selection);
        Columns {
            rows,
            key: own.key,
            value: own.value,
            topic: runs.topic,
            partition: runs.partition,
            offset: own.offset,
            timestamp: own.timestamp,
            timestamp_type: runs.timestamp_type,
            headers: own.headers,
            cluster: runs.cluster,
        }
    }
}

/// Which records of a batch become rows.
struct Taking<'a> {
    batch: &'a Batch<'a>,
    range: Range,
    /// What a row needs in the columns that are written later.
    bytes_elsewhere: usize,
    bytes_hard_max: usize,
    headers_wanted: bool,
}

impl Taking<'_> {
    fn append(&self, records: &[u8], rows: &mut Rows) -> Result<Option<i64>> {
        let elsewhere = self.batch.records_count.saturating_mul(self.bytes_elsewhere);
        let bytes = rows.bytes_max(self.batch.records_count, records.len()).saturating_add(elsewhere);
        if rows.bytes().saturating_add(bytes) <= self.bytes_hard_max {
            self.append_records::<false>(records, rows)
        } else {
            self.append_records::<true>(records, rows)
        }
    }

    /// `BOUNDED`: the bound on all bytes can be reached, so every row is measured.
    fn append_records<const BOUNDED: bool>(&self, records: &[u8], rows: &mut Rows) -> Result<Option<i64>> {
        let batch = self.batch;
        let mut reader = Reader::new(records);
        let mut first_left_out = None;
        let mut offset_min = batch.base_offset;
        for _ in 0..batch.records_count {
            let record = Record::read(&mut reader, self.headers_wanted)?;
            let offset = batch.base_offset.saturating_add(i64::from(record.offset_delta));
            if offset < offset_min || offset > batch.last_offset {
                let last = batch.last_offset;
                return Err(Error::malformed(format!("a record has offset {offset}, expected {offset_min} to {last}")));
            }
            offset_min = offset + 1;
            if offset < self.range.start || offset >= self.range.end || first_left_out.is_some() {
                continue;
            }
            if BOUNDED && rows.count() > 0 {
                let bytes = self.bytes_elsewhere.saturating_add(rows.bytes_of(&record));
                if rows.bytes().saturating_add(bytes) > self.bytes_hard_max {
                    first_left_out = Some(offset);
                    continue;
                }
            }
            rows.push(&record, offset, self.bytes_elsewhere, || self.micros(&record))?;
        }
        match reader.left() {
            0 => Ok(first_left_out),
            left => Err(Error::malformed(format!(
                "{} records were announced, and {left} bytes follow the last",
                batch.records_count
            ))),
        }
    }

    /// The record's timestamp in microseconds.
    #[inline]
    fn micros(&self, record: &Record<'_>) -> Result<i64> {
        let (base, delta) = if self.batch.log_append_time {
            (self.batch.max_timestamp, 0)
        } else {
            (self.batch.base_timestamp, record.timestamp_delta)
        };
        match base.checked_add(delta).and_then(|millis| millis.checked_mul(1000)) {
            Some(micros) => Ok(micros),
            None => Err(Error::new(
                Kind::Timestamp,
                format!("a record's time is {base} ms + {delta} ms, which 64 bits of microseconds cannot hold"),
            )),
        }
    }
}
