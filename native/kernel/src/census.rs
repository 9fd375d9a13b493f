//! Which record batches there are, and whose: their headers as columns, without their records.
//!
//! Source: KIP-98 (message format v2, producers and transactions).

use crate::batch::{Batch, Frame};
use crate::codec::Decompressor;
use crate::error::{Error, Result};
use crate::taking::Range;

/// A control record has a dozen bytes, and Kafka does not compress it.
const MARKER_BYTES_MAX: usize = 64 * 1024;

/// In `Census::flags`: the batch is part of a transaction.
pub const TRANSACTIONAL: u8 = 1;
/// In `Census::flags`: it holds control records, such as the marker that ends a transaction.
pub const CONTROL: u8 = 2;
/// In `Census::markers`: the batch is no control batch, or compaction has emptied it.
pub const NO_MARKER: i16 = -1;

/// The headers of record batches, a column each; all have the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The first offset that each batch covers.
    pub base_offsets: Vec<i64>,
    /// The last offset that it covers, whether or not that record is still there.
    pub last_offsets: Vec<i64>,
    /// Negative where there is no producer.
    pub producer_ids: Vec<i64>,
    /// The epochs of the producers; negative where there is none.
    pub producer_epochs: Vec<i16>,
    /// The sequence numbers of the first records; negative where there is none.
    pub base_sequences: Vec<i32>,
    /// How many records each batch has.
    pub records: Vec<i32>,
    /// `TRANSACTIONAL` and `CONTROL`.
    pub flags: Vec<u8>,
    /// Of control batches the type of the control record (0 aborts, 1 commits), else `NO_MARKER`.
    pub markers: Vec<i16>,
    /// The offset to continue from: the end of the range, or after the last whole batch.
    pub offset_next: i64,
}

/// Takes the headers of all record batches in `bytes` that cover an offset in `range`. Their checksums are verified.
///
/// The last batch may be cut off, and is then ignored. The columns are bounded by the bytes that are there: a batch
/// has 61 or more.
pub fn take_census(bytes: &[u8], range: Range) -> Result<Census> {
    let mut found = Census::starting_at(range.start);
    let mut decompressor = Decompressor::new(MARKER_BYTES_MAX);
    let mut rest = bytes;
    let mut offset_min = 0;
    while found.offset_next < range.end {
        let Some(frame) = Frame::peek(rest)? else { break };
        if frame.base_offset >= range.end {
            found.offset_next = range.end;
            break;
        }
        let Some(whole) = frame.bytes else { break };
        let at_batch = |e: Error| e.at(frame.base_offset);
        if frame.base_offset < offset_min {
            let detail = format!("the base offset is {}, expected {offset_min} or more", frame.base_offset);
            return Err(at_batch(Error::malformed(detail)));
        }
        Batch::check(whole).map_err(at_batch)?;
        let batch = Batch::read(frame.base_offset, whole).map_err(at_batch)?;
        if batch.last_offset >= range.start {
            found.push(&batch, &mut decompressor).map_err(at_batch)?;
        }
        offset_min = batch.last_offset + 1;
        found.offset_next = found.offset_next.max(offset_min).min(range.end);
        rest = rest.get(whole.len()..).unwrap_or_default();
    }
    Ok(found)
}

impl Census {
    fn starting_at(offset: i64) -> Self {
        Census {
            base_offsets: Vec::new(),
            last_offsets: Vec::new(),
            producer_ids: Vec::new(),
            producer_epochs: Vec::new(),
            base_sequences: Vec::new(),
            records: Vec::new(),
            flags: Vec::new(),
            markers: Vec::new(),
            offset_next: offset,
        }
    }

    fn push(&mut self, batch: &Batch<'_>, decompressor: &mut Decompressor) -> Result<()> {
        let marker = if batch.control { batch.marker(decompressor)? } else { None };
        let flag = |there: bool, bit: u8| if there { bit } else { 0 };
        self.base_offsets.push(batch.base_offset);
        self.last_offsets.push(batch.last_offset);
        self.producer_ids.push(batch.producer_id);
        self.producer_epochs.push(batch.producer_epoch);
        self.base_sequences.push(batch.base_sequence);
        self.records.push(i32::try_from(batch.records_count).unwrap_or(i32::MAX));
        self.flags.push(flag(batch.transactional, TRANSACTIONAL) | flag(batch.control, CONTROL));
        self.markers.push(marker.unwrap_or(NO_MARKER));
        Ok(())
    }
}
