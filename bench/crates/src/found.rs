//! What a decoder has found, which has to be the same for all.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use std::error::Error;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How many rows a decoder of columns puts into a batch.
pub const BATCH_ROWS: usize = 10_000;

/// The fields that are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// All 8.
    All,
    /// `id` and `amount`.
    Two,
}

/// Sums over all records, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub rows: usize,
    pub ids: i64,
    pub amounts: f64,
    /// How many notes are null; 0 where they are not asked for.
    pub nulls: usize,
}

impl Found {
    pub fn add(&mut self, id: i64, amount: f64, is_null: bool) {
        self.rows += 1;
        self.ids += id;
        self.amounts += amount;
        self.nulls += usize::from(is_null);
    }

    pub fn add_columns(&mut self, ids: &[i64], amounts: &[f64], nulls: usize) {
        self.rows += ids.len();
        self.ids += ids.iter().sum::<i64>();
        self.amounts = amounts.iter().fold(self.amounts, |sum, amount| sum + amount);
        self.nulls += nulls;
    }

    pub fn add_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"));
        let nulls = column("note").map_or(0, |notes| notes.null_count());
        let (ids, amounts) =
            (column("id")?.as_primitive::<Int64Type>(), column("amount")?.as_primitive::<Float64Type>());
        self.add_columns(ids.values(), amounts.values(), nulls);
        Ok(())
    }
}

/// One decoder in one case.
pub struct Decoder<'v> {
    pub name: &'static str,
    /// What it makes of a record.
    pub into: &'static str,
    /// Decodes all records once.
    pub run: Box<dyn FnMut() -> Result<Found> + 'v>,
}

impl<'v> Decoder<'v> {
    pub fn new(name: &'static str, into: &'static str, run: impl FnMut() -> Result<Found> + 'v) -> Self {
        Decoder { name, into, run: Box::new(run) }
    }

    /// One that decodes value by value.
    pub fn of_each(
        name: &'static str,
        into: &'static str,
        values: &'v [Vec<u8>],
        mut one: impl FnMut(&'v [u8], &mut Found) -> Result<()> + 'v,
    ) -> Self {
        Decoder::new(name, into, move || {
            let mut found = Found::default();
            values.iter().try_for_each(|value| one(value, &mut found))?;
            Ok(found)
        })
    }
}
