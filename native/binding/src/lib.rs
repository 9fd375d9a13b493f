//! The Python module `evensplit._kernel`: a thin translation of `evensplit-kernel`.

mod avro;
mod buffer;
mod builder;
mod census;
mod data_type;
mod encode;
mod error;
mod expression;
mod fetch;
mod protobuf;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_kernel")]
mod module {
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::builder::{Appended, ColumnBuilder, Columns};
    #[pymodule_export]
    use crate::census::{take_census, Census};
    #[pymodule_export]
    use crate::encode::{Encoded, EncodedBatch, RecordEncoder};
    #[pymodule_export]
    use crate::error::KernelError;
    #[pymodule_export]
    use crate::fetch::{next_leader_epoch, parse_fetch_response, FetchedPartition, FetchedResponse};
}
