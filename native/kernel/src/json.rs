//! Values in JSON: each is walked once, and what is asked for goes straight into columns.

mod decode;
mod names;
mod number;
mod rewritten;
mod scanner;
mod strings;

pub(crate) use decode::JsonDecoder;
pub(crate) use names::Names;
