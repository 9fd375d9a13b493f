//! A column of any type, while it is written.

use crate::binary::BinaryColumn;
use crate::typed::array::{Array, Memory};
use crate::typed::data_type::{DataType, Field};
use crate::typed::fixed::{BitColumn, Fixed};
use crate::typed::nested::{ListColumn, StructColumn};

/// One of the columns by its type. Whoever decodes a value looks here for what it has to become.
pub(crate) enum Column {
    Boolean(BitColumn),
    Byte(Fixed<i8>),
    Short(Fixed<i16>),
    Int(Fixed<i32>),
    Long(Fixed<i64>),
    Float(Fixed<f32>),
    Double(Fixed<f64>),
    Decimal {
        digits: Fixed<i128>,
        precision: u8,
        scale: u8,
    },
    String(BinaryColumn),
    Binary(BinaryColumn),
    Date(Fixed<i32>),
    Timestamp(Fixed<i64>),
    TimestampNtz(Fixed<i64>),
    Struct(StructColumn),
    Array(Box<ListColumn>),
    /// Its items are structs of a key and a value.
    Map(Box<ListColumn>),
}

/// The same for every kind of column.
macro_rules! each {
    ($column:expr, $one:ident => $do:expr) => {
        match $column {
            Column::Boolean($one) => $do,
            Column::Byte($one) => $do,
            Column::Short($one) => $do,
            Column::Int($one) => $do,
            Column::Long($one) => $do,
            Column::Float($one) => $do,
            Column::Double($one) => $do,
            Column::Decimal { digits: $one, .. } => $do,
            Column::String($one) => $do,
            Column::Binary($one) => $do,
            Column::Date($one) => $do,
            Column::Timestamp($one) => $do,
            Column::TimestampNtz($one) => $do,
            Column::Struct($one) => $do,
            Column::Array($one) => $do,
            Column::Map($one) => $do,
        }
    };
}

impl Column {
    pub(crate) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Column::Boolean(BitColumn::default()),
            DataType::Byte => Column::Byte(Fixed::default()),
            DataType::Short => Column::Short(Fixed::default()),
            DataType::Int => Column::Int(Fixed::default()),
            DataType::Long => Column::Long(Fixed::default()),
            DataType::Float => Column::Float(Fixed::default()),
            DataType::Double => Column::Double(Fixed::default()),
            DataType::Decimal { precision, scale } => {
                Column::Decimal { digits: Fixed::default(), precision: *precision, scale: *scale }
            }
            DataType::String => Column::String(BinaryColumn::default()),
            DataType::Binary => Column::Binary(BinaryColumn::default()),
            DataType::Date => Column::Date(Fixed::default()),
            DataType::Timestamp => Column::Timestamp(Fixed::default()),
            DataType::TimestampNtz => Column::TimestampNtz(Fixed::default()),
            DataType::Struct(fields) => Column::Struct(StructColumn::new(fields)),
            DataType::Array(element) => Column::Array(Box::new(ListColumn::new(Column::new(element)))),
            DataType::Map(key, value) => {
                let field = |name: &str, of: &DataType| Field { name: name.to_owned(), data_type: of.clone() };
                let items = StructColumn::new(&[field("key", key), field("value", value)]);
                Column::Map(Box::new(ListColumn::new(Column::Struct(items))))
            }
        }
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        each!(self, one => one.rows())
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        each!(self, one => one.push_null());
    }

    /// Whether `row`, one of those so far, is no null.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        each!(self, one => one.is_valid(row))
    }

    /// Removes every row from `rows` on, also one that was begun.
    pub(crate) fn truncate(&mut self, rows: usize) {
        each!(self, one => one.truncate(rows));
    }

    /// The bytes that each row needs, those of lists and texts left out.
    pub(crate) fn row_bytes(&self) -> usize {
        match self {
            Column::Boolean(_) | Column::Byte(_) => 1,
            Column::Short(_) => 2,
            Column::Int(_) | Column::Float(_) | Column::Date(_) => 4,
            Column::String(_) | Column::Binary(_) | Column::Array(_) | Column::Map(_) => 4,
            Column::Long(_) | Column::Double(_) | Column::Timestamp(_) | Column::TimestampNtz(_) => 8,
            Column::Decimal { .. } => 16,
            Column::Struct(fields) => fields.row_bytes(),
        }
    }

    /// Hands the column out and begins a new one with room for as much again.
    pub(crate) fn finish(&mut self) -> Array {
        match self {
            Column::Boolean(column) => column.finish(),
            Column::Byte(column) => {
                column.finish(|values| Memory::Bytes(values.into_iter().map(|v| v as u8).collect()))
            }
            Column::Short(column) => column.finish(Memory::Shorts),
            Column::Int(column) | Column::Date(column) => column.finish(Memory::Ints),
            Column::Long(column) | Column::Timestamp(column) | Column::TimestampNtz(column) => {
                column.finish(Memory::Longs)
            }
            Column::Float(column) => column.finish(Memory::Floats),
            Column::Double(column) => column.finish(Memory::Doubles),
            Column::Decimal { digits, .. } => digits.finish(Memory::Decimals),
            Column::String(column) | Column::Binary(column) => column.finish().into(),
            Column::Struct(column) => column.finish(),
            Column::Array(column) | Column::Map(column) => column.finish(),
        }
    }
}
