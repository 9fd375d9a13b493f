//! Record batches in, Arrow columns out.

use crate::aborted::{Aborted, Transactions};
use crate::batch::{Batch, Frame, ABORT, HEADER_BYTES};
use crate::codec::Decompressor;
use crate::columns::Columns;
use crate::decoding::{Decoding, OnFault, TypedColumn};
use crate::error::{Error, Result};
use crate::filter::{Condition, Filter};
use crate::rows::{MissingWriter, Rows};
use crate::runs::{Labels, Runs};
use crate::selection::Selection;
use crate::taking::{Cursor, Range, Stopped, Taking};
use crate::writers::Written;

/// A record batch that fills the builder is still finished, but not beyond this many times `bytes_max`.
const HARD_FACTOR: usize = 4;

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

/// The result of one call of [`ColumnBuilder::append`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset to continue from.
    pub offset_next: i64,
    /// Where in the bytes to continue: at the first record batch that is not finished.
    pub position: usize,
    /// The rows that were added.
    pub rows: usize,
    /// Whether there is more in the bytes, and only the builder's limits, or a schema that is not known, kept it out.
    pub stopped: bool,
    /// The schema that is not known, for [`ColumnBuilder::add_writer`].
    pub missing: Option<MissingWriter>,
    /// How many whole record batches there were, including skipped ones and one that was stopped at.
    pub complete_batches: usize,
    /// The aborted transactions that have not ended before `position`, for the next call.
    pub aborted: Vec<Aborted>,
}

/// A record batch that is handed out in parts. Its checksum was right.
struct Open {
    header: [u8; HEADER_BYTES],
    labels: Labels,
    /// How long its records are. If they were compressed, they are in the decompressor.
    records_bytes: usize,
    /// The records that were not handed out yet.
    rest: Cursor,
}

impl Open {
    fn is(&self, bytes: &[u8], labels: &Labels, offset: i64) -> bool {
        bytes.starts_with(&self.header) && self.labels == *labels && self.rest.offset == offset
    }
}

/// Decodes record batches (message format v2) into the columns of one Arrow batch after the other.
pub struct ColumnBuilder {
    limits: Limits,
    bytes_hard_max: usize,
    selection: Selection,
    null_timestamps: bool,
    decompressor: Decompressor,
    /// Emptied before anything else is decompressed.
    open: Option<Open>,
    batches_opened: u64,
    overflowing: bool,
    rows: Rows,
    runs: Runs,
    filter: Option<Filter>,
}

impl ColumnBuilder {
    /// An empty builder of the columns in `selection`, at least one.
    pub fn new(selection: Selection, limits: Limits) -> Self {
        ColumnBuilder {
            limits,
            bytes_hard_max: limits.bytes_max.saturating_mul(HARD_FACTOR).min(i32::MAX as usize),
            selection,
            null_timestamps: false,
            decompressor: Decompressor::new(limits.uncompressed_bytes_max),
            open: None,
            batches_opened: 0,
            overflowing: false,
            rows: Rows::new(selection, None, None),
            runs: Runs::default(),
            filter: None,
        }
    }

    /// Makes timestamps that 64 bits of microseconds cannot hold null; without this, they are an error.
    pub fn with_null_timestamps(self) -> Self {
        ColumnBuilder { null_timestamps: true, ..self }
    }

    /// Decodes keys and values, where that is said how. `on_fault`: what becomes of a record where that is not possible.
    pub fn with_decoding(self, key: Option<&Decoding>, value: Option<&Decoding>, on_fault: OnFault) -> Self {
        let selection = self.selection;
        let column = |decoding: Option<&Decoding>, wanted: bool, error: bool, raw: bool| {
            decoding.filter(|_| wanted || error || raw).map(|one| TypedColumn::new(one, on_fault, error, raw))
        };
        let key = column(key, selection.key, selection.key_error, selection.key_raw);
        let value = column(value, selection.value, selection.value_error, selection.value_raw);
        ColumnBuilder { rows: Rows::new(selection, key, value), ..self }
    }

    /// Leaves out the records of which `condition` is not true. Follows [`ColumnBuilder::with_decoding`], which decodes by
    /// the same schemas, to these or other fields. `on_fault`: what becomes of a record where a key or a
    /// value cannot be decoded for it; null counts as in [`ColumnBuilder::with_decoding`], whichever of the two finds it.
    pub fn with_condition(self, condition: Condition, on_fault: OnFault) -> Self {
        let filter = Filter::new(condition, on_fault, self.bytes_hard_max, &self.rows);
        ColumnBuilder { filter: Some(filter), ..self }
    }

    /// How many keys and values could not be decoded so far, and became null; those that were found in records that the
    /// condition left out count, too.
    pub fn faults(&self) -> u64 {
        let rows = self.rows.faults();
        rows.key + rows.value + self.filter.as_ref().map_or(0, Filter::faulty)
    }

