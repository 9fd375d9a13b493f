//! What an expression is of one row.

use crate::error::{Error, Kind, Result};
use crate::typed::{Column, ListColumn};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value, or null.
#[derive(Clone)]
pub(crate) enum Value<'a> {
    Null,
    Boolean(bool),
    Long(i64),
    Double(f64),
    Decimal(i128),
    Text(Cow<'a, [u8]>),
    /// The row of a column with columns inside it; not null.
    Nested(&'a Column, usize),
}

/// A condition that cannot be evaluated.
#[cold]
pub(crate) fn failed(detail: impl Into<String>) -> Error {
    Error::new(Kind::Condition, detail)
}

/// The row of a column.
pub(crate) fn read(column: &Column, row: usize) -> Value<'_> {
    let found = match column {
        Column::Boolean(bits) => bits.get(row).map(Value::Boolean),
        Column::Byte(numbers) => numbers.get(row).map(|number| Value::Long(i64::from(number))),
        Column::Short(numbers) => numbers.get(row).map(|number| Value::Long(i64::from(number))),
        Column::Int(numbers) | Column::Date(numbers) => numbers.get(row).map(|number| Value::Long(i64::from(number))),
        Column::Long(numbers) | Column::Timestamp(numbers) | Column::TimestampNtz(numbers) => {
            numbers.get(row).map(Value::Long)
        }
        Column::Float(numbers) => numbers.get(row).map(|number| Value::Double(f64::from(number))),
        Column::Double(numbers) => numbers.get(row).map(Value::Double),
        Column::Decimal { digits, .. } => digits.get(row).map(Value::Decimal),
        Column::String(texts) | Column::Binary(texts) => texts.get(row).map(|text| Value::Text(Cow::Borrowed(text))),
        Column::Struct(fields) => fields.is_valid(row).then_some(Value::Nested(column, row)),
        Column::Array(list) | Column::Map(list) => list.range(row).map(|_| Value::Nested(column, row)),
    };
    found.unwrap_or(Value::Null)
}

/// The list that an array or a map is, and which of its items.
pub(crate) fn items<'a>(value: &Value<'a>) -> Result<(&'a ListColumn, std::ops::Range<usize>)> {
    if let Value::Nested(Column::Array(list) | Column::Map(list), row) = value {
        if let Some(range) = list.range(*row) {
            return Ok((list, range));
        }
    }
    Err(value.unfit("an array or a map"))
}

impl Value<'_> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// It is of another type than the expression needs.
    #[cold]
    pub(crate) fn unfit(&self, expected: &str) -> Error {
        let found = match self {
            Value::Null => "null",
            Value::Boolean(_) => "a boolean",
            Value::Long(_) => "an integer",
            Value::Double(_) => "floating point",
            Value::Decimal(_) => "a decimal",
            Value::Text(_) => "text",
            Value::Nested(..) => "a struct, an array or a map",
        };
        failed(format!("expected {expected}, found {found}"))
    }

    /// A boolean; `None` is null.
    #[inline]
    pub(crate) fn boolean(&self) -> Result<Option<bool>> {
        match self {
            Value::Boolean(value) => Ok(Some(*value)),
            Value::Null => Ok(None),
            other => Err(other.unfit("a boolean")),
        }
    }

    pub(crate) fn long(&self) -> Result<i64> {
        match self {
            Value::Long(value) => Ok(*value),
            other => Err(other.unfit("an integer")),
        }
    }

    pub(crate) fn text(&self) -> Result<&[u8]> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(other.unfit("text")),
        }
    }

    /// How it compares with another value of its type. Neither is null.
    #[inline]
    pub(crate) fn compare(&self, other: &Value<'_>) -> Result<Ordering> {
        Ok(match (self, other) {
            (Value::Long(a), Value::Long(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Double(a), Value::Double(b)) => doubles(*a, *b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
            _ => return Err(other.unfit("two values of one type to compare")),
        })
    }
}

/// NaN is equal to itself and more than every number; zero has no sign.
#[inline]
pub(crate) fn doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
