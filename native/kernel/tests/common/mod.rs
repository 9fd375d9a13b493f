//! An encoder of record batches that shares nothing with the decoder, and the rows that have to come out.

#![allow(dead_code, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use evensplit_kernel::{Binary, ColumnBuilder, Columns, Limits, Range, Selection, Times};
use std::io::Write;

pub mod arrow;
pub mod conditions;
pub mod damage;
pub mod strategy;
pub mod typed;
pub mod values;

pub type Header = (Vec<u8>, Option<Vec<u8>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    SnappyRaw,
    SnappyXerial,
    Lz4,
    Zstd,
}

pub const CODECS: [Codec; 6] =
    [Codec::None, Codec::Gzip, Codec::SnappyRaw, Codec::SnappyXerial, Codec::Lz4, Codec::Zstd];

#[derive(Clone, Debug)]
pub struct Record {
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub base_offset: i64,
    pub last_offset_delta: i32,
    pub codec: Codec,
    pub control: bool,
    pub log_append_time: bool,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub transactional: bool,
    pub records: Vec<Record>,
}

type Cell = Option<Vec<u8>>;

/// One row as a test compares it; `None` where there is no such column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Option<Cell>,
    pub value: Option<Cell>,
    pub topic: Option<String>,
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    pub timestamp: Option<Option<i64>>,
    pub timestamp_type: Option<i32>,
    pub headers: Option<Option<Vec<(String, Cell)>>>,
    pub cluster: Option<String>,
}

