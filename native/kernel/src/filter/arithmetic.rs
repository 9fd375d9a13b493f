//! Arithmetic as in ANSI SQL: what does not fit is an error.

use crate::error::{Error, Result};
use crate::filter::evaluate::Row;
use crate::filter::expression::{Expression, Operator};
use crate::filter::value::{failed, Value};
use crate::text::decimal;
use crate::typed::DataType;

/// `left` and `right` are of type `of`, or null.
pub(crate) fn arithmetic<'a>(
    operator: Operator,
    of: &DataType,
    left: &'a Expression,
    right: &'a Expression,
    row: &Row<'a>,
) -> Result<Value<'a>> {
    let divides = matches!(operator, Operator::Divide | Operator::IntegerDivide | Operator::Remainder);
    // As in Spark, a divisor is evaluated first, and the other side of null not at all.
    let (first, second) = if divides { (right, left) } else { (left, right) };
    let first = first.evaluate(row)?;
    if first.is_null() {
        return Ok(Value::Null);
    }
    let second = second.evaluate(row)?;
    let (left, right) = if divides { (&second, &first) } else { (&first, &second) };
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Long(a), Value::Long(b)) => Value::Long(integers(operator, of, *a, *b)?),
        (Value::Double(a), Value::Double(b)) => {
            let value = doubles(operator, *a, *b)?;
            Value::Double(if *of == DataType::Float { f64::from(value as f32) } else { value })
        }
        (Value::Decimal(a), Value::Decimal(b)) => Value::Decimal(decimals(operator, of, *a, *b)?),
        (other, _) => return Err(other.unfit("two numbers of one type")),
    })
}

/// The least and the most integer of a type.
pub(crate) fn bounds(of: &DataType) -> (i64, i64) {
    match of {
        DataType::Byte => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DataType::Short => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

#[cold]
fn by_zero() -> Error {
    failed("a division by zero")
}

fn integers(operator: Operator, of: &DataType, a: i64, b: i64) -> Result<i64> {
    let divides = matches!(operator, Operator::Divide | Operator::IntegerDivide | Operator::Remainder);
    if divides && b == 0 {
        return Err(by_zero());
    }
    let made = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::IntegerDivide => a.checked_div(b),
        Operator::Remainder => Some(a.checked_rem(b).unwrap_or_default()),
    };
    let (least, most) = bounds(of);
    match made {
        Some(value) if value >= least && value <= most => Ok(value),
        _ => Err(failed(format!("{a} {} {b} is no {of}", symbol(operator)))),
    }
}

fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::IntegerDivide => "DIV",
        Operator::Remainder => "%",
    }
}

fn doubles(operator: Operator, a: f64, b: f64) -> Result<f64> {
    match operator {
        Operator::Add => Ok(a + b),
        Operator::Subtract => Ok(a - b),
        Operator::Multiply => Ok(a * b),
        _ if b == 0.0 => Err(by_zero()),
        Operator::Remainder => Ok(a % b),
        Operator::Divide | Operator::IntegerDivide => Ok(a / b),
    }
}

fn decimals(operator: Operator, of: &DataType, a: i128, b: i128) -> Result<i128> {
    let made = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        _ => None,
    };
    let fitting = match (made, of) {
        (Some(value), DataType::Decimal { precision, .. }) => decimal::fitting(value, *precision),
        _ => None,
    };
    fitting.ok_or_else(|| failed(format!("the result of {} is no {of}", symbol(operator))))
}
