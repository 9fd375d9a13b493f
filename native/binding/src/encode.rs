//! The record encoder for Python.

use crate::buffer::{Buffer, Exported};
use evensplit_kernel::encode as kernel;
use evensplit_kernel::Memory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn refused(error: kernel::Refused) -> PyErr {
    PyValueError::new_err(error.0)
}

/// Rows, offset, whether offsets are wide, buffers, columns inside; as Python has them.
#[derive(FromPyObject)]
struct Given<'py>(usize, usize, bool, Vec<Option<Bound<'py, PyAny>>>, Vec<Bound<'py, PyAny>>);

/// Lists of structs of texts.
const DEPTH_MAX: usize = 3;

/// A column whose buffers are exported.
struct Held {
    rows: usize,
    offset: usize,
    wide: bool,
    buffers: Vec<Option<Exported>>,
    children: Vec<Held>,
}

impl Held {
    fn of(column: &Bound<'_, PyAny>) -> PyResult<Self> {
        Held::within(DEPTH_MAX, column)
    }

    fn within(depth: usize, column: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(inside) = depth.checked_sub(1) else {
            return Err(PyValueError::new_err(format!("columns within columns, deeper than {DEPTH_MAX}")));
        };
        let Given(rows, offset, wide, buffers, children) = column.extract()?;
        let exported = |buffer: Option<Bound<'_, PyAny>>| buffer.as_ref().map(Exported::of).transpose();
        Ok(Held {
            rows,
            offset,
            wide,
            buffers: buffers.into_iter().map(exported).collect::<PyResult<_>>()?,
            children: children.iter().map(|child| Held::within(inside, child)).collect::<PyResult<_>>()?,
        })
    }

    fn column(&self) -> kernel::Column<'_> {
        kernel::Column {
            rows: self.rows,
            offset: self.offset,
            wide: self.wide,
            buffers: self.buffers.iter().map(|buffer| buffer.as_ref().map(Exported::bytes)).collect(),
            children: self.children.iter().map(Held::column).collect(),
        }
    }
}

/// The result of one call of `RecordEncoder.append`.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct Encoded {
    row_next: usize,
    problem: Option<(&'static str, usize, i64)>,
}

#[pymethods]
impl Encoded {
    fn __repr__(&self) -> String {
        let problem = self.problem.map_or("None".to_owned(), |found| format!("{found:?}"));
        format!("Encoded(row_next={}, problem={problem})", self.row_next)
    }
}

/// A record batch as it is sent.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct EncodedBatch {
    topic: usize,
    partition: i32,
    base_sequence: i32,
    records: i32,
    data: Py<Buffer>,
}

#[pymethods]
impl EncodedBatch {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "EncodedBatch(topic={}, partition={}, base_sequence={}, records={}, data=<{} bytes>)",
            self.topic,
            self.partition,
            self.base_sequence,
            self.records,
            self.data.bind(py).len().unwrap_or_default()
        )
    }
}

/// Encodes Arrow columns as record batches.
#[pyclass(module = "evensplit._kernel")]
pub struct RecordEncoder {
    inner: kernel::Encoder,
}

#[pymethods]
impl RecordEncoder {
    #[new]
    #[pyo3(signature = (*, codec, level, batch_bytes_max, record_bytes_max, buffer_bytes_max, ignore_keys, transactional,
                        producer_id, producer_epoch))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        codec: &str,
        level: Option<i32>,
        batch_bytes_max: usize,
        record_bytes_max: usize,
        buffer_bytes_max: usize,
        ignore_keys: bool,
        transactional: bool,
        producer_id: i64,
        producer_epoch: i16,
    ) -> PyResult<Self> {
        let settings = kernel::Settings {
            compression: kernel::Compression::of(codec, level).map_err(refused)?,
            batch_bytes_max,
            record_bytes_max,
            buffer_bytes_max,
            ignore_keys,
            transactional,
            producer_id,
            producer_epoch,
        };
        Ok(RecordEncoder { inner: kernel::Encoder::new(settings).map_err(refused)? })
    }

    #[getter]
    fn buffered_bytes(&self) -> usize {
        self.inner.buffered_bytes()
    }

    #[pyo3(signature = (partitions, *, start=0, batch_bytes_max=None))]
    fn add_topic(&mut self, partitions: u32, start: u32, batch_bytes_max: Option<usize>) -> PyResult<usize> {
        self.inner.add_topic(partitions, start, batch_bytes_max).map_err(refused)
    }

    fn set_sequence(&mut self, topic: usize, partition: i32, sequence: i32) -> PyResult<()> {
        self.inner.set_sequence(topic, partition, sequence).map_err(refused)
    }

    fn next_sequences(&self) -> Vec<(usize, i32, i32)> {
        self.inner.next_sequences()
    }

    #[pyo3(signature = (begin, end, *, key, value, headers, timestamps, partitions, topics, topic, now_ms))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &mut self,
        py: Python<'_>,
        begin: usize,
        end: usize,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        topics: Option<&Bound<'_, PyAny>>,
        topic: usize,
        now_ms: i64,
    ) -> PyResult<Encoded> {
        let held = |column: Option<&Bound<'_, PyAny>>| column.map(Held::of).transpose();
        let [key, value, headers] = [held(key)?, held(value)?, held(headers)?];
        let [timestamps, partitions, topics] = [held(timestamps)?, held(partitions)?, held(topics)?];
        let rows = kernel::Rows {
            key: key.as_ref().map(Held::column),
            value: value.as_ref().map(Held::column),
            headers: headers.as_ref().map(Held::column),
            timestamps: timestamps.as_ref().map(Held::column),
            partitions: partitions.as_ref().map(Held::column),
            topics: topics.as_ref().map(Held::column),
        };
        let inner = &mut self.inner;
        let done = py.detach(|| inner.append(begin..end, &rows, topic, now_ms)).map_err(refused)?;
        let row = done.row_next;
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let problem = done.problem.map(|problem| match problem {
            kernel::Problem::TooLarge(bytes) => ("too-large", row, number(bytes)),
            kernel::Problem::Partition(value) => ("partition", row, i64::from(value)),
            kernel::Problem::Topic(value) => ("topic", row, i64::from(value)),
            kernel::Problem::Timestamp(value) => ("timestamp", row, value),
            kernel::Problem::Header(place) => ("header", row, number(place)),
        });
        Ok(Encoded { row_next: row, problem })
    }

    fn close_batches(&mut self, py: Python<'_>) -> PyResult<()> {
        let inner = &mut self.inner;
        py.detach(|| inner.close_batches()).map_err(refused)
    }

    fn ready(&mut self, py: Python<'_>) -> PyResult<Vec<EncodedBatch>> {
        let owned = |batch: kernel::EncodedBatch| {
            Ok(EncodedBatch {
                topic: batch.topic,
                partition: batch.partition,
                base_sequence: batch.base_sequence,
                records: batch.records,
                data: Py::new(py, Buffer::from(Memory::Bytes(batch.data)))?,
            })
        };
        self.inner.ready().into_iter().map(owned).collect()
    }
}
