//! The column builder for Python.

use crate::buffer::{with_bytes, Buffer};
use crate::data_type::decoding;
use crate::error::raised;
use evensplit_kernel as kernel;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Validity, offsets, data, number of nulls.
type BinaryParts = (Option<Py<Buffer>>, Py<Buffer>, Py<Buffer>, usize);
/// Validity, microseconds, number of nulls.
type TimeParts = (Option<Py<Buffer>>, Py<Buffer>, usize);
/// List validity and offsets; key offsets and data; value validity, offsets and data; null lists; items.
type HeaderParts =
    (Option<Py<Buffer>>, Py<Buffer>, Py<Buffer>, Py<Buffer>, Option<Py<Buffer>>, Py<Buffer>, Py<Buffer>, usize, usize);

/// The result of one call of `ColumnBuilder.append`.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct Appended {
    offset_next: i64,
    position: usize,
    rows: usize,
    stopped: bool,
    complete_batches: usize,
    aborted: Vec<kernel::Aborted>,
}

#[pymethods]
impl Appended {
    fn __repr__(&self) -> String {
        format!(
            "Appended(offset_next={}, position={}, rows={}, stopped={}, complete_batches={}, aborted={:?})",
            self.offset_next,
            self.position,
            self.rows,
            if self.stopped { "True" } else { "False" },
            self.complete_batches,
            self.aborted
        )
    }
}

/// Finished rows, by columns.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct Columns {
    rows: usize,
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
    topic: Option<Py<PyAny>>,
    partition: Option<Py<Buffer>>,
    offset: Option<Py<Buffer>>,
    timestamp: Option<Py<PyAny>>,
    timestamp_type: Option<Py<Buffer>>,
    headers: Option<Py<PyAny>>,
    cluster: Option<Py<PyAny>>,
    typed_key: Option<Py<PyAny>>,
    typed_value: Option<Py<PyAny>>,
}

/// Decodes record batches into Arrow columns.
#[pyclass(module = "evensplit._kernel")]
pub struct ColumnBuilder {
    inner: kernel::ColumnBuilder,
}

fn owned(py: Python<'_>, memory: impl Into<Buffer>) -> PyResult<Py<Buffer>> {
    Py::new(py, memory.into())
}

fn binary(py: Python<'_>, column: kernel::Binary) -> PyResult<Py<PyAny>> {
    let parts: BinaryParts = (
        column.validity.map(|bits| owned(py, bits)).transpose()?,
        owned(py, column.offsets)?,
        owned(py, column.data)?,
        column.null_count,
    );
    Ok(parts.into_pyobject(py)?.into_any().unbind())
}

/// Rows, nulls, buffers, children.
fn array(py: Python<'_>, column: kernel::Array) -> PyResult<Py<PyAny>> {
    let wrap = |memory: Option<kernel::Memory>| memory.map(|memory| owned(py, memory)).transpose();
    let buffers = column.buffers.into_iter().map(wrap).collect::<PyResult<Vec<_>>>()?;
    let children = column.children.into_iter().map(|child| array(py, child)).collect::<PyResult<Vec<_>>>()?;
    let parts = (column.rows, column.null_count, buffers, children);
    Ok(parts.into_pyobject(py)?.into_any().unbind())
}

/// Values, errors, raw bytes.
fn typed(py: Python<'_>, column: kernel::Typed) -> PyResult<Py<PyAny>> {
    let error = column.error.map(|column| binary(py, column)).transpose()?;
    let raw = column.raw.map(|column| binary(py, column)).transpose()?;
    Ok((array(py, column.values)?, error, raw).into_pyobject(py)?.into_any().unbind())
}

fn times(py: Python<'_>, column: kernel::Times) -> PyResult<Py<PyAny>> {
    let validity = column.validity.map(|bits| owned(py, bits)).transpose()?;
    let parts: TimeParts = (validity, owned(py, column.micros)?, column.null_count);
    Ok(parts.into_pyobject(py)?.into_any().unbind())
}

fn headers(py: Python<'_>, column: kernel::HeaderColumn) -> PyResult<Py<PyAny>> {
    let items = column.keys.offsets.len().saturating_sub(1);
    let parts: HeaderParts = (
        column.validity.map(|bits| owned(py, bits)).transpose()?,
        owned(py, column.offsets)?,
        owned(py, column.keys.offsets)?,
        owned(py, column.keys.data)?,
        column.values.validity.map(|bits| owned(py, bits)).transpose()?,
        owned(py, column.values.offsets)?,
        owned(py, column.values.data)?,
        column.null_count,
        items,
    );
    Ok(parts.into_pyobject(py)?.into_any().unbind())
}

