//! The frame and the header of a record batch.
//!
//! Source: KIP-98 (message format v2) and Apache Kafka, `DefaultRecordBatch.java`.

use crate::codec::{Codec, Decompressor};
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::wire::Reader;

/// Base offset and length, which the length does not count.
pub(crate) const LENGTH_COUNTS_FROM: usize = 12;
/// The checksum covers everything from the attributes on.
const CHECKED_FROM: usize = 21;
/// Up to and including the number of records.
pub(crate) const HEADER_BYTES: usize = 61;
/// Up to and including the magic byte, which is at the same place in every format.
const PEEK_BYTES: usize = 17;

/// The key of a control record is a version and a type, 16 bits each.
const CONTROL_KEY_BYTES: usize = 4;
/// The type of the control record that aborts a transaction.
pub(crate) const ABORT: i16 = 0;

const CODEC_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
pub(crate) const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// Which side has set a record's timestamp, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TimestampType {
    /// The producer.
    CreateTime = 0,
    /// The broker.
    LogAppendTime = 1,
}

/// A record batch of which only the first 17 bytes were read.
pub(crate) struct Frame<'a> {
    pub(crate) base_offset: i64,
    /// All its bytes; `None` if it is cut off.
    pub(crate) bytes: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// Reads the beginning of the record batch in `bytes`. `None` if not even the magic byte is there.
    pub(crate) fn peek(bytes: &'a [u8]) -> Result<Option<Self>> {
        if bytes.len() < PEEK_BYTES {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes);
        let base_offset = reader.i64("a base offset")?;
        let length = reader.i32("a record batch's length")?;
        reader.i32("a leader epoch")?;
        let magic = reader.u8("a magic byte")? as i8;
        Frame::checked(bytes, base_offset, length, magic).map(Some).map_err(|e| e.at(base_offset))
    }

    fn checked(bytes: &'a [u8], base_offset: i64, length: i32, magic: i8) -> Result<Self> {
        match magic {
            2 => {}
            0 | 1 => {
                return Err(Error::new(
                    Kind::UnsupportedMagic,
                    format!(
                        "records in message format v{magic}, expected v2; rewrite the topic with a producer of today, \
                         or raise log.message.format.version and let the old segments expire"
                    ),
                ))
            }
            _ => return Err(Error::new(Kind::UnsupportedMagic, format!("message format v{magic}, expected v2"))),
        }
        let length_min = HEADER_BYTES - LENGTH_COUNTS_FROM;
        match usize::try_from(length) {
            Ok(length) if length >= length_min => {
                Ok(Frame { base_offset, bytes: bytes.get(..LENGTH_COUNTS_FROM.saturating_add(length)) })
            }
            _ => Err(Error::malformed(format!(
                "the length of a record batch is {length}, expected {length_min} or more"
            ))),
        }
    }
}

/// A record batch.
pub(crate) struct Batch<'a> {
    /// Its bytes before the records.
    pub(crate) header: &'a [u8; HEADER_BYTES],
    pub(crate) base_offset: i64,
    /// The last offset that the batch covers, whether or not that record is still there.
    pub(crate) last_offset: i64,
    pub(crate) codec: Codec,
    /// Whether it holds control records, such as transaction markers.
    pub(crate) control: bool,
    pub(crate) log_append_time: bool,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// Negative if it has none.
    pub(crate) producer_id: i64,
    /// Negative if there is none, like the next.
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) transactional: bool,
    pub(crate) records_count: usize,
    /// The records, perhaps compressed.
    pub(crate) payload: &'a [u8],
}

impl<'a> Batch<'a> {
    pub(crate) fn timestamp_type(&self) -> TimestampType {
        if self.log_append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// What the control record says that a control batch begins with; `None` if compaction has emptied the batch.
    pub(crate) fn marker(&self, decompressor: &mut Decompressor) -> Result<Option<i16>> {
        if self.records_count == 0 {
            return Ok(None);
        }
        let records = decompressor.decompress(self.codec, self.payload)?;
        let key = Record::read(&mut Reader::new(records), false)?.key.unwrap_or_default();
        let mut reader = Reader::new(key);
        if key.len() < CONTROL_KEY_BYTES || reader.i16("a control record's version")? < 0 {
            return Err(Error::malformed(format!("a control record's key is {key:?}, expected a version and a type")));
        }
        reader.i16("a control record's type").map(Some)
    }

    /// Verifies the checksum. `bytes` is exactly one record batch.
    pub(crate) fn check(bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        reader.take(PEEK_BYTES, "a record batch")?;
        let expected = reader.u32("a checksum")?;
        match crc32c::crc32c(bytes.get(CHECKED_FROM..).unwrap_or_default()) {
            found if found == expected => Ok(()),
            found => Err(Error::new(
                Kind::Crc,
                format!("the record batch's CRC-32C should be {expected:#010x} and is {found:#010x}"),
            )),
        }
    }

    /// Reads the header of a record batch whose checksum is right. `bytes` is exactly that batch.
    pub(crate) fn read(base_offset: i64, bytes: &'a [u8]) -> Result<Self> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Error::truncated("a record batch's header", HEADER_BYTES, bytes.len()));
        };
        let mut reader = Reader::new(header);
        reader.take(CHECKED_FROM, "a record batch")?;
        let attributes = reader.i16("attributes")?;
        let last_offset_delta = reader.i32("a last offset delta")?;
        let base_timestamp = reader.i64("a base timestamp")?;
        let max_timestamp = reader.i64("a largest timestamp")?;
        let producer_id = reader.i64("a producer's id")?;
        let producer_epoch = reader.i16("a producer's epoch")?;
        let base_sequence = reader.i32("a base sequence number")?;
        let records_count = reader.i32("a number of records")?;
        let last_offset = match last_offset_delta {
            0.. => base_offset.checked_add(i64::from(last_offset_delta)).filter(|last| *last < i64::MAX),
            _ => None,
        };
        Ok(Batch {
            header,
            base_offset,
            last_offset: last_offset.ok_or_else(|| {
                Error::malformed(format!(
                    "the last offset delta is {last_offset_delta} and the base offset {base_offset}"
                ))
            })?,
            codec: Codec::of(attributes & CODEC_MASK)?,
            control: attributes & CONTROL != 0,
            log_append_time: attributes & LOG_APPEND_TIME != 0,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            transactional: attributes & TRANSACTIONAL != 0,
            records_count: usize::try_from(records_count)
                .map_err(|_| Error::malformed(format!("the number of records is {records_count}")))?,
            payload,
        })
    }
}
