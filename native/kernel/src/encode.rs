//! Arrow columns in, Kafka record batches v2 out.
//!
//! Sources: KIP-98 and Apache Kafka's `DefaultRecordBatch`, `DefaultRecord` and `MemoryRecordsBuilder`.

mod batch;
mod buffers;
mod column;
mod compressor;
mod encoder;
mod fields;
mod lz4;
mod partitions;
mod record;
mod sizing;
mod views;

pub use batch::EncodedBatch;
pub use column::{Column, Refused, Rows};
pub use compressor::Compression;
pub use encoder::{Encoded, Encoder, Settings};
pub use fields::Problem;
pub use partitions::murmur2;
