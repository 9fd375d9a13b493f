//! A record batch that grows, and what it is when it is closed.

use super::column::Refused;
use super::compressor::Compressor;
use super::record::{Place, Record};
use super::sizing::Bounds;
use super::views::Headers;
use crate::batch::{HEADER_BYTES, LENGTH_COUNTS_FROM, TRANSACTIONAL};

const MAGIC: u8 = 2;

/// Whose batches they are.
#[derive(Clone, Copy)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) transactional: bool,
}

/// A record batch as it is sent.
#[derive(Clone, Debug)]
pub struct EncodedBatch {
    /// The number of the topic.
    pub topic: usize,
    /// The partition.
    pub partition: i32,
    /// The sequence number of the first record; -1 without a producer id.
    pub base_sequence: i32,
    /// How many records it has.
    pub records: i32,
    /// All its bytes.
    pub data: Vec<u8>,
}

/// A record batch that is not closed.
pub(super) struct OpenBatch {
    /// Room for the header, then the records.
    buffer: Vec<u8>,
    /// How much memory it began with.
    begun: usize,
    records: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    /// The ratio of compression that was expected when it was opened.
    ratio: f32,
    bounds: Bounds,
}

impl OpenBatch {
    /// `buffer`: empty memory to use.
    pub(super) fn new(mut buffer: Vec<u8>, timestamp: i64, ratio: f32, bounds: Bounds) -> Self {
        let begun = buffer.capacity();
        buffer.resize(HEADER_BYTES, 0);
        OpenBatch { buffer, begun, records: 0, base_timestamp: timestamp, max_timestamp: timestamp, ratio, bounds }
    }

    /// All its bytes, as they would be without compression.
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The memory that it holds.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    #[inline(always)]
    fn raw_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(HEADER_BYTES)
    }

    /// Where the next record would be.
    #[inline(always)]
    fn place(&self, timestamp: i64) -> Place {
        Place { offset_delta: self.records, timestamp_delta: timestamp.wrapping_sub(self.base_timestamp) }
    }

    /// Whether it may become as long as it is with the record.
    #[inline(always)]
    pub(super) fn has_room(&self, record: &Record<'_>, timestamp: i64) -> bool {
        self.bounds.has_room(self.raw_bytes(), self.ratio, record.bytes(self.place(timestamp)))
    }

    #[inline(always)]
    pub(super) fn append(
        &mut self,
        record: &Record<'_>,
        timestamp: i64,
        headers: Option<&Headers<'_>>,
    ) -> Result<(), Refused> {
        let place = self.place(timestamp);
        record.write(&mut self.buffer, place, headers)?;
        self.records += 1;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(())
    }

    /// The whole batch, how well its records were compressed, and memory that is free again.
    pub(super) fn close(
        self,
        compressor: &mut Compressor,
        producer: Producer,
        base_sequence: i32,
    ) -> Result<Closed, Refused> {
        let (raw_bytes, begun) = (self.raw_bytes(), self.begun);
        let (attributes, records) = (compressor.attributes(), self.records);
        let rest = self.rest_of_header(attributes, producer, base_sequence);
        let raw = self.buffer.get(HEADER_BYTES..).unwrap_or_default();
        let (mut data, left) = match compressor.compress(raw)? {
            None => (self.buffer, None),
            Some(compressed) => {
                let mut data = Vec::with_capacity(HEADER_BYTES + compressed.len());
                data.resize(HEADER_BYTES, 0);
                data.extend_from_slice(compressed);
                (data, Some(self.buffer))
            }
        };
        let too_long = |_| Refused(format!("a record batch of {} bytes, more than 2 GiB", data.len()));
        let length = i32::try_from(data.len() - LENGTH_COUNTS_FROM).map_err(too_long)?;
        let payload = data.get(HEADER_BYTES..).unwrap_or_default();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&rest), payload);
        let ratio = payload.len() as f32 / raw_bytes.max(1) as f32;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&0_i64.to_be_bytes());
        header.extend_from_slice(&length.to_be_bytes());
        header.extend_from_slice(&(-1_i32).to_be_bytes());
        header.push(MAGIC);
        header.extend_from_slice(&checksum.to_be_bytes());
        header.extend_from_slice(&rest);
        if let Some(place) = data.get_mut(..HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
        if data.capacity() / 2 > data.len() {
            // It is held until it is acknowledged, and counted by its length.
            data.shrink_to_fit();
        }
        Ok(Closed { data, records, ratio, begun, left })
    }

    /// The header from the attributes on, which the checksum covers.
    fn rest_of_header(&self, codec: i16, producer: Producer, base_sequence: i32) -> Vec<u8> {
        let attributes = codec | if producer.transactional { TRANSACTIONAL } else { 0 };
        let mut rest = Vec::with_capacity(HEADER_BYTES);
        rest.extend_from_slice(&attributes.to_be_bytes());
        rest.extend_from_slice(&(self.records - 1).to_be_bytes());
        rest.extend_from_slice(&self.base_timestamp.to_be_bytes());
        rest.extend_from_slice(&self.max_timestamp.to_be_bytes());
        rest.extend_from_slice(&producer.id.to_be_bytes());
        rest.extend_from_slice(&producer.epoch.to_be_bytes());
        rest.extend_from_slice(&base_sequence.to_be_bytes());
        rest.extend_from_slice(&self.records.to_be_bytes());
        rest
    }
}

/// What remains of an [`OpenBatch`].
pub(super) struct Closed {
    pub(super) data: Vec<u8>,
    pub(super) records: i32,
    /// Of its records, compressed to uncompressed.
    pub(super) ratio: f32,
    /// How much memory it began with.
    pub(super) begun: usize,
    /// Memory that it needs no more.
    pub(super) left: Option<Vec<u8>>,
}
