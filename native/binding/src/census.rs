//! Headers of record batches for Python.

use crate::buffer::{with_bytes, Buffer};
use crate::error::raised;
use evensplit_kernel::{Memory, Range};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The headers of record batches, by columns.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct Census {
    batches: usize,
    base_offsets: Py<Buffer>,
    last_offsets: Py<Buffer>,
    producer_ids: Py<Buffer>,
    producer_epochs: Py<Buffer>,
    base_sequences: Py<Buffer>,
    records: Py<Buffer>,
    flags: Py<Buffer>,
    markers: Py<Buffer>,
    offset_next: i64,
}

#[pymethods]
impl Census {
    fn __repr__(&self) -> String {
        format!("Census(batches={}, offset_next={})", self.batches, self.offset_next)
    }
}

/// Takes the headers of the record batches in `frame[begin:end]`.
#[pyfunction]
#[pyo3(signature = (frame, begin, end, *, offset_start, offset_end))]
pub fn take_census(
    py: Python<'_>,
    frame: &Bound<'_, PyAny>,
    begin: isize,
    end: isize,
    offset_start: i64,
    offset_end: i64,
) -> PyResult<Census> {
    if !(0..=offset_end).contains(&offset_start) {
        return Err(PyValueError::new_err(format!(
            "the range is {offset_start} to {offset_end}; expected 0 <= offset_start <= offset_end"
        )));
    }
    let range = Range { start: offset_start, end: offset_end };
    let found = with_bytes(py, frame, begin, end, |bytes| evensplit_kernel::take_census(bytes, range))?;
    let found = found.map_err(raised)?;
    let owned = |memory: Memory| Py::new(py, Buffer::from(memory));
    Ok(Census {
        batches: found.base_offsets.len(),
        base_offsets: owned(Memory::Longs(found.base_offsets))?,
        last_offsets: owned(Memory::Longs(found.last_offsets))?,
        producer_ids: owned(Memory::Longs(found.producer_ids))?,
        producer_epochs: owned(Memory::Shorts(found.producer_epochs))?,
        base_sequences: owned(Memory::Ints(found.base_sequences))?,
        records: owned(Memory::Ints(found.records))?,
        flags: owned(Memory::Bytes(found.flags))?,
        markers: owned(Memory::Shorts(found.markers))?,
        offset_next: found.offset_next,
    })
}
