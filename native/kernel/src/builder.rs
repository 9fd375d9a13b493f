//! Record batches in, Arrow columns out.

use crate::batch::{Batch, Frame};
use crate::binary;
use crate::binary::{Binary, BinaryColumn};
use crate::codec::Decompressor;
use crate::error::{Error, Kind, Result};
use crate::header_key;
use crate::record::{Headers, Record};
use crate::runs::{self, Labels, Runs};
use crate::validity::Validity;
use crate::wire::Reader;

/// The fixed-width columns (partition, offset, timestamp, timestamp type) and the 32-bit offsets of key and value.
const ROW_BYTES: usize = 4 + 8 + 8 + 4 + 4 + 4;
/// A record batch is finished although it fills the builder, but not beyond this many times `bytes_max`.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// Record headers as Arrow's `list<struct<key: string, value: binary>>`. A record without headers is a null list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// The validity bitmap of the lists, least significant bit first; `None` without nulls.
    pub validity: Option<Vec<u8>>,
    /// Where each row's list begins among the items, and where the last one ends.
    pub offsets: Vec<i32>,
    /// The items' keys, never null.
    pub keys: Binary,
    /// The items' values.
    pub values: Binary,
    /// How many lists are null.
    pub null_count: usize,
}

/// Finished rows, by columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The number of rows.
    pub rows: usize,
    /// Record keys.
    pub key: Binary,
    /// Record values.
    pub value: Binary,
    /// Topic names.
    pub topic: Binary,
    /// Partition numbers.
    pub partition: Vec<i32>,
    /// Offsets.
    pub offset: Vec<i64>,
    /// Timestamps in microseconds since 1970 (UTC).
    pub timestamp: Vec<i64>,
    /// [`TimestampType`] as numbers.
    pub timestamp_type: Vec<i32>,
    /// Record headers, if they were asked for.
    pub headers: Option<HeaderColumn>,
    /// Cluster names, if they were asked for.
    pub cluster: Option<Binary>,
}

#[derive(Default)]
struct HeaderColumnBuilder {
    validity: Validity,
    offsets: Vec<i32>,
    keys: BinaryColumn,
    values: BinaryColumn,
}

struct Mark {
    bytes: usize,
    key: binary::Mark,
    value: binary::Mark,
    runs: runs::Mark,
    headers: Option<(usize, binary::Mark, binary::Mark)>,
}

/// Decodes record batches (message format v2) into the columns of one Arrow batch after the other.
pub struct ColumnBuilder {
    limits: Limits,
    bytes_hard_max: usize,
    with_cluster: bool,
    decompressor: Decompressor,
    bytes: usize,
    overflowing: bool,
    key: BinaryColumn,
    value: BinaryColumn,
    offset: Vec<i64>,
    timestamp: Vec<i64>,
    runs: Runs,
    headers: Option<HeaderColumnBuilder>,
}

impl ColumnBuilder {
    /// An empty builder; `headers` and `cluster` say whether there are such columns.
    pub fn new(headers: bool, cluster: bool, limits: Limits) -> Self {
        ColumnBuilder {
            limits,
            bytes_hard_max: limits.bytes_max.saturating_mul(HARD_FACTOR).min(i32::MAX as usize),
            with_cluster: cluster,
            decompressor: Decompressor::new(limits.uncompressed_bytes_max),
            bytes: 0,
            overflowing: false,
            key: BinaryColumn::default(),
            value: BinaryColumn::default(),
            offset: Vec::new(),
            timestamp: Vec::new(),
            runs: Runs::default(),
            headers: headers.then(HeaderColumnBuilder::new),
        }
    }

    /// The rows so far.
    pub fn rows(&self) -> usize {
        self.offset.len()
    }

    /// The bytes of all columns so far, validity bitmaps left out.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no further record batch will be begun.
    pub fn full(&self) -> bool {
        self.overflowing || self.rows() >= self.limits.rows_max || self.bytes >= self.limits.bytes_max
    }

