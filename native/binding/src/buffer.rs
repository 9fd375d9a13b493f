//! Python's memory as Rust slices, and Rust's vectors as Python buffers.

use evensplit_kernel::Memory;
use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};

/// Calls `work` with `frame[begin:end]` while other Python threads run.
///
/// The buffer stays exported while `work` runs, so its memory is neither moved nor freed.
pub(crate) fn with_bytes<T: Send>(
    py: Python<'_>,
    frame: &Bound<'_, PyAny>,
    begin: isize,
    end: isize,
    work: impl FnOnce(&[u8]) -> T + Send,
) -> PyResult<T> {
    let buffer = PyBuffer::<u8>::get(frame)?;
    let Some(memory) = buffer.as_slice_ptr() else {
        return Err(PyBufferError::new_err("the frame's bytes do not lie one behind the other"));
    };
    // SAFETY: the pointer and the length come from an exported, contiguous buffer of bytes, and `buffer` outlives the
    // slice. The caller does not write to it meanwhile, as the module's documentation demands.
    let bytes: &[u8] = unsafe { memory.as_ref() };
    let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(begin, end)| bytes.get(begin..end)).ok_or_else(|| {
        PyValueError::new_err(format!(
            "frame[{begin}:{end}] is not a part of a frame of {} bytes; expected 0 <= begin <= end <= len(frame)",
            bytes.len()
        ))
    })?;
    let result = py.detach(|| work(part));
    drop(buffer);
    Ok(result)
}

/// Another object's memory, whatever its elements are. It stays exported, so it is neither moved nor freed.
pub(crate) struct Exported {
    buffer: PyUntypedBuffer,
}

impl Exported {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        match buffer.is_c_contiguous() {
            true => Ok(Exported { buffer }),
            false => Err(PyBufferError::new_err("the bytes of a buffer do not lie one behind the other")),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let length = self.buffer.len_bytes();
        let pointer = self.buffer.buf_ptr().cast::<u8>();
        if length == 0 || pointer.is_null() {
            return &[];
        }
        // SAFETY: the pointer and the length come from an exported, contiguous buffer, which `self` keeps exported, and
        // any byte is a valid `u8`. The caller does not write to it meanwhile, as the module's documentation demands.
        unsafe { std::slice::from_raw_parts(pointer, length) }
    }
}

/// A read-only buffer that owns its memory.
#[pyclass(frozen, module = "evensplit._kernel")]
pub struct Buffer {
    memory: Memory,
}

impl From<Memory> for Buffer {
    fn from(memory: Memory) -> Self {
        Buffer { memory }
    }
}

impl Buffer {
    fn bytes(&self) -> (*const c_void, usize) {
        match &self.memory {
            Memory::Bytes(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Ints(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Longs(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Shorts(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Floats(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Doubles(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
            Memory::Decimals(memory) => (memory.as_ptr().cast(), size_of_val(memory.as_slice())),
        }
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.bytes().1
    }

    fn __repr__(&self) -> String {
        format!("<evensplit._kernel.Buffer of {} bytes>", self.bytes().1)
    }

    /// # Safety
    /// `view` is null or a `Py_buffer` to be filled, as CPython's protocol has it.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (pointer, length) = slf.get().bytes();
        let length = ffi::Py_ssize_t::try_from(length)?;
        // SAFETY: `view` is CPython's to fill, or null, which is refused. The memory belongs to this object, is never
        // changed or moved (the class is frozen), and the view holds a reference to the object. It is read-only (1), so
        // the pointer is not written through.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer.cast_mut(), length, 1, flags) };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
