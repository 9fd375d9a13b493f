//! The formats that keys and values can be written in.

use crate::avro::{self, AvroDecoder};
use crate::fault::{Budget, Decoded};
use crate::json::JsonDecoder;
use crate::protobuf::{Program, ProtobufDecoder};
use crate::typed::Column;

/// A format that keys and values can be written in.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// JSON, as `from_json` of Spark reads it.
    Json,
    /// Messages of Protocol Buffers, as `from_protobuf` of Spark reads them.
    Protobuf(Program),
    /// Values of Avro, as `from_avro` of Spark reads them.
    Avro(avro::Program),
}

/// What decodes each of the formats.
#[derive(Default)]
pub(crate) struct Decoders {
    json: JsonDecoder,
    protobuf: ProtobufDecoder,
    avro: AvroDecoder,
}

impl Decoders {
    /// Adds the row that `bytes` are. After a fault, `column` may have a row that was begun.
    #[inline(always)]
    pub(crate) fn decode(
        &mut self,
        format: &Format,
        bytes: &[u8],
        column: &mut Column,
        budget: &mut Budget,
    ) -> Decoded<()> {
        match format {
            Format::Json => self.json.decode(bytes, column, budget),
            Format::Protobuf(program) => self.protobuf.decode(program, bytes, column, budget),
            Format::Avro(program) => self.avro.decode(program, bytes, column, budget),
        }
    }
}
