//! Messages of Protocol Buffers: each is walked once, and the fields that are asked for go straight into columns.

mod decode;
mod program;
mod whole;
mod wire;

pub(crate) use decode::ProtobufDecoder;
pub use program::{Enum, Field, Kind, Label, Message, Program};
