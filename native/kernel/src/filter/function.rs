//! Functions of texts, arrays and maps.

use crate::error::Result;
use crate::filter::evaluate::Row;
use crate::filter::expression::{Expression, Function};
use crate::filter::text;
use crate::filter::value::{items, read, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Null if an argument is.
pub(crate) fn call<'a>(function: Function, arguments: &'a [Expression], row: &Row<'a>) -> Result<Value<'a>> {
    let mut given = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = argument.evaluate(row)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        given.push(value);
    }
    match given.as_slice() {
        [one] => of_one(function, one),
        [one, other] => of_two(function, one, other),
        [one, from, length] if function == Function::Substring => {
            let part = text::substring(one.text()?, from.long()?, length.long()?);
            Ok(Value::Text(Cow::Owned(part.to_vec())))
        }
        [one, ..] => Err(one.unfit("fewer arguments")),
        [] => Err(Value::Null.unfit("an argument")),
    }
}

fn of_one<'a>(function: Function, one: &Value<'a>) -> Result<Value<'a>> {
    let count = |count: usize| Value::Long(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(match function {
        Function::Length => count(text::length(one.text()?)),
        Function::ByteLength => count(one.text()?.len()),
        Function::Lower => Value::Text(Cow::Owned(text::in_case(one.text()?, false))),
        Function::Upper => Value::Text(Cow::Owned(text::in_case(one.text()?, true))),
        Function::Trim => Value::Text(Cow::Owned(text::trim(one.text()?).to_vec())),
        Function::Size => count(items(one)?.1.len()),
        _ => return Err(one.unfit("more arguments")),
    })
}

fn of_two<'a>(function: Function, one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    Ok(match function {
        Function::StartsWith => Value::Boolean(one.text()?.starts_with(other.text()?)),
        Function::EndsWith => Value::Boolean(one.text()?.ends_with(other.text()?)),
        Function::Contains => Value::Boolean(text::contains(one.text()?, other.text()?)),
        Function::Concat => Value::Text(Cow::Owned([one.text()?, other.text()?].concat())),
        Function::ArrayContains => {
            let (list, range) = items(one)?;
            let mut unknown = false;
            for at in range {
                let found = read(list.items_read(), at);
                if found.is_null() {
                    unknown = true;
                } else if found.compare(other)? == Ordering::Equal {
                    return Ok(Value::Boolean(true));
                }
            }
            if unknown {
                Value::Null
            } else {
                Value::Boolean(false)
            }
        }
        _ => return Err(one.unfit("another number of arguments")),
    })
}
