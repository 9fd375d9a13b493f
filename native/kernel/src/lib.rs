//! The bytes of a Kafka fetch response in, the buffers of Arrow columns out; and the other way round in [`encode`].
//!
//! It has no policy, does no I/O, has no clock and does not log. Every byte of input may be hostile: lengths are
//! checked before they are used, memory grows with data that is there and never with data that is announced, and input
//! that does not fit the format is an [`Error`], never a panic and never a wrong row.

#![forbid(unsafe_code)]

mod aborted;
pub mod avro;
mod batch;
mod binary;
mod builder;
mod census;
mod codec;
mod columns;
mod decoding;
pub mod encode;
mod epochs;
mod error;
mod fault;
mod fetch;
mod filter;
mod format;
mod framing;
mod header_key;
mod headers;
mod json;
mod lz4;
pub mod protobuf;
mod record;
mod rows;
mod runs;
mod selection;
mod taking;
mod text;
mod times;
mod typed;
mod validity;
mod varint;
mod wire;
mod writers;
mod zstd;

pub use aborted::Aborted;
pub use batch::TimestampType;
pub use binary::Binary;
pub use builder::{Appended, ColumnBuilder, Limits};
pub use census::{take_census, Census};
pub use columns::Columns;
pub use decoding::{Decoding, OnFault, Typed};
pub use epochs::{next_leader_epoch, EpochChange};
pub use error::{Error, Kind, Result};
pub use fetch::{parse_fetch_response, FetchedPartition, FetchedResponse, VERSION_MAX, VERSION_MIN};
pub use filter::{Comparison, Condition, Expression, Function, Operator, Part, Pattern, Source, EXPRESSION_DEPTH_MAX};
pub use format::Format;
pub use framing::{Framing, Writer};
pub use headers::HeaderColumn;
pub use rows::MissingWriter;
pub use selection::{Selection, SelectionError};
pub use taking::Range;
pub use times::Times;
pub use typed::{Array, DataType, Field, Memory, DEPTH_MAX};
pub use writers::Written;
