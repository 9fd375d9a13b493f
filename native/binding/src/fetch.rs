//! Fetch responses for Python.

use crate::buffer::with_bytes;
use crate::error::raised;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// One partition in a Fetch response.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct FetchedPartition {
    topic: Py<PyString>,
    partition: i32,
    error_code: i16,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    aborted: Vec<(i64, i64)>,
    preferred_read_replica: i32,
    diverging: Option<(i32, i64)>,
    records_begin: usize,
    records_end: usize,
}

#[pymethods]
impl FetchedPartition {
    fn __repr__(&self) -> String {
        format!(
            "FetchedPartition(topic={:?}, partition={}, error_code={}, high_watermark={}, last_stable_offset={}, \
             log_start_offset={}, aborted={:?}, preferred_read_replica={}, diverging={}, records_begin={}, records_end={})",
            self.topic.to_string(),
            self.partition,
            self.error_code,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            self.aborted,
            self.preferred_read_replica,
            self.diverging.map_or("None".to_owned(), |found| format!("{found:?}")),
            self.records_begin,
            self.records_end
        )
    }
}

/// A Fetch response without its records.
#[pyclass(frozen, get_all, module = "evensplit._kernel")]
pub struct FetchedResponse {
    throttle_ms: i32,
    error_code: i16,
    session_id: i32,
    partitions: Py<PyList>,
}

#[pymethods]
impl FetchedResponse {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "FetchedResponse(throttle_ms={}, error_code={}, session_id={}, partitions=<{}>)",
            self.throttle_ms,
            self.error_code,
            self.session_id,
            self.partitions.bind(py).len()
        )
    }
}

/// Reads the envelope of a Fetch response in `frame[begin:end]`.
#[pyfunction]
#[pyo3(signature = (frame, begin, end, version))]
pub fn parse_fetch_response(
    py: Python<'_>,
    frame: &Bound<'_, PyAny>,
    begin: isize,
    end: isize,
    version: i16,
) -> PyResult<FetchedResponse> {
    let response = with_bytes(py, frame, begin, end, |bytes| evensplit_kernel::parse_fetch_response(bytes, version))?
        .map_err(raised)?;
    // `begin` was checked to be a position in the frame.
    let begin = begin.unsigned_abs();
    let topics: Vec<Py<PyString>> = response.topics.iter().map(|name| PyString::new(py, name).unbind()).collect();
    let partitions = PyList::empty(py);
    for one in response.partitions {
        let Some(topic) = topics.get(one.topic) else { continue };
        partitions.append(Py::new(
            py,
            FetchedPartition {
                topic: topic.clone_ref(py),
                partition: one.partition,
                error_code: one.error_code,
                high_watermark: one.high_watermark,
                last_stable_offset: one.last_stable_offset,
                log_start_offset: one.log_start_offset,
                aborted: one.aborted,
                preferred_read_replica: one.preferred_read_replica,
                diverging: one.diverging,
                records_begin: begin.saturating_add(one.records.start),
                records_end: begin.saturating_add(one.records.end),
            },
        )?)?;
    }
    Ok(FetchedResponse {
        throttle_ms: response.throttle_ms,
        error_code: response.error_code,
        session_id: response.session_id,
        partitions: partitions.unbind(),
    })
}

/// Where a record batch begins and ends, its base offset, the offset after its last one, and its leader epoch.
type EpochChange = (usize, usize, i64, i64, i32);

/// The first record batch in `frame[begin:end]` whose leader epoch is not `epoch`.
#[pyfunction]
#[pyo3(signature = (frame, begin, end, epoch))]
pub fn next_leader_epoch(
    py: Python<'_>,
    frame: &Bound<'_, PyAny>,
    begin: isize,
    end: isize,
    epoch: i32,
) -> PyResult<Option<EpochChange>> {
    let found = with_bytes(py, frame, begin, end, |bytes| evensplit_kernel::next_leader_epoch(bytes, epoch))?;
    // `begin` was checked to be a position in the frame.
    let begin = begin.unsigned_abs();
    Ok(found.map(|one| {
        let places = (begin.saturating_add(one.begin), begin.saturating_add(one.end));
        (places.0, places.1, one.base_offset, one.offset_next, one.epoch)
    }))
}
