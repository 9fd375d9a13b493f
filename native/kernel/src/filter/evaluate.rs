//! Evaluates expressions on one row: in the order in which Spark does, and no further than it has to.

use crate::batch::TimestampType;
use crate::error::Result;
use crate::filter::arithmetic::arithmetic;
use crate::filter::cast::cast;
use crate::filter::expression::{Comparison, Expression, Source};
use crate::filter::function::call;
use crate::filter::text::matches;
use crate::filter::value::{failed, items, read, Value};
use crate::record::Record;
use crate::runs::Labels;
use crate::typed::Column;
use std::borrow::Cow;
use std::cmp::Ordering;

/// What is known of a record.
pub(crate) struct Facts<'a> {
    pub(crate) record: &'a Record<'a>,
    pub(crate) labels: &'a Labels,
    pub(crate) offset: i64,
    /// The timestamp, or why there is none.
    pub(crate) micros: &'a Result<Option<i64>>,
    pub(crate) timestamp_type: TimestampType,
}

/// A row, with what was decoded of it.
pub(crate) struct Row<'a> {
    pub(crate) facts: &'a Facts<'a>,
    /// The columns that the key and the value are in; `None` is null.
    pub(crate) key: Option<&'a Column>,
    pub(crate) value: Option<&'a Column>,
    /// Which row of them.
    pub(crate) at: usize,
    /// A column of one row.
    pub(crate) headers: Option<&'a Column>,
}

fn text(bytes: Option<&[u8]>) -> Value<'_> {
    bytes.map_or(Value::Null, |bytes| Value::Text(Cow::Borrowed(bytes)))
}

impl<'a> Row<'a> {
    #[inline]
    fn column(&self, source: Source) -> Result<Value<'a>> {
        let facts = self.facts;
        let cell = |column: Option<&'a Column>, at| column.map_or(Value::Null, |column| read(column, at));
        Ok(match source {
            Source::KeyBytes => text(facts.record.key),
            Source::ValueBytes => text(facts.record.value),
            Source::Key => cell(self.key, self.at),
            Source::Value => cell(self.value, self.at),
            Source::Headers => cell(self.headers, 0),
            Source::Topic => text(Some(facts.labels.topic().as_bytes())),
            Source::Cluster => text(Some(facts.labels.cluster().as_bytes())),
            Source::Partition => Value::Long(i64::from(facts.labels.partition())),
            Source::Offset => Value::Long(facts.offset),
            Source::Timestamp => facts.micros.clone()?.map_or(Value::Null, Value::Long),
            Source::TimestampType => Value::Long(facts.timestamp_type as i64),
        })
    }
}

impl Expression {
    /// Its value of `row`. What most conditions consist of is here, and small.
    #[inline]
    pub(crate) fn evaluate<'a>(&'a self, row: &Row<'a>) -> Result<Value<'a>> {
        match self {
            Expression::Long(value) => Ok(Value::Long(*value)),
            Expression::Double(value) => Ok(Value::Double(*value)),
            Expression::Text(value) => Ok(Value::Text(Cow::Borrowed(value))),
            Expression::Column(source) => row.column(*source),
            Expression::Field(of, number) => field(of, *number, row),
            other => other.operation(row),
        }
    }

    #[inline(never)]
    fn operation<'a>(&'a self, row: &Row<'a>) -> Result<Value<'a>> {
        match self {
            Expression::Compare(how, left, right) => compare(*how, left, right, row),
            Expression::And(parts) => decided(parts, row, false),
            Expression::Or(parts) => decided(parts, row, true),
            Expression::Not(of) => Ok(of.evaluate(row)?.boolean()?.map_or(Value::Null, |value| Value::Boolean(!value))),
            Expression::IsNull(of) => Ok(Value::Boolean(of.evaluate(row)?.is_null())),
            other => other.rare(row),
        }
    }

