//! The column of timestamps.

use crate::validity::Validity;

/// Timestamps in microseconds since 1970 (UTC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// The validity bitmap, least significant bit first; `None` without nulls.
    pub validity: Option<Vec<u8>>,
    /// One for each row, 0 for a null.
    pub micros: Vec<i64>,
    /// How many are null.
    pub null_count: usize,
}

#[derive(Default)]
pub(crate) struct TimeColumn {
    validity: Validity,
    micros: Vec<i64>,
}

impl TimeColumn {
    #[inline(always)]
    pub(crate) fn push(&mut self, micros: Option<i64>) {
        match micros {
            Some(_) => self.validity.push_valid(self.micros.len()),
            None => self.validity.push_null(self.micros.len()),
        }
        self.micros.push(micros.unwrap_or_default());
    }

    /// Removes every row from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows, self.micros.len());
        self.micros.truncate(rows);
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self) -> Times {
        let next = Vec::with_capacity(self.micros.len());
        let (validity, null_count) = self.validity.finish();
        Times { validity, micros: std::mem::replace(&mut self.micros, next), null_count }
    }
}
