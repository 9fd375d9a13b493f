//! Columns of Arrow's type `binary` (or `string`): a validity bitmap, 32-bit offsets, data.

use crate::error::{Error, Kind, Result};
use crate::validity::Validity;

/// A finished column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The validity bitmap, least significant bit first; `None` without nulls.
    pub validity: Option<Vec<u8>>,
    /// Where each row begins in `data`, and where the last one ends: one more than there are rows.
    pub offsets: Vec<i32>,
    /// The rows, one after the other.
    pub data: Vec<u8>,
    /// How many rows are null.
    pub null_count: usize,
}

/// A column that rows are added to.
pub(crate) struct BinaryColumn {
    validity: Validity,
    offsets: Vec<i32>,
    data: Vec<u8>,
}

/// A state of a column, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    rows: usize,
    bytes: usize,
    nulls: usize,
}

impl Default for BinaryColumn {
    fn default() -> Self {
        BinaryColumn::with_capacity(0, 0)
    }
}

/// A position in a column's data as Arrow stores it.
pub(crate) fn offset_32(bytes: usize) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| Error::new(Kind::TooLarge, format!("a column of {bytes} bytes, {} fit", i32::MAX)))
}

impl BinaryColumn {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows.saturating_add(1));
        offsets.push(0);
        BinaryColumn { validity: Validity::default(), offsets, data: Vec::with_capacity(bytes) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The bytes of all rows, offsets included.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        4 * self.rows() + self.data.len()
    }

    /// The bytes of all rows, offsets left out.
    #[inline]
    pub(crate) fn data_bytes(&self) -> usize {
        self.data.len()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, row: Option<&[u8]>) -> Result<()> {
        match row {
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                self.validity.push_valid(self.rows());
            }
            None => self.validity.push_null(self.rows()),
        }
        self.offsets.push(offset_32(self.data.len())?);
        Ok(())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { rows: self.rows(), bytes: self.data.len(), nulls: self.validity.nulls() }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.offsets.truncate(mark.rows.saturating_add(1));
        self.data.truncate(mark.bytes);
        self.validity.roll_back(mark.rows, mark.nulls);
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self) -> Binary {
        let next = BinaryColumn::with_capacity(self.rows(), self.data.len());
        let mut done = std::mem::replace(self, next);
        let (validity, null_count) = done.validity.finish();
        Binary { validity, offsets: done.offsets, data: done.data, null_count }
    }
}