    /// Adds the records of one partition whose offsets are in `range`.
    ///
    /// `bytes` are record batches one behind the other, the last of which may be cut off. Control batches hold no rows.
    /// Without a row in reach, `offset_next` still moves: over what compaction took away, and to the end of the range
    /// when a record batch begins behind it. After an error the builder holds what it held before the call.
    pub fn append(
        &mut self,
        bytes: &[u8],
        cluster: &str,
        topic: &str,
        partition: i32,
        range: Range,
    ) -> Result<Appended> {
        let labels = Labels::new(self.runs.last(), cluster, topic, partition)?;
        let mark = self.mark();
        let result = self.append_batches(bytes, &labels, range);
        if result.is_err() {
            self.roll_back(&mark);
        }
        result
    }

    fn append_batches(&mut self, bytes: &[u8], labels: &Labels, range: Range) -> Result<Appended> {
        let rows_before = self.rows();
        let mut rest = bytes;
        let mut offset_min = 0;
        let mut done = Appended { offset_next: range.start, position: 0, rows: 0, stopped: false, complete_batches: 0 };
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
            if frame.base_offset < offset_min {
                let detail = format!("the base offset is {}, expected {offset_min} or more", frame.base_offset);
                return Err(Error::malformed(detail).at(frame.base_offset));
            }
            let at_batch = |e: Error| e.at(frame.base_offset);
            let batch = Batch::open(frame.base_offset, whole).map_err(at_batch)?;
            if batch.last_offset >= range.start && !batch.control {
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
        Ok(done)
    }

    /// Adds the records of one batch, and checks also those that it does not add.
    ///
    /// Returns the offset of the first record that should have been added and that memory does not allow.
    fn append_batch(&mut self, batch: &Batch<'_>, labels: &Labels, range: Range) -> Result<Option<i64>> {
        // Taken out of the builder while its buffer is borrowed.
        let mut decompressor = std::mem::replace(&mut self.decompressor, Decompressor::new(0));
        let result = if batch.records_count == 0 && batch.payload.is_empty() {
            Ok(None)
        } else {
            decompressor
                .decompress(batch.codec, batch.payload)
                .and_then(|records| self.append_records(batch, records, labels, range))
        };
        self.decompressor = decompressor;
        result
    }

    fn append_records(
        &mut self,
        batch: &Batch<'_>,
        records: &[u8],
        labels: &Labels,
        range: Range,
    ) -> Result<Option<i64>> {
        let rows_before = self.rows();
        let row_bytes = ROW_BYTES + labels.row_bytes(self.with_cluster);
        let mut reader = Reader::new(records);
        let mut first_left_out = None;
        let mut offset_min = batch.base_offset;
        for _ in 0..batch.records_count {
            let record = Record::read(&mut reader)?;
            let offset = batch.base_offset.saturating_add(i64::from(record.offset_delta));
            if offset < offset_min || offset > batch.last_offset {
                return Err(Error::malformed(format!(
                    "a record has offset {offset}, expected {offset_min} to {}",
                    batch.last_offset
                )));
            }
            offset_min = offset + 1;
            if offset < range.start || offset >= range.end || first_left_out.is_some() {
                continue;
            }
            let bytes = row_bytes.saturating_add(self.record_bytes(&record));
            if self.bytes.saturating_add(bytes) > self.bytes_hard_max && self.rows() > 0 {
                first_left_out = Some(offset);
                continue;
            }
            self.append_row(&record, offset, micros(batch, &record)?)?;
            self.bytes = self.bytes.saturating_add(bytes);
        }
        if reader.left() > 0 {
            let (count, left) = (batch.records_count, reader.left());
            return Err(Error::malformed(format!("{count} records were announced, and {left} bytes follow the last")));
        }
        let timestamp_type =
            if batch.log_append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime };
        self.runs.push(labels, timestamp_type, self.rows() - rows_before);
        Ok(first_left_out)
    }

    #[inline]
    fn record_bytes(&self, record: &Record<'_>) -> usize {
        let headers = match &self.headers {
            Some(_) => HeaderColumnBuilder::row_bytes(&record.headers),
            None => 0,
        };
        record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers
    }

