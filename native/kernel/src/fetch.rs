//! The envelope of a Fetch response: where in a received frame the records of each partition are.
//!
//! Source: Apache Kafka, `FetchResponse.json`; flexible versions KIP-482, fetch sessions KIP-227, followers KIP-392,
//! topic ids KIP-516, leader epochs KIP-320 and KIP-595.

use crate::aborted::Aborted;
use crate::error::{Error, Kind, Result};
use crate::wire::Reader;
use std::ops::Range;

/// The lowest version understood: the first with record batches v2 and aborted transactions.
pub const VERSION_MIN: i16 = 4;
/// The highest version understood: the first that gives the topics' ids instead of their names.
pub const VERSION_MAX: i16 = 13;

const FLEXIBLE_FROM: i16 = 12;
const TOPIC_IDS_FROM: i16 = 13;
/// The tag of a partition's diverging epoch.
const DIVERGING_EPOCH: u32 = 0;

/// A Fetch response without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedResponse {
    /// How long the broker throttles the client because of a quota, in milliseconds.
    pub throttle_ms: i32,
    /// The error of the whole request; 0 below version 7.
    pub error_code: i16,
    /// The fetch session; 0 below version 7.
    pub session_id: i32,
    /// The topics, in the response's order: their names; from version 13 on their ids, in base64 with the alphabet for
    /// URLs and without padding. One may occur more than once.
    pub topics: Vec<String>,
    /// The partitions of all topics, in the response's order.
    pub partitions: Vec<FetchedPartition>,
}

/// One partition in a Fetch response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The index of its topic in [`FetchedResponse::topics`].
    pub topic: usize,
    /// The partition's number.
    pub partition: i32,
    /// Kafka's error code, 0 for none.
    pub error_code: i16,
    /// The offset after the last one that all in-sync replicas have.
    pub high_watermark: i64,
    /// The first offset that is not yet decided under `read_committed`, or -1.
    pub last_stable_offset: i64,
    /// The first offset that still exists; -1 below version 5.
    pub log_start_offset: i64,
    /// The aborted transactions that the records can belong to; none unless the request had `read_committed`.
    pub aborted: Vec<Aborted>,
    /// The broker to fetch from instead; -1 for none and below version 11.
    pub preferred_read_replica: i32,
    /// Where the leader's log differs from the one that was read, by the request's last fetched epoch: the latest epoch
    /// that both can have, and the offset after its last record. `None` if it does not differ, and below version 12.
    pub diverging: Option<(i32, i64)>,
    /// Where in the given bytes the records are; empty if there are none.
    pub records: Range<usize>,
}

/// Reads a Fetch response, which begins after its correlation id.
///
/// `bytes` must end where the response ends. From version 12 on it begins with the tagged fields of the response
/// header; they, and all tagged fields of the body but the diverging epochs, are skipped.
pub fn parse_fetch_response(bytes: &[u8], version: i16) -> Result<FetchedResponse> {
    if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
        return Err(Error::malformed(format!(
            "Fetch version {version} is not understood, expected {VERSION_MIN} to {VERSION_MAX}"
        )));
    }
    let mut parser = Parser { reader: Reader::new(bytes), total: bytes.len(), version };
    let response = parser.response()?;
    match parser.reader.left() {
        0 => Ok(response),
        left => Err(Error::malformed(format!("the Fetch response is complete and {left} bytes are left of it"))),
    }
}

struct Parser<'a> {
    reader: Reader<'a>,
    total: usize,
    version: i16,
}

impl<'a> Parser<'a> {
    fn flexible(&self) -> bool {
        self.version >= FLEXIBLE_FROM
    }

    fn response(&mut self) -> Result<FetchedResponse> {
        self.skip_tagged_fields()?;
        let throttle_ms = self.reader.i32("the throttle time")?;
        let (error_code, session_id) = match self.version {
            7.. => (self.reader.i16("the error code")?, self.reader.i32("the session id")?),
            _ => (0, 0),
        };
        let mut response =
            FetchedResponse { throttle_ms, error_code, session_id, topics: Vec::new(), partitions: Vec::new() };
        let topics = self.count("the number of topics")?.unwrap_or(0);
        for _ in 0..topics {
            let name = match self.version {
                TOPIC_IDS_FROM.. => topic_id(self.reader.take(16, "a topic's id")?),
                _ => self.string("a topic's name")?,
            };
            let partitions = self
                .count("the number of partitions")
                .map_err(|e| e.within(format_args!("topic {name:?}")))?
                .unwrap_or(0);
            for _ in 0..partitions {
                let index = response.topics.len();
                let one = self.partition(index).map_err(|e| e.within(format_args!("topic {name:?}")))?;
                response.partitions.push(one);
            }
            response.topics.push(name);
            self.skip_tagged_fields()?;
        }
        self.skip_tagged_fields()?;
        Ok(response)
    }

    fn partition(&mut self, topic: usize) -> Result<FetchedPartition> {
        let partition = self.reader.i32("a partition's number")?;
        self.partition_behind_number(topic, partition).map_err(|e| e.within(format_args!("partition {partition}")))
    }

