//! The kernel's errors as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    evensplit._kernel,
    KernelError,
    PyValueError,
    "Bytes that cannot be decoded; `args` is (kind, offset, detail)."
);

pub(crate) fn raised(error: evensplit_kernel::Error) -> PyErr {
    KernelError::new_err((error.kind.name(), error.offset, error.detail))
}
