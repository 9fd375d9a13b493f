//! Records of Avro: each is walked once by a program that resolves the writer's schema to the reader's, and the fields
//! that are asked for go straight into columns.

mod decode;
mod program;
mod wire;

pub(crate) use decode::AvroDecoder;
pub use program::{Field, Program, Skip, Step, Symbol};
