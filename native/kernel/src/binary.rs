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
        let end = offset_32(self.data.len() + row.map_or(0, <[u8]>::len))?;
        match row {
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                self.validity.push_valid(self.rows());
            }
            None => self.validity.push_null(self.rows()),
        }
        self.offsets.push(end);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.validity.push_null(self.rows());
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
    }

    /// The bytes in `row`; `None` for null.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let place = |at: usize| self.offsets.get(at).and_then(|&place| usize::try_from(place).ok());
        self.data.get(place(row)?..place(row + 1)?).filter(|_| self.validity.is_valid(row))
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_valid(row)
    }

    /// Removes every row from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows, self.rows());
        self.offsets.truncate(rows.saturating_add(1));
        let bytes = self.offsets.last().and_then(|&end| usize::try_from(end).ok());
        self.data.truncate(bytes.unwrap_or_default());
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self) -> Binary {
        let next = BinaryColumn::with_capacity(self.rows(), self.data.len());
        let mut done = std::mem::replace(self, next);
        let (validity, null_count) = done.validity.finish();
        Binary { validity, offsets: done.offsets, data: done.data, null_count }
    }
}
