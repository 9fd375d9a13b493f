//! The Python module `evensplit._kernel`: a thin translation of `evensplit-kernel`.

mod buffer;
mod builder;
mod fetch;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    evensplit._kernel,
    KernelError,
    PyValueError,
    "Bytes that cannot be decoded; `args` is (kind, offset, detail)."
);

fn raised(error: evensplit_kernel::Error) -> PyErr {
    KernelError::new_err((error.kind.name(), error.offset, error.detail))
}

#[pymodule]
#[pyo3(name = "_kernel")]
mod module {
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::builder::{Appended, ColumnBuilder, Columns};
    #[pymodule_export]
    use crate::fetch::{next_leader_epoch, parse_fetch_response, FetchedPartition, FetchedResponse};
    #[pymodule_export]
    use crate::KernelError;
}
