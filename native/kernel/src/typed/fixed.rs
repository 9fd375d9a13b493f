//! Columns whose rows all take the same room.

use crate::typed::array::{Array, Memory};
use crate::validity::Validity;

/// Numbers.
pub(crate) struct Fixed<T> {
    validity: Validity,
    values: Vec<T>,
}

impl<T> Default for Fixed<T> {
    fn default() -> Self {
        Fixed { validity: Validity::default(), values: Vec::new() }
    }
}

impl<T: Copy + Default> Fixed<T> {
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        self.validity.push_valid(self.values.len());
        self.values.push(value);
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.validity.push_null(self.values.len());
        self.values.push(T::default());
    }

    /// The number in `row`; `None` for null.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        self.values.get(row).copied().filter(|_| self.validity.is_valid(row))
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_valid(row)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows, self.values.len());
        self.values.truncate(rows);
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self, memory: fn(Vec<T>) -> Memory) -> Array {
        let (validity, null_count) = self.validity.finish();
        let rows = self.values.len();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(rows));
        let buffers = vec![validity.map(Memory::Bytes), Some(memory(values))];
        Array { rows, null_count, buffers, children: Vec::new() }
    }
}

/// True or false, one bit each.
#[derive(Default)]
pub(crate) struct BitColumn {
    validity: Validity,
    bits: Vec<u8>,
    rows: usize,
}

impl BitColumn {
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(crate) fn push(&mut self, value: bool) {
        self.validity.push_valid(self.rows);
        self.push_bit(value);
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.validity.push_null(self.rows);
        self.push_bit(false);
    }

    /// The flag in `row`; `None` for null.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<bool> {
        let byte = self.bits.get(row / 8).filter(|_| self.validity.is_valid(row))?;
        Some(byte >> (row % 8) & 1 == 1)
    }

    #[inline]
    fn push_bit(&mut self, value: bool) {
        let bit = u8::from(value) << (self.rows % 8);
        match self.bits.last_mut() {
            Some(last) if self.rows % 8 != 0 => *last |= bit,
            _ => self.bits.push(bit),
        }
        self.rows += 1;
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_valid(row)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows >= self.rows {
            return;
        }
        self.validity.truncate(rows, self.rows);
        self.bits.truncate(rows.div_ceil(8));
        if let (Some(last), 1..) = (self.bits.last_mut(), rows % 8) {
            *last &= (1_u8 << (rows % 8)) - 1;
        }
        self.rows = rows;
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self) -> Array {
        let (validity, null_count) = self.validity.finish();
        let bits = std::mem::replace(&mut self.bits, Vec::with_capacity(self.rows.div_ceil(8)));
        let rows = std::mem::take(&mut self.rows);
        Array {
            rows,
            null_count,
            buffers: vec![validity.map(Memory::Bytes), Some(Memory::Bytes(bits))],
            children: Vec::new(),
        }
    }
}