fn at_least_one(name: &str, value: usize) -> PyResult<usize> {
    match value {
        0 => Err(PyValueError::new_err(format!("{name} is 0, expected 1 or more"))),
        _ => Ok(value),
    }
}

#[pymethods]
impl ColumnBuilder {
    #[new]
    #[pyo3(signature = (*, columns, rows_max, bytes_max, uncompressed_bytes_max, null_timestamps=false, key=None,
                        value=None, null_faults=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        columns: Vec<String>,
        rows_max: usize,
        bytes_max: usize,
        uncompressed_bytes_max: usize,
        null_timestamps: bool,
        key: Option<Bound<'_, PyAny>>,
        value: Option<Bound<'_, PyAny>>,
        null_faults: bool,
    ) -> PyResult<Self> {
        let selection = kernel::Selection::of(&columns).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let limits = kernel::Limits {
            rows_max: at_least_one("rows_max", rows_max)?,
            bytes_max: at_least_one("bytes_max", bytes_max)?,
            uncompressed_bytes_max: at_least_one("uncompressed_bytes_max", uncompressed_bytes_max)?,
        };
        let key = key.as_ref().map(decoding).transpose()?;
        let value = value.as_ref().map(decoding).transpose()?;
        let on_fault = if null_faults { kernel::OnFault::Null } else { kernel::OnFault::Fail };
        let inner =
            kernel::ColumnBuilder::new(selection, limits).with_decoding(key.as_ref(), value.as_ref(), on_fault);
        Ok(ColumnBuilder { inner: if null_timestamps { inner.with_null_timestamps() } else { inner } })
    }

    #[getter]
    fn rows(&self) -> usize {
        self.inner.rows()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.bytes()
    }

    #[getter]
    fn batches_opened(&self) -> u64 {
        self.inner.batches_opened()
    }

    #[getter]
    fn faults(&self) -> u64 {
        self.inner.faults()
    }

    #[getter]
    fn full(&self) -> bool {
        self.inner.full()
    }

    #[pyo3(signature = (frame, begin, end, *, cluster, topic, partition, offset_start, offset_end, aborted=Vec::new()))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &mut self,
        py: Python<'_>,
        frame: &Bound<'_, PyAny>,
        begin: isize,
        end: isize,
        cluster: &str,
        topic: &str,
        partition: i32,
        offset_start: i64,
        offset_end: i64,
        aborted: Vec<kernel::Aborted>,
    ) -> PyResult<Appended> {
        if offset_start < 0 || offset_end < offset_start {
            return Err(PyValueError::new_err(format!(
                "the offsets are {offset_start} to {offset_end}, expected 0 <= offset_start <= offset_end"
            )));
        }
        let range = kernel::Range { start: offset_start, end: offset_end };
        let inner = &mut self.inner;
        let done =
            with_bytes(py, frame, begin, end, |bytes| inner.append(bytes, cluster, topic, partition, range, &aborted))?
                .map_err(raised)?;
        Ok(Appended {
            offset_next: done.offset_next,
            // `begin` was checked to be a position in the frame.
            position: begin.unsigned_abs().saturating_add(done.position),
            rows: done.rows,
            stopped: done.stopped,
            complete_batches: done.complete_batches,
            aborted: done.aborted,
        })
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Columns> {
        let inner = &mut self.inner;
        let columns = py.detach(|| inner.finish());
        Ok(Columns {
            rows: columns.rows,
            key: columns.key.map(|column| binary(py, column)).transpose()?,
            value: columns.value.map(|column| binary(py, column)).transpose()?,
            topic: columns.topic.map(|column| binary(py, column)).transpose()?,
            partition: columns.partition.map(|column| owned(py, column)).transpose()?,
            offset: columns.offset.map(|column| owned(py, column)).transpose()?,
            timestamp: columns.timestamp.map(|column| times(py, column)).transpose()?,
            timestamp_type: columns.timestamp_type.map(|column| owned(py, column)).transpose()?,
            headers: columns.headers.map(|column| headers(py, column)).transpose()?,
            cluster: columns.cluster.map(|column| binary(py, column)).transpose()?,
            typed_key: columns.typed_key.map(|column| typed(py, column)).transpose()?,
            typed_value: columns.typed_value.map(|column| typed(py, column)).transpose()?,
        })
    }
}
