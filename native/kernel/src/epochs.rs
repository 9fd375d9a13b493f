//! The leader epochs of record batches, which tell one log of a partition from another.
//!
//! Source: KIP-101 and KIP-320 (leader epochs); Apache Kafka, `DefaultRecordBatch.java`.

use crate::wire::Reader;

/// Base offset and length, which the length does not count.
const LENGTH_COUNTS_FROM: usize = 12;
const HEADER_BYTES: usize = 61;

/// A record batch with another leader epoch than the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochChange {
    /// Where in the given bytes it begins.
    pub begin: usize,
    /// Where it ends.
    pub end: usize,
    /// Its first offset, as it claims.
    pub base_offset: i64,
    /// The offset after the last one that it covers, as it claims.
    pub offset_next: i64,
    /// Its leader epoch, -1 for none.
    pub epoch: i32,
}

/// The first record batch in `bytes` whose leader epoch is not `epoch`; `None` if there is none.
///
/// Only headers are read, in parts that no checksum covers. The search ends at the first bytes that are no whole record
/// batch in message format v2; the decoder then reports what is wrong with them.
pub fn next_leader_epoch(bytes: &[u8], epoch: i32) -> Option<EpochChange> {
    let mut begin = 0_usize;
    loop {
        let batch = bytes.get(begin..).filter(|batch| batch.len() >= HEADER_BYTES)?;
        let mut reader = Reader::new(batch);
        let base_offset = reader.i64("a base offset").ok()?;
        let length = usize::try_from(reader.i32("a record batch's length").ok()?).ok()?;
        let size = length.checked_add(LENGTH_COUNTS_FROM).filter(|size| (HEADER_BYTES..=batch.len()).contains(size))?;
        let found = reader.i32("a leader epoch").ok()?;
        let magic = reader.u8("a magic byte").ok()?;
        if magic != 2 {
            return None;
        }
        let end = begin.checked_add(size)?;
        if found != epoch {
            reader.take(4 + 2, "a checksum and attributes").ok()?;
            let last_offset_delta = reader.i32("a last offset delta").ok()?;
            let offset_next = base_offset.saturating_add(i64::from(last_offset_delta)).saturating_add(1);
            return Some(EpochChange { begin, end, base_offset, offset_next, epoch: found });
        }
        begin = end;
    }
}
