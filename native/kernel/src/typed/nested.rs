//! Columns that have columns inside them.

use crate::binary::offset_32;
use crate::error::Result;
use crate::json::Names;
use crate::typed::array::{Array, Memory};
use crate::typed::column::Column;
use crate::typed::data_type::Field;
use crate::validity::Validity;
use std::collections::HashMap;
use std::ops::Range;

/// Up to so many names are compared one by one, which is faster than to look one up.
const COMPARED_MAX: usize = 12;

/// A column for each field.
pub(crate) struct StructColumn {
    validity: Validity,
    rows: usize,
    names: Box<[Box<str>]>,
    /// Name -> its number; empty where names are compared.
    numbers: HashMap<Box<str>, usize>,
    children: Box<[Column]>,
    /// What a decoder of JSON knows of the names that come.
    pub(crate) seen: Names,
}

impl StructColumn {
    pub(crate) fn new(fields: &[Field]) -> Self {
        let names: Box<[Box<str>]> = fields.iter().map(|field| field.name.as_str().into()).collect();
        let numbers = match names.len() {
            0..=COMPARED_MAX => HashMap::new(),
            // Of fields with the same name the first one counts.
            count => names.iter().cloned().zip(0..count).rev().collect(),
        };
        let children = fields.iter().map(|field| Column::new(&field.data_type)).collect();
        StructColumn { validity: Validity::default(), rows: 0, names, numbers, children, seen: Names::default() }
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// The number of the field with this name.
    pub(crate) fn number(&self, name: &[u8]) -> Option<usize> {
        if self.numbers.is_empty() {
            return self.names.iter().position(|known| known.as_bytes() == name);
        }
        self.numbers.get(std::str::from_utf8(name).ok()?).copied()
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    /// The column of a field. While a row is written, it may have one row more than the struct.
    #[inline]
    pub(crate) fn child(&mut self, number: usize) -> Option<&mut Column> {
        self.children.get_mut(number)
    }

    /// The column of a field, to be read.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&Column> {
        self.children.get(number)
    }

    /// Whether there is such a row that is not null.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        row < self.rows && self.validity.is_valid(row)
    }

    /// Ends a row; fields that were not written are null.
    #[inline]
    pub(crate) fn push(&mut self) {
        for child in &mut self.children {
            if child.rows() == self.rows {
                child.push_null();
            }
        }
        self.push_complete();
    }

    /// Ends a row of which every field was written.
    #[inline]
    pub(crate) fn push_complete(&mut self) {
        self.validity.push_valid(self.rows);
        self.rows += 1;
    }

    /// Makes the last row, which is not null, one that was begun: its nulls were not written, and lists go on.
    #[cold]
    pub(crate) fn reopen(&mut self) {
        let row = self.rows.saturating_sub(1);
        for child in &mut self.children {
            match child {
                Column::Array(list) | Column::Map(list) => list.reopen(row),
                child if child.is_valid(row) => {}
                child => child.truncate(row),
            }
        }
        self.validity.truncate(row, self.rows);
        self.rows = row;
    }

    pub(crate) fn push_null(&mut self) {
        for child in &mut self.children {
            child.push_null();
        }
        self.validity.push_null(self.rows);
        self.rows += 1;
    }

    /// Removes every row from `rows` on, also one that was begun.
    pub(crate) fn truncate(&mut self, rows: usize) {
        for child in &mut self.children {
            child.truncate(rows);
        }
        self.validity.truncate(rows, self.rows);
        self.rows = self.rows.min(rows);
    }

    /// The bytes that each row needs, those of lists and texts left out.
    pub(crate) fn row_bytes(&self) -> usize {
        self.children.iter().map(Column::row_bytes).sum()
    }

    pub(crate) fn finish(&mut self) -> Array {
        let (validity, null_count) = self.validity.finish();
        Array {
            rows: std::mem::take(&mut self.rows),
            null_count,
            buffers: vec![validity.map(Memory::Bytes)],
            children: self.children.iter_mut().map(Column::finish).collect(),
        }
    }
}

/// A list for each row: the elements of an array, or the keys and values of a map as structs.
pub(crate) struct ListColumn {
    validity: Validity,
    offsets: Vec<i32>,
    items: Column,
    item_bytes: usize,
}

impl ListColumn {
    pub(crate) fn new(items: Column) -> Self {
        let item_bytes = items.row_bytes();
        ListColumn { validity: Validity::default(), offsets: vec![0], items, item_bytes }
    }

    /// The bytes that each item needs, those of lists and texts in it left out.
    #[inline]
    pub(crate) fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The column of all items. While a row is written, its items are at the end.
    #[inline]
    pub(crate) fn items(&mut self) -> &mut Column {
        &mut self.items
    }

    /// The column of all items, to be read.
    #[inline]
    pub(crate) fn items_read(&self) -> &Column {
        &self.items
    }

    /// Which items a row has; `None` for null.
    #[inline]
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        let place = |at: usize| self.offsets.get(at).and_then(|&place| usize::try_from(place).ok());
        Some(place(row)?..place(row + 1)?).filter(|_| self.validity.is_valid(row))
    }

    /// The first of the items that no finished row has.
    pub(crate) fn begin(&self) -> usize {
        self.offsets.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default()
    }

    /// Ends a row: its items are those that were written since the last one ended.
    #[inline]
    pub(crate) fn push(&mut self) -> Result<()> {
        let end = offset_32(self.items.rows())?;
        self.validity.push_valid(self.rows());
        self.offsets.push(end);
        Ok(())
    }

    /// Makes row number `row`, the last one, one that was begun.
    fn reopen(&mut self, row: usize) {
        self.validity.truncate(row, self.rows());
        self.offsets.truncate(row.saturating_add(1));
    }

    /// The items of these rows.
    pub(crate) fn items_of(&self, rows: Range<usize>) -> Range<usize> {
        let begin = |row: usize| self.offsets.get(row).and_then(|&at| usize::try_from(at).ok()).unwrap_or_default();
        begin(rows.start)..begin(rows.end)
    }

    pub(crate) fn push_null(&mut self) {
        self.validity.push_null(self.rows());
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_valid(row)
    }

    /// Removes every row from `rows` on, also one that was begun.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows, self.rows());
        self.offsets.truncate(rows.saturating_add(1));
        let items = self.begin();
        self.items.truncate(items);
    }

    pub(crate) fn finish(&mut self) -> Array {
        let (validity, null_count) = self.validity.finish();
        let mut next = Vec::with_capacity(self.offsets.len());
        next.push(0);
        let offsets = std::mem::replace(&mut self.offsets, next);
        Array {
            rows: offsets.len().saturating_sub(1),
            null_count,
            buffers: vec![validity.map(Memory::Bytes), Some(Memory::Ints(offsets))],
            children: vec![self.items.finish()],
        }
    }
}
