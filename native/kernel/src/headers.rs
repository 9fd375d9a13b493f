//! The column of record headers.

use crate::binary::{offset_32, Binary, BinaryColumn};
use crate::error::Result;
use crate::header_key;
use crate::record::Headers;
use crate::validity::Validity;

/// Record headers as Arrow's `list<struct<key: string, value: binary>>`. A record without headers is a null list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// The validity bitmap of the lists, least significant bit first; `None` without nulls.
    pub validity: Option<Vec<u8>>,
    /// Where each row's list begins among the items, and where the last one ends.
    pub offsets: Vec<i32>,
    /// The items' keys, never null.
    pub keys: Binary,
    /// The items' values.
    pub values: Binary,
    /// How many lists are null.
    pub null_count: usize,
}

pub(crate) struct HeaderColumnBuilder {
    validity: Validity,
    offsets: Vec<i32>,
    keys: BinaryColumn,
    values: BinaryColumn,
}

impl HeaderColumnBuilder {
    pub(crate) fn new() -> Self {
        HeaderColumnBuilder {
            validity: Validity::default(),
            offsets: vec![0],
            keys: BinaryColumn::default(),
            values: BinaryColumn::default(),
        }
    }

    fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The bytes that one row needs, offsets included.
    pub(crate) fn row_bytes(headers: &Headers<'_>) -> usize {
        let items = headers.iter().map(|(key, value)| 8 + header_key::decode(key).len() + value.map_or(0, <[u8]>::len));
        4 + items.sum::<usize>()
    }

    /// The bytes of all rows, offsets included.
    pub(crate) fn bytes(&self) -> usize {
        4 * self.rows() + self.keys.bytes() + self.values.bytes()
    }

    pub(crate) fn push(&mut self, headers: &Headers<'_>) -> Result<()> {
        for (key, value) in headers.iter() {
            self.keys.push(Some(header_key::decode(key).as_bytes()))?;
            self.values.push(value)?;
        }
        let end = offset_32(self.keys.rows())?;
        match headers.count() {
            0 => self.validity.push_null(self.rows()),
            _ => self.validity.push_valid(self.rows()),
        }
        self.offsets.push(end);
        Ok(())
    }

    /// Removes every row from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows, self.rows());
        self.offsets.truncate(rows.saturating_add(1));
        let items = self.offsets.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default();
        self.keys.truncate(items);
        self.values.truncate(items);
    }

    pub(crate) fn finish(&mut self) -> HeaderColumn {
        let (validity, null_count) = self.validity.finish();
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        HeaderColumn {
            validity,
            offsets: std::mem::replace(&mut self.offsets, offsets),
            keys: self.keys.finish(),
            values: self.values.finish(),
            null_count,
        }
    }
}