    #[inline(never)]
    fn rare<'a>(&'a self, row: &Row<'a>) -> Result<Value<'a>> {
        Ok(match self {
            Expression::Boolean(value) => Value::Boolean(*value),
            Expression::Decimal(value) => Value::Decimal(*value),
            Expression::IsNan(of) => match of.evaluate(row)? {
                Value::Double(value) => Value::Boolean(value.is_nan()),
                Value::Null => Value::Boolean(false),
                other => return Err(other.unfit("floating point")),
            },
            Expression::In(of, list) => contained(of, list, row)?,
            Expression::Case(branches, last) => {
                for (condition, value) in branches {
                    if condition.evaluate(row)?.boolean()? == Some(true) {
                        return value.evaluate(row);
                    }
                }
                last.evaluate(row)?
            }
            Expression::Coalesce(parts) => {
                for part in parts {
                    let value = part.evaluate(row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Value::Null
            }
            Expression::Arithmetic(operator, of, left, right) => arithmetic(*operator, of, left, right, row)?,
            Expression::Cast(of, from, to, null_if_none) => {
                let value = of.evaluate(row)?;
                match cast(&value, from, to) {
                    Ok(made) => made,
                    Err(_) if *null_if_none => Value::Null,
                    Err(error) => return Err(error),
                }
            }
            Expression::Like(of, pattern) => match of.evaluate(row)? {
                Value::Null => Value::Null,
                value => Value::Boolean(matches(pattern, value.text()?)),
            },
            Expression::Item(of, index) => item(of, index, row, false)?,
            Expression::ElementAt(of, index) => item(of, index, row, true)?,
            Expression::Entry(of, key) => entry(of, key, row)?,
            Expression::Call(function, arguments) => call(*function, arguments, row)?,
            _ => Value::Null,
        })
    }
}

#[inline]
fn field<'a>(of: &'a Expression, number: usize, row: &Row<'a>) -> Result<Value<'a>> {
    let of = match of {
        Expression::Column(source) => row.column(*source)?,
        Expression::Field(outer, inner) => nested(outer, *inner, row)?,
        other => other.operation(row)?,
    };
    match of {
        Value::Nested(Column::Struct(fields), at) => Ok(fields.get(number).map_or(Value::Null, |one| read(one, at))),
        Value::Null => Ok(Value::Null),
        other => Err(other.unfit("a struct")),
    }
}

/// A struct in a struct.
#[inline(never)]
fn nested<'a>(of: &'a Expression, number: usize, row: &Row<'a>) -> Result<Value<'a>> {
    field(of, number, row)
}

fn compare<'a>(how: Comparison, left: &'a Expression, right: &'a Expression, row: &Row<'a>) -> Result<Value<'a>> {
    let left = left.evaluate(row)?;
    if how == Comparison::Same {
        let right = right.evaluate(row)?;
        return Ok(Value::Boolean(match (left.is_null(), right.is_null()) {
            (false, false) => left.compare(&right)? == Ordering::Equal,
            (one, other) => one && other,
        }));
    }
    if left.is_null() {
        return Ok(Value::Null);
    }
    let right = right.evaluate(row)?;
    if right.is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::Boolean(how.holds(left.compare(&right)?)))
}

/// The value of parts of which the first that is `decisive` decides.
fn decided<'a>(parts: &'a [Expression], row: &Row<'a>, decisive: bool) -> Result<Value<'a>> {
    let mut unknown = false;
    for part in parts {
        match part.evaluate(row)?.boolean()? {
            Some(value) if value == decisive => return Ok(Value::Boolean(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Boolean(!decisive) })
}

#[inline(never)]
fn contained<'a>(of: &'a Expression, list: &'a [Expression], row: &Row<'a>) -> Result<Value<'a>> {
    let value = of.evaluate(row)?;
    if value.is_null() {
        return Ok(Value::Null);
    }
    let mut unknown = false;
    for one in list {
        let one = one.evaluate(row)?;
        if one.is_null() {
            unknown = true;
        } else if value.compare(&one)? == Ordering::Equal {
            return Ok(Value::Boolean(true));
        }
    }
    Ok(if unknown { Value::Null } else { Value::Boolean(false) })
}

/// An element of an array; `from_one`: indices begin at 1, and at -1 from the end.
#[inline(never)]
fn item<'a>(of: &'a Expression, index: &'a Expression, row: &Row<'a>, from_one: bool) -> Result<Value<'a>> {
    let array = of.evaluate(row)?;
    if array.is_null() {
        return Ok(Value::Null);
    }
    let index = index.evaluate(row)?;
    if index.is_null() {
        return Ok(Value::Null);
    }
    let (list, range) = items(&array)?;
    let index = index.long()?;
    let length = i64::try_from(range.len()).unwrap_or(i64::MAX);
    let place = match from_one {
        false => index,
        true if index == 0 => return Err(failed("element_at has the index 0, expected 1 or more, or -1 or less")),
        true if index > 0 => index - 1,
        true => length.saturating_add(index),
    };
    if place < 0 || place >= length {
        return Err(failed(format!("an array has {length} elements, and the index is {index}")));
    }
    let place = usize::try_from(place).unwrap_or_default();
    Ok(read(list.items_read(), range.start + place))
}

#[inline(never)]
fn entry<'a>(of: &'a Expression, key: &'a Expression, row: &Row<'a>) -> Result<Value<'a>> {
    let map = of.evaluate(row)?;
    if map.is_null() {
        return Ok(Value::Null);
    }
    let key = key.evaluate(row)?;
    if key.is_null() {
        return Ok(Value::Null);
    }
    let (list, range) = items(&map)?;
    let Column::Struct(entries) = list.items_read() else { return Err(map.unfit("a map")) };
    let (Some(keys), Some(values)) = (entries.get(0), entries.get(1)) else { return Err(map.unfit("a map")) };
    for at in range {
        let found = read(keys, at);
        if !found.is_null() && found.compare(&key)? == Ordering::Equal {
            return Ok(read(values, at));
        }
    }
    Ok(Value::Null)
}