pub fn varint(out: &mut Vec<u8>, value: i64) {
    let mut raw = (value.wrapping_shl(1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint(out, bytes.map_or(-1, |b| b.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}

impl Record {
    pub fn plain(offset_delta: i32, value: &[u8]) -> Self {
        Record { offset_delta, timestamp_delta: 0, key: None, value: Some(value.to_vec()), headers: Vec::new() }
    }

    pub fn body(&self) -> Vec<u8> {
        let mut body = vec![0];
        varint(&mut body, self.timestamp_delta);
        varint(&mut body, i64::from(self.offset_delta));
        nullable(&mut body, self.key.as_deref());
        nullable(&mut body, self.value.as_deref());
        varint(&mut body, self.headers.len() as i64);
        for (key, value) in &self.headers {
            nullable(&mut body, Some(key));
            nullable(&mut body, value.as_deref());
        }
        body
    }
}

impl Batch {
    /// A batch of values without anything special about it.
    pub fn plain(base_offset: i64, codec: Codec, values: &[&[u8]]) -> Self {
        Batch {
            base_offset,
            last_offset_delta: values.len() as i32 - 1,
            codec,
            control: false,
            log_append_time: false,
            base_timestamp: 1_700_000_000_000,
            max_timestamp: 1_700_000_000_000,
            producer_id: -1,
            transactional: false,
            records: values.iter().enumerate().map(|(delta, value)| Record::plain(delta as i32, value)).collect(),
        }
    }

    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        for record in &self.records {
            let body = record.body();
            varint(&mut payload, body.len() as i64);
            payload.extend(body);
        }
        payload
    }

    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(&compress(self.codec, &self.payload()), self.records.len() as i32)
    }

    /// The marker that ends a producer's transaction: `kind` 0 aborts, 1 commits.
    pub fn marker(offset: i64, producer_id: i64, kind: i16) -> Self {
        let key = [0_i16.to_be_bytes(), kind.to_be_bytes()].concat();
        let mut batch = Batch::plain(offset, Codec::None, &[&[0, 0, 0, 0, 0, 9]]);
        batch.records[0].key = Some(key);
        Batch { control: true, producer_id, transactional: true, ..batch }
    }

    /// The batch around a payload that need not fit to it, with a right checksum.
    pub fn encode_with(&self, payload: &[u8], records_count: i32) -> Vec<u8> {
        let number = match self.codec {
            Codec::None => 0_i16,
            Codec::Gzip => 1,
            Codec::SnappyRaw | Codec::SnappyXerial => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        };
        let attributes = number
            | i16::from(self.log_append_time) << 3
            | i16::from(self.transactional) << 4
            | i16::from(self.control) << 5;
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        out.extend((49 + payload.len() as i32).to_be_bytes());
        out.extend(7_i32.to_be_bytes());
        out.push(2);
        out.extend([0; 4]);
        out.extend(attributes.to_be_bytes());
        out.extend(self.last_offset_delta.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(self.max_timestamp.to_be_bytes());
        out.extend(self.producer_id.to_be_bytes());
        out.extend((-1_i16).to_be_bytes());
        out.extend((-1_i32).to_be_bytes());
        out.extend(records_count.to_be_bytes());
        out.extend(payload);
        fix_crc(&mut out);
        out
    }

    pub fn rows(&self, range: Range, selection: Selection) -> Vec<Row> {
        let kept = |record: &&Record| {
            let offset = self.base_offset + i64::from(record.offset_delta);
            !self.control && range.start <= offset && offset < range.end
        };
        let row = |record: &Record| Row {
            key: selection.key.then(|| record.key.clone()),
            value: selection.value.then(|| record.value.clone()),
            topic: selection.topic.then(|| TOPIC.to_owned()),
            partition: selection.partition.then_some(PARTITION),
            offset: selection.offset.then(|| self.base_offset + i64::from(record.offset_delta)),
            timestamp: selection.timestamp.then(|| {
                let created = self.base_timestamp + record.timestamp_delta;
                Some(1000 * if self.log_append_time { self.max_timestamp } else { created })
            }),
            timestamp_type: selection.timestamp_type.then(|| i32::from(self.log_append_time)),
            headers: selection.headers.then(|| {
                let decoded = |(key, value): &Header| (String::from_utf8(key.clone()).unwrap(), value.clone());
                (!record.headers.is_empty()).then(|| record.headers.iter().map(decoded).collect())
            }),
            cluster: selection.cluster.then(|| CLUSTER.to_owned()),
        };
        self.records.iter().filter(kept).map(row).collect()
    }
}

pub const CLUSTER: &str = "main";
pub const TOPIC: &str = "orders";
pub const PARTITION: i32 = 3;
/// The columns of Spark's own source.
pub const SEVEN: Selection = Selection { headers: false, cluster: false, ..Selection::ALL };
pub const EVERYTHING: Range = Range { start: 0, end: i64::MAX };
pub const LIMITS: Limits = Limits { rows_max: 1_000_000, bytes_max: 1 << 24, uncompressed_bytes_max: 1 << 24 };

pub fn append(
    builder: &mut ColumnBuilder,
    bytes: &[u8],
    range: Range,
) -> evensplit_kernel::Result<evensplit_kernel::Appended> {
    builder.append(bytes, CLUSTER, TOPIC, PARTITION, range, &[])
}

/// Makes the checksum of the record batch that `bytes` begins with right again.
pub fn fix_crc(bytes: &mut [u8]) {
    if bytes.len() >= 21 {
        let length = i32::from_be_bytes(bytes[8..12].try_into().unwrap());
        let end = usize::try_from(length).unwrap_or(0).saturating_add(12).clamp(21, bytes.len());
        let crc = crc32c::crc32c(&bytes[21..end]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

pub fn compress(codec: Codec, payload: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => payload.to_vec(),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(payload).unwrap();
            encoder.finish().unwrap()
        }
        Codec::SnappyRaw => snap::raw::Encoder::new().compress_vec(payload).unwrap(),
        Codec::SnappyXerial => {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for chunk in payload.chunks(32 * 1024) {
                let block = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
                out.extend((block.len() as i32).to_be_bytes());
                out.extend(block);
            }
            out
        }
        Codec::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(payload).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => {
            let mut out = Vec::with_capacity(zstd_safe::compress_bound(payload.len()));
            zstd_safe::compress(&mut out, payload, 3).unwrap();
            out
        }
    }
}

fn cells(column: &Binary, rows: usize) -> Vec<Option<Vec<u8>>> {
    assert_eq!(column.offsets.len(), rows + 1);
    assert_eq!(column.offsets[0], 0);
    assert_eq!(column.offsets[rows] as usize, column.data.len());
    let cell = |(row, valid): (usize, bool)| {
        let slot = &column.data[column.offsets[row] as usize..column.offsets[row + 1] as usize];
        valid.then(|| slot.to_vec())
    };
    validity(column.validity.as_deref(), rows, column.null_count).into_iter().enumerate().map(cell).collect()
}

fn texts(column: &Binary, rows: usize) -> Vec<String> {
    cells(column, rows).into_iter().map(|cell| String::from_utf8(cell.unwrap()).unwrap()).collect()
}

fn times(column: &Times, rows: usize) -> Vec<Option<i64>> {
    assert_eq!(column.micros.len(), rows);
    let valid = validity(column.validity.as_deref(), rows, column.null_count);
    valid.into_iter().zip(&column.micros).map(|(valid, micros)| valid.then_some(*micros)).collect()
}

fn validity(bits: Option<&[u8]>, rows: usize, null_count: usize) -> Vec<bool> {
    assert_eq!(bits.is_some(), null_count > 0);
    assert!(bits.is_none_or(|bits| bits.len() == rows.div_ceil(8)));
    let valid: Vec<bool> = (0..rows).map(|row| is_valid(bits, row)).collect();
    assert_eq!(valid.iter().filter(|valid| !**valid).count(), null_count);
    valid
}

fn is_valid(validity: Option<&[u8]>, row: usize) -> bool {
    validity.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
}

/// The rows in the columns, read as Arrow reads them.
pub fn rows(columns: &Columns) -> Vec<Row> {
    let count = columns.rows;
    let keys = columns.key.as_ref().map(|column| cells(column, count));
    let values = columns.value.as_ref().map(|column| cells(column, count));
    let topics = columns.topic.as_ref().map(|column| texts(column, count));
    let clusters = columns.cluster.as_ref().map(|column| texts(column, count));
    for column in [&columns.partition, &columns.timestamp_type].into_iter().flatten() {
        assert_eq!(column.len(), count);
    }
    let times = columns.timestamp.as_ref().map(|column| times(column, count));
    assert!(columns.offset.as_ref().is_none_or(|column| column.len() == count));
    let headers = columns.headers.as_ref().map(|column| {
        assert_eq!(column.offsets.len(), count + 1);
        let items = column.offsets[count] as usize;
        let all: Vec<_> = texts(&column.keys, items).into_iter().zip(cells(&column.values, items)).collect();
        let list = |row: usize| {
            let list = &all[column.offsets[row] as usize..column.offsets[row + 1] as usize];
            is_valid(column.validity.as_deref(), row).then(|| list.to_vec())
        };
        (0..count).map(list).collect::<Vec<_>>()
    });
    (0..count)
        .map(|row| Row {
            key: keys.as_ref().map(|cells| cells[row].clone()),
            value: values.as_ref().map(|cells| cells[row].clone()),
            topic: topics.as_ref().map(|texts| texts[row].clone()),
            partition: columns.partition.as_ref().map(|numbers| numbers[row]),
            offset: columns.offset.as_ref().map(|numbers| numbers[row]),
            timestamp: times.as_ref().map(|cells| cells[row]),
            timestamp_type: columns.timestamp_type.as_ref().map(|numbers| numbers[row]),
            headers: headers.as_ref().map(|lists| lists[row].clone()),
            cluster: clusters.as_ref().map(|texts| texts[row].clone()),
        })
        .collect()
}

/// The bytes of all columns, validity bitmaps and the first 0 of offsets left out.
pub fn bytes(columns: &Columns) -> usize {
    let binary = |column: &Binary| 4 * (column.offsets.len() - 1) + column.data.len();
    let headers = columns
        .headers
        .as_ref()
        .map_or(0, |column| 4 * (column.offsets.len() - 1) + binary(&column.keys) + binary(&column.values));
    let strings = [&columns.key, &columns.value, &columns.topic, &columns.cluster];
    let ints = [&columns.partition, &columns.timestamp_type];
    let longs = [columns.offset.as_ref(), columns.timestamp.as_ref().map(|column| &column.micros)];
    strings.into_iter().flatten().map(binary).sum::<usize>()
        + ints.into_iter().flatten().map(|column| 4 * column.len()).sum::<usize>()
        + longs.into_iter().flatten().map(|column| 8 * column.len()).sum::<usize>()
        + headers
}