    #[inline]
    fn append_row(&mut self, record: &Record<'_>, offset: i64, timestamp: i64) -> Result<()> {
        if let Some(headers) = &mut self.headers {
            headers.push(&record.headers)?;
        }
        self.key.push(record.key)?;
        self.value.push(record.value)?;
        self.offset.push(offset);
        self.timestamp.push(timestamp);
        Ok(())
    }

    fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes,
            key: self.key.mark(),
            value: self.value.mark(),
            runs: self.runs.mark(),
            headers: self.headers.as_ref().map(|h| (h.validity.nulls(), h.keys.mark(), h.values.mark())),
        }
    }

    fn roll_back(&mut self, mark: &Mark) {
        let rows = mark.key.rows();
        self.bytes = mark.bytes;
        self.key.roll_back(mark.key);
        self.value.roll_back(mark.value);
        self.offset.truncate(rows);
        self.timestamp.truncate(rows);
        self.runs.roll_back(mark.runs);
        if let (Some(headers), Some((nulls, keys, values))) = (&mut self.headers, mark.headers) {
            headers.validity.roll_back(rows, nulls);
            headers.offsets.truncate(rows + 1);
            headers.keys.roll_back(keys);
            headers.values.roll_back(values);
        }
    }

    /// Hands the rows out and begins anew, with room for as many rows again.
    pub fn finish(&mut self) -> Columns {
        let rows = self.rows();
        self.bytes = 0;
        self.overflowing = false;
        self.decompressor.release_beyond(self.bytes_hard_max);
        let runs = self.runs.finish(self.with_cluster);
        Columns {
            rows,
            key: self.key.finish(),
            value: self.value.finish(),
            topic: runs.topic,
            partition: runs.partition,
            offset: std::mem::replace(&mut self.offset, Vec::with_capacity(rows)),
            timestamp: std::mem::replace(&mut self.timestamp, Vec::with_capacity(rows)),
            timestamp_type: runs.timestamp_type,
            headers: self.headers.as_mut().map(HeaderColumnBuilder::finish),
            cluster: runs.cluster,
        }
    }
}

/// The record's timestamp in microseconds.
#[inline]
fn micros(batch: &Batch<'_>, record: &Record<'_>) -> Result<i64> {
    let millis = if batch.log_append_time {
        Some(batch.max_timestamp)
    } else {
        batch.base_timestamp.checked_add(record.timestamp_delta)
    };
    match millis.and_then(|millis| millis.checked_mul(1000)) {
        Some(micros) => Ok(micros),
        None => Err(Error::new(
            Kind::Timestamp,
            format!(
                "the timestamp {} ms + {} ms of the record at {} does not fit into microseconds in 64 bits",
                if batch.log_append_time { batch.max_timestamp } else { batch.base_timestamp },
                if batch.log_append_time { 0 } else { record.timestamp_delta },
                batch.base_offset.saturating_add(i64::from(record.offset_delta)),
            ),
        )),
    }
}

impl HeaderColumnBuilder {
    fn new() -> Self {
        HeaderColumnBuilder { offsets: vec![0], ..HeaderColumnBuilder::default() }
    }

    fn row_bytes(headers: &Headers<'_>) -> usize {
        let items = headers.iter().map(|(key, value)| 8 + header_key::decode(key).len() + value.map_or(0, <[u8]>::len));
        4 + items.sum::<usize>()
    }

    fn push(&mut self, headers: &Headers<'_>) -> Result<()> {
        let row = self.offsets.len() - 1;
        match headers.count() {
            0 => self.validity.push_null(row),
            _ => self.validity.push_valid(row),
        }
        for (key, value) in headers.iter() {
            self.keys.push(Some(header_key::decode(key).as_bytes()))?;
            self.values.push(value)?;
        }
        self.offsets.push(binary::offset_32(self.keys.rows())?);
        Ok(())
    }

    fn finish(&mut self) -> HeaderColumn {
        let (validity, null_count) = self.validity.finish();
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        HeaderColumn {
            validity,
            offsets: std::mem::replace(&mut self.offsets, offsets),
            keys: self.keys.finish(),
            values: self.values.finish(),
            null_count,
        }
    }
}