    fn partition_behind_number(&mut self, topic: usize, partition: i32) -> Result<FetchedPartition> {
        let error_code = self.reader.i16("the error code")?;
        let high_watermark = self.reader.i64("the high watermark")?;
        let last_stable_offset = self.reader.i64("the last stable offset")?;
        let log_start_offset = match self.version {
            5.. => self.reader.i64("the log start offset")?,
            _ => -1,
        };
        let mut aborted = Vec::new();
        for _ in 0..self.count("the number of aborted transactions")?.unwrap_or(0) {
            let producer_id = self.reader.i64("an aborted transaction's producer")?;
            aborted.push((producer_id, self.reader.i64("an aborted transaction's first offset")?));
            self.skip_tagged_fields()?;
        }
        let preferred_read_replica = match self.version {
            11.. => self.reader.i32("the preferred read replica")?,
            _ => -1,
        };
        let length = self.count("the length of the records")?.unwrap_or(0);
        let begin = self.total.saturating_sub(self.reader.left());
        self.reader.take(length, "the records")?;
        let records = begin..begin.saturating_add(length);
        let diverging = self.diverging_epoch()?;
        Ok(FetchedPartition {
            topic,
            partition,
            error_code,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            preferred_read_replica,
            diverging,
            records,
        })
    }

    /// The length of an array or of bytes: `None` for null.
    fn count(&mut self, what: &str) -> Result<Option<usize>> {
        let count =
            if self.flexible() { i64::from(self.reader.uvarint(what)?) - 1 } else { i64::from(self.reader.i32(what)?) };
        match count {
            -1 => Ok(None),
            _ => match usize::try_from(count) {
                // Every element has at least one byte, so the bytes that are left bound the count.
                Ok(count) if count <= self.reader.left() => Ok(Some(count)),
                Ok(count) => Err(Error::new(
                    Kind::Truncated,
                    format!("{what} is {count}, and {} bytes are left", self.reader.left()),
                )),
                Err(_) => Err(Error::malformed(format!("{what} is {count}, expected -1 or more"))),
            },
        }
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let length =
            if self.flexible() { i64::from(self.reader.uvarint(what)?) - 1 } else { i64::from(self.reader.i16(what)?) };
        let length = usize::try_from(length)
            .map_err(|_| Error::malformed(format!("the length of {what} is {length}, expected 0 or more")))?;
        let bytes = self.reader.take(length, what)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::malformed(format!("{what} is not UTF-8"))),
        }
    }

    fn skip_tagged_fields(&mut self) -> Result<()> {
        self.tagged_fields(|_, _| Ok(()))
    }

    fn diverging_epoch(&mut self) -> Result<Option<(i32, i64)>> {
        let mut found = None;
        self.tagged_fields(|tag, field| {
            if tag == DIVERGING_EPOCH {
                found = diverging_epoch(field)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads all tagged fields, each with its tag; there are none below version 12.
    fn tagged_fields(&mut self, mut visit: impl FnMut(u32, &'a [u8]) -> Result<()>) -> Result<()> {
        if !self.flexible() {
            return Ok(());
        }
        for _ in 0..self.reader.uvarint("the number of tagged fields")? {
            let tag = self.reader.uvarint("a tag")?;
            let length = self.reader.uvarint("a tagged field's length")?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            visit(tag, self.reader.take(length, "a tagged field")?)?;
        }
        Ok(())
    }
}

/// An epoch and an offset (-1: none), and fields that later versions may add after them.
fn diverging_epoch(field: &[u8]) -> Result<Option<(i32, i64)>> {
    let mut reader = Reader::new(field);
    let epoch = reader.i32("a diverging epoch")?;
    let end = reader.i64("the end offset of a diverging epoch")?;
    for _ in 0..reader.uvarint("the number of tagged fields")? {
        reader.uvarint("a tag")?;
        let length = reader.uvarint("a tagged field's length")?;
        reader.take(usize::try_from(length).unwrap_or(usize::MAX), "a tagged field")?;
    }
    match reader.left() {
        0 => Ok((epoch >= 0 || end >= 0).then_some((epoch, end))),
        left => Err(Error::malformed(format!("a diverging epoch is complete and {left} bytes are left of it"))),
    }
}

/// A topic's id as text: base64 with the alphabet for URLs, without padding.
fn topic_id(bytes: &[u8]) -> String {
    const ALPHABET: [char; 64] = alphabet();
    let mut text = String::with_capacity(22);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, &byte| bits << 8 | usize::from(byte)) << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            text.extend(ALPHABET.get(bits >> (18 - 6 * place) & 63));
        }
    }
    text
}

const fn alphabet() -> [char; 64] {
    let mut letters = ['_'; 64];
    let mut at = 0_u8;
    while at < 63 {
        #[allow(clippy::indexing_slicing)]
        {
            letters[at as usize] = match at {
                0..26 => b'A' + at,
                26..52 => b'a' + at - 26,
                52..62 => b'0' + at - 52,
                _ => b'-',
            } as char;
        }
        at += 1;
    }
    letters
}