    /// How many records the condition left out so far.
    pub fn filtered(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::filtered)
    }

    /// Says what becomes of all keys, or values, that `missing` has written in `cluster`: in rows, and for the condition,
    /// which needs other fields.
    pub fn add_writer(&mut self, cluster: &str, missing: MissingWriter, in_rows: Written, in_condition: Written) {
        self.select(cluster);
        if let Some(filter) = &mut self.filter {
            filter.add_writer(missing.clone(), in_condition);
        }
        self.rows.add_writer(missing, in_rows);
    }

    fn select(&mut self, cluster: &str) {
        self.rows.select(cluster);
        if let Some(filter) = &mut self.filter {
            filter.select(cluster);
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

    /// Whether no further record batch is begun.
    pub fn full(&self) -> bool {
        self.overflowing || self.rows() >= self.limits.rows_max || self.bytes() >= self.limits.bytes_max
    }

    /// How many record batches were checked, and decompressed if they had to be, so far.
    pub fn batches_opened(&self) -> u64 {
        self.batches_opened
    }

    /// Adds the records of one partition whose offsets are in `range`.
    ///
    /// `bytes` are record batches one after the other; the last may be cut off. Control batches give no rows, nor do
    /// the transactions in `aborted`: from its first offset on, the transactional records of the producer are left out,
    /// up to the marker that aborts it. Even without a row, `offset_next` moves: over records that compaction has
    /// removed, and to the end of the range if a record batch begins after it. After an error, the builder holds the
    /// same as before.
    ///
    /// A batch in the middle of which this stops remains open until the next call that decodes something. If that call
    /// continues it, the batch is neither checked nor decompressed again, so its bytes must be the same, at any
    /// address.
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
        self.select(cluster);
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
            missing: None,
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
            let open = self.open.take().filter(|open| open.is(whole, labels, done.offset_next));
            let batch = match open {
                Some(_) => Batch::read(frame.base_offset, whole),
                None => self.open_batch(frame.base_offset, whole),
            };
            let batch = batch.map_err(at_batch)?;
            let left_out = self.is_left_out(&batch, &mut transactions).map_err(at_batch)?;
            if batch.last_offset >= range.start && !left_out {
                if let Some((open, missing)) = self.append_batch(&batch, labels, range, open).map_err(at_batch)? {
                    done.offset_next = open.rest.offset;
                    self.open = Some(open);
                    self.overflowing = missing.is_none();
                    done.missing = missing;
                    done.stopped = true;
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

    fn open_batch<'a>(&mut self, base_offset: i64, bytes: &'a [u8]) -> Result<Batch<'a>> {
        self.batches_opened += 1;
        Batch::check(bytes)?;
        Batch::read(base_offset, bytes)
    }

    /// Whether a batch has no rows for readers; follows the transactions that it begins or ends.
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

    /// Whether a control batch is the marker of an abort; one that compaction has emptied is not.
    #[inline(never)]
    fn is_abort(&mut self, batch: &Batch<'_>) -> Result<bool> {
        Ok(batch.marker(&mut self.decompressor)? == Some(ABORT))
    }

    /// Adds the records of one batch, and also checks those that it does not add.
    ///
    /// `open`: the rest of the batch, if it was begun before. Returns the rest that cannot be added yet, and the schema
    /// that is missing for that; without one, memory does not allow more.
    fn append_batch(
        &mut self,
        batch: &Batch<'_>,
        labels: &Labels,
        range: Range,
        open: Option<Open>,
    ) -> Result<Option<(Open, Option<MissingWriter>)>> {
        if batch.records_count == 0 && batch.payload.is_empty() {
            return Ok(None);
        }
        let (records_bytes, from) = match &open {
            Some(open) => (open.records_bytes, open.rest),
            None => (self.decompressor.decompress(batch.codec, batch.payload)?.len(), Cursor::at_first(batch)),
        };
        let records = self.decompressor.last(batch.codec, batch.payload, records_bytes);
        let rows_before = self.rows.count();
        let taking = Taking {
            batch,
            range,
            bytes_elsewhere: labels.row_bytes(self.selection),
            bytes_hard_max: self.bytes_hard_max,
            headers_wanted: self.selection.headers || self.filter.as_ref().is_some_and(Filter::headers_wanted),
            null_timestamps: self.null_timestamps,
            labels,
        };
        let stopped = taking.append(records, from, &mut self.rows, self.filter.as_mut())?;
        self.runs.push(labels, batch.timestamp_type(), self.rows.count() - rows_before);
        Ok(stopped.map(|Stopped { at, missing }| {
            (Open { header: *batch.header, labels: labels.clone(), records_bytes, rest: at }, missing)
        }))
    }

    /// Returns the rows and starts over, with room for as many rows.
    pub fn finish(&mut self) -> Columns {
        self.overflowing = false;
        if self.open.is_none() {
            self.decompressor.release_beyond(self.bytes_hard_max);
        }
        let rows = self.rows();
        let own = self.rows.finish();
        let runs = self.runs.finish(self.selection);
        Columns {
            rows,
            key: own.key.bytes,
            value: own.value.bytes,
            typed_key: own.key.typed,
            typed_value: own.value.typed,
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
