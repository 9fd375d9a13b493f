//! The column builder for Python.

use crate::buffer::{with_bytes, Buffer};
use crate::data_type::{decoding, written};
use crate::error::raised;
use crate::expression::condition_of;
use evensplit_kernel as kernel;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The result of one call of `ColumnBuilder.append`.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct Appended {
    offset_next: i64,
    position: usize,
    rows: usize,
    stopped: bool,
    complete_batches: usize,
    aborted: Vec<kernel::Aborted>,
    missing: Option<(&'static str, u32, Vec<i32>)>,
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
    arrays: Py<PyDict>,
}

/// Decodes record batches into Arrow columns.
#[pyclass(module = "evensplit._kernel")]
pub struct ColumnBuilder {
    inner: kernel::ColumnBuilder,
    types: Types,
}

/// What keys and values become, in rows and for the condition.
struct Types {
    key: [Option<kernel::DataType>; 2],
    value: [Option<kernel::DataType>; 2],
}

/// Rows, nulls, buffers, columns inside.
fn array(py: Python<'_>, column: kernel::Array) -> PyResult<Bound<'_, PyTuple>> {
    let owned = |memory: Option<kernel::Memory>| memory.map(|memory| Py::new(py, Buffer::from(memory))).transpose();
    let buffers = column.buffers.into_iter().map(owned).collect::<PyResult<Vec<_>>>()?;
    let children = column.children.into_iter().map(|child| array(py, child)).collect::<PyResult<Vec<_>>>()?;
    (column.rows, column.null_count, buffers, children).into_pyobject(py)
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
                        value=None, null_faults=false, condition=None))]
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
        condition: Option<Bound<'_, PyAny>>,
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
        let condition = condition.as_ref().map(condition_of).transpose()?;
        let of = |decoding: Option<&kernel::Decoding>| decoding.map(|decoding| decoding.data_type.clone());
        let in_condition =
            |key: bool| condition.as_ref().and_then(|one| if key { one.key.as_ref() } else { one.value.as_ref() });
        let types = Types {
            key: [of(key.as_ref()), of(in_condition(true))],
            value: [of(value.as_ref()), of(in_condition(false))],
        };
        let inner = kernel::ColumnBuilder::new(selection, limits).with_decoding(key.as_ref(), value.as_ref(), on_fault);
        let inner = match condition {
            Some(condition) => inner.with_condition(condition, on_fault),
            None => inner,
        };
        Ok(ColumnBuilder { inner: if null_timestamps { inner.with_null_timestamps() } else { inner }, types })
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
    fn filtered(&self) -> u64 {
        self.inner.filtered()
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
            missing: done.missing.map(|missing| {
                let side = if missing.key { "key" } else { "value" };
                (side, missing.writer.id, missing.writer.indexes)
            }),
        })
    }

    fn add_writer(
        &mut self,
        cluster: &str,
        missing: (String, u32, Vec<i32>),
        in_rows: &Bound<'_, PyAny>,
        in_condition: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (side, id, indexes) = missing;
        let key = side == "key";
        let [rows, condition] = if key { &self.types.key } else { &self.types.value };
        // What has no column is never decoded.
        let one = |given: &Bound<'_, PyAny>, of: &Option<kernel::DataType>| match of {
            Some(of) => written(given, of),
            None => Ok(kernel::Written::Refused(String::new())),
        };
        let (in_rows, in_condition) = (one(in_rows, rows)?, one(in_condition, condition)?);
        let missing = kernel::MissingWriter { key, writer: kernel::Writer { id, indexes } };
        self.inner.add_writer(cluster, missing, in_rows, in_condition);
        Ok(())
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Columns> {
        let inner = &mut self.inner;
        let columns = py.detach(|| inner.finish());
        let arrays = PyDict::new(py);
        let rows = columns.rows;
        for (name, column) in columns.into_arrays() {
            arrays.set_item(name, array(py, column)?)?;
        }
        Ok(Columns { rows, arrays: arrays.unbind() })
    }
}
