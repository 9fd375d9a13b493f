//! A finished column of any type.

use crate::binary::Binary;
use crate::headers::HeaderColumn;
use crate::times::Times;

/// The memory of one buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Memory {
    /// Bytes, bits (least significant first), or integers of 8 bits.
    Bytes(Vec<u8>),
    /// Integers of 16 bits.
    Shorts(Vec<i16>),
    /// Integers of 32 bits.
    Ints(Vec<i32>),
    /// Integers of 64 bits.
    Longs(Vec<i64>),
    /// Floating point, 32 bits.
    Floats(Vec<f32>),
    /// Floating point, 64 bits.
    Doubles(Vec<f64>),
    /// Decimals, by their digits without the point.
    Decimals(Vec<i128>),
}

/// A column as Arrow lays it out: the buffers of its type in Arrow's order, and the columns inside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The number of rows.
    pub rows: usize,
    /// How many of them are null.
    pub null_count: usize,
    /// The validity bitmap first; `None` where there is no null.
    pub buffers: Vec<Option<Memory>>,
    /// Of a struct its fields, of an array its elements, of a map the struct of keys and values.
    pub children: Vec<Array>,
}

impl From<Binary> for Array {
    fn from(column: Binary) -> Self {
        Array {
            rows: column.offsets.len().saturating_sub(1),
            null_count: column.null_count,
            buffers: vec![
                column.validity.map(Memory::Bytes),
                Some(Memory::Ints(column.offsets)),
                Some(Memory::Bytes(column.data)),
            ],
            children: Vec::new(),
        }
    }
}

impl From<Times> for Array {
    fn from(column: Times) -> Self {
        let rows = column.micros.len();
        let buffers = vec![column.validity.map(Memory::Bytes), Some(Memory::Longs(column.micros))];
        Array { rows, null_count: column.null_count, buffers, children: Vec::new() }
    }
}

impl From<Memory> for Array {
    /// A column of numbers without a null.
    fn from(numbers: Memory) -> Self {
        let rows = match &numbers {
            Memory::Bytes(numbers) => numbers.len(),
            Memory::Shorts(numbers) => numbers.len(),
            Memory::Ints(numbers) => numbers.len(),
            Memory::Longs(numbers) => numbers.len(),
            Memory::Floats(numbers) => numbers.len(),
            Memory::Doubles(numbers) => numbers.len(),
            Memory::Decimals(numbers) => numbers.len(),
        };
        Array { rows, null_count: 0, buffers: vec![None, Some(numbers)], children: Vec::new() }
    }
}

impl From<HeaderColumn> for Array {
    fn from(column: HeaderColumn) -> Self {
        let (keys, values) = (Array::from(column.keys), Array::from(column.values));
        let items = Array { rows: keys.rows, null_count: 0, buffers: vec![None], children: vec![keys, values] };
        Array {
            rows: column.offsets.len().saturating_sub(1),
            null_count: column.null_count,
            buffers: vec![column.validity.map(Memory::Bytes), Some(Memory::Ints(column.offsets))],
            children: vec![items],
        }
    }
}
