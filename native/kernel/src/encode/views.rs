//! Columns read row by row, with every bound checked.

use super::column::{Column, Refused};
use std::ops::Range;

/// Which rows are no nulls.
#[derive(Clone, Copy)]
struct Validity<'a> {
    bits: Option<&'a [u8]>,
    offset: usize,
}

impl<'a> Validity<'a> {
    fn of(column: &Column<'a>, what: &str) -> Result<Self, Refused> {
        let bits = column.buffers.first().copied().flatten();
        let end = end(column, what)?;
        match bits {
            Some(found) if found.len() < end.div_ceil(8) => Err(short(what, "validity", end.div_ceil(8), found.len())),
            _ => Ok(Validity { bits, offset: column.offset }),
        }
    }

    #[inline(always)]
    fn at(&self, row: usize) -> bool {
        let Some(bits) = self.bits else { return true };
        let row = self.offset.wrapping_add(row);
        bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }
}

/// How many rows the buffers of a column have at least.
fn end(column: &Column<'_>, what: &str) -> Result<usize, Refused> {
    column.offset.checked_add(column.rows).filter(|end| *end <= usize::MAX / 16).ok_or_else(|| {
        Refused(format!("{what}: {} rows from row {} on are more than memory has", column.rows, column.offset))
    })
}

#[cold]
fn short(what: &str, which: &str, expected: usize, found: usize) -> Refused {
    Refused(format!("{what}: the buffer of {which} has {found} bytes, expected {expected} or more"))
}

fn buffer<'a>(column: &Column<'a>, number: usize) -> &'a [u8] {
    column.buffers.get(number).copied().flatten().unwrap_or_default()
}

/// Numbers of `N` bytes.
pub(super) struct Numbers<'a, const N: usize> {
    validity: Validity<'a>,
    bytes: &'a [u8],
}

impl<'a, const N: usize> Numbers<'a, N> {
    pub(super) fn of(column: &Column<'a>, what: &str) -> Result<Self, Refused> {
        let (validity, all) = (Validity::of(column, what)?, buffer(column, 1));
        let (from, to) = (column.offset * N, end(column, what)? * N);
        let bytes = all.get(from..to).ok_or_else(|| short(what, "numbers", to, all.len()))?;
        Ok(Numbers { validity, bytes })
    }

    /// The little-endian bytes of a row; `None` for a null.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) -> Option<[u8; N]> {
        if !self.validity.at(row) {
            return None;
        }
        self.bytes.get(row * N..).and_then(|rest| rest.first_chunk::<N>()).copied()
    }
}

/// Where the parts of a column begin and end.
struct Offsets<'a> {
    bytes: &'a [u8],
    wide: bool,
}

impl<'a> Offsets<'a> {
    fn of(column: &Column<'a>, what: &str) -> Result<Self, Refused> {
        let (all, width) = (buffer(column, 1), if column.wide { 8 } else { 4 });
        let (from, to) = (column.offset * width, (end(column, what)? + 1) * width);
        if column.rows == 0 {
            return Ok(Offsets { bytes: &[], wide: column.wide });
        }
        let bytes = all.get(from..to).ok_or_else(|| short(what, "offsets", to, all.len()))?;
        Ok(Offsets { bytes, wide: column.wide })
    }

    #[inline(always)]
    fn at(&self, row: usize) -> Option<Range<usize>> {
        if self.wide {
            let pair = self.bytes.get(row * 8..)?.first_chunk::<16>()?;
            let (begin, end) = pair.split_first_chunk::<8>()?;
            let begin = usize::try_from(i64::from_le_bytes(*begin)).ok()?;
            return Some(begin..usize::try_from(i64::from_le_bytes(*end.first_chunk::<8>()?)).ok()?);
        }
        let pair = u64::from_le_bytes(*self.bytes.get(row * 4..)?.first_chunk::<8>()?);
        Some(usize::try_from(pair as i32).ok()?..usize::try_from((pair >> 32) as i32).ok()?)
    }
}

/// Bytes or texts.
pub(super) struct Bytes<'a> {
    what: &'static str,
    validity: Validity<'a>,
    offsets: Offsets<'a>,
    data: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn of(column: &Column<'a>, what: &'static str) -> Result<Self, Refused> {
        let validity = Validity::of(column, what)?;
        Ok(Bytes { what, validity, offsets: Offsets::of(column, what)?, data: buffer(column, 2) })
    }

    /// A row; `None` for a null.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) -> Result<Option<&'a [u8]>, Refused> {
        if !self.validity.at(row) {
            return Ok(None);
        }
        match self.offsets.at(row).and_then(|range| self.data.get(range)) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(self.outside(row)),
        }
    }

    #[cold]
    fn outside(&self, row: usize) -> Refused {
        Refused(format!(
            "{}: the offsets of row {row} are not ascending, or beyond the {} bytes of data",
            self.what,
            self.data.len()
        ))
    }
}

/// Lists of headers.
pub(super) struct Headers<'a> {
    validity: Validity<'a>,
    offsets: Offsets<'a>,
    items: usize,
    item_validity: Validity<'a>,
    keys: Bytes<'a>,
    values: Bytes<'a>,
}

impl<'a> Headers<'a> {
    pub(super) fn of(column: &Column<'a>) -> Result<Self, Refused> {
        let [items] = column.children.as_slice() else {
            return Err(Refused(format!("headers: {} columns in the list, expected 1", column.children.len())));
        };
        let [keys, values] = items.children.as_slice() else {
            let found = items.children.len();
            return Err(Refused(format!("headers: {found} columns in the struct, expected a key and a value")));
        };
        if keys.rows < items.rows || values.rows < items.rows {
            return Err(Refused(format!(
                "headers: {} structs have {} keys and {} values",
                items.rows, keys.rows, values.rows
            )));
        }
        Ok(Headers {
            validity: Validity::of(column, "headers")?,
            offsets: Offsets::of(column, "headers")?,
            items: items.rows,
            item_validity: Validity::of(items, "headers")?,
            keys: Bytes::of(keys, "keys of headers")?,
            values: Bytes::of(values, "values of headers")?,
        })
    }

    /// Which headers a row has; none for a null.
    #[inline]
    pub(super) fn of_row(&self, row: usize) -> Result<Range<usize>, Refused> {
        if !self.validity.at(row) {
            return Ok(0..0);
        }
        match self.offsets.at(row) {
            Some(range) if range.start <= range.end && range.end <= self.items => Ok(range),
            _ => Err(Refused(format!(
                "headers: the offsets of row {row} are not ascending, or beyond the {} headers",
                self.items
            ))),
        }
    }

    /// A header's key, `None` if it has none, and its value.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub(super) fn at(&self, header: usize) -> Result<(Option<&'a [u8]>, Option<&'a [u8]>), Refused> {
        if !self.item_validity.at(header) {
            return Ok((None, None));
        }
        Ok((self.keys.at(header)?, self.values.at(header)?))
    }
}
