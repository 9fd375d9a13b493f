//! Conditions from Python's tuples.

use crate::data_type::{data_type_of, decoding};
use evensplit_kernel as kernel;
use kernel::{Comparison, Expression, Function, Operator, Part, Source};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A condition: `(expression, decoding of the key, decoding of the value, whether headers are needed)`; a decoding may
/// be `None`.
pub(crate) fn condition_of(given: &Bound<'_, PyAny>) -> PyResult<kernel::Condition> {
    type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, bool);
    let (tree, key, value, headers): Given<'_> = given.extract()?;
    Ok(kernel::Condition {
        expression: expression(&tree, kernel::EXPRESSION_DEPTH_MAX)?,
        key: key.as_ref().map(decoding).transpose()?,
        value: value.as_ref().map(decoding).transpose()?,
        headers,
    })
}

fn unknown<T>(what: &str, given: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("there is no {what} {given:?}")))
}

/// An expression, such as `("compare", ">=", left, right)`.
fn expression(given: &Bound<'_, PyAny>, depth_left: usize) -> PyResult<Expression> {
    if depth_left == 0 {
        let levels = kernel::EXPRESSION_DEPTH_MAX;
        return Err(PyValueError::new_err(format!("expressions are nested in more than {levels} levels")));
    }
    let parts = given.cast::<PyTuple>()?;
    let text = |at: usize| parts.get_item(at)?.extract::<String>();
    let inner = |at: usize| expression(&parts.get_item(at)?, depth_left - 1).map(Box::new);
    let all = |at: usize| -> PyResult<Vec<Expression>> {
        let list = parts.get_item(at)?;
        list.cast::<PyTuple>()?.iter().map(|one| expression(&one, depth_left - 1)).collect()
    };
    let kind = text(0)?;
    Ok(match kind.as_str() {
        "null" => Expression::Null,
        "boolean" => Expression::Boolean(parts.get_item(1)?.extract()?),
        "long" => Expression::Long(parts.get_item(1)?.extract()?),
        "double" => Expression::Double(parts.get_item(1)?.extract()?),
        "decimal" => Expression::Decimal(parts.get_item(1)?.extract()?),
        "text" => Expression::Text(parts.get_item(1)?.extract()?),
        "column" => Expression::Column(source(&text(1)?)?),
        "field" => Expression::Field(inner(1)?, parts.get_item(2)?.extract()?),
        "item" => Expression::Item(inner(1)?, inner(2)?),
        "element_at" => Expression::ElementAt(inner(1)?, inner(2)?),
        "entry" => Expression::Entry(inner(1)?, inner(2)?),
        "not" => Expression::Not(inner(1)?),
        "and" => Expression::And(all(1)?),
        "or" => Expression::Or(all(1)?),
        "is_null" => Expression::IsNull(inner(1)?),
        "is_nan" => Expression::IsNan(inner(1)?),
        "compare" => Expression::Compare(comparison(&text(1)?)?, inner(2)?, inner(3)?),
        "in" => Expression::In(inner(1)?, all(2)?),
        "case" => {
            let (conditions, values) = (all(1)?, all(2)?);
            Expression::Case(conditions.into_iter().zip(values).collect(), inner(3)?)
        }
        "coalesce" => Expression::Coalesce(all(1)?),
        "arithmetic" => {
            Expression::Arithmetic(operator(&text(1)?)?, data_type_of(&parts.get_item(2)?)?, inner(3)?, inner(4)?)
        }
        "cast" => Expression::cast(
            *inner(1)?,
            data_type_of(&parts.get_item(2)?)?,
            data_type_of(&parts.get_item(3)?)?,
            parts.get_item(4)?.extract()?,
        ),
        "like" => Expression::Like(inner(1)?, pattern(&parts.get_item(2)?)?),
        "call" => Expression::Call(function(&text(1)?)?, all(2)?),
        other => return unknown("expression", other),
    })
}

fn source(name: &str) -> PyResult<Source> {
    Ok(match name {
        "key_bytes" => Source::KeyBytes,
        "value_bytes" => Source::ValueBytes,
        "key" => Source::Key,
        "value" => Source::Value,
        "headers" => Source::Headers,
        "topic" => Source::Topic,
        "cluster" => Source::Cluster,
        "partition" => Source::Partition,
        "offset" => Source::Offset,
        "timestamp" => Source::Timestamp,
        "timestampType" => Source::TimestampType,
        other => return unknown("column", other),
    })
}

fn comparison(name: &str) -> PyResult<Comparison> {
    Ok(match name {
        "=" => Comparison::Equal,
        "<=>" => Comparison::Same,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Greater,
        ">=" => Comparison::AtLeast,
        other => return unknown("comparison", other),
    })
}

fn operator(name: &str) -> PyResult<Operator> {
    Ok(match name {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "DIV" => Operator::IntegerDivide,
        "%" => Operator::Remainder,
        other => return unknown("operator", other),
    })
}

fn function(name: &str) -> PyResult<Function> {
    Ok(match name {
        "length" => Function::Length,
        "byte_length" => Function::ByteLength,
        "lower" => Function::Lower,
        "upper" => Function::Upper,
        "trim" => Function::Trim,
        "substring" => Function::Substring,
        "startswith" => Function::StartsWith,
        "endswith" => Function::EndsWith,
        "contains" => Function::Contains,
        "concat" => Function::Concat,
        "size" => Function::Size,
        "array_contains" => Function::ArrayContains,
        other => return unknown("function", other),
    })
}

/// The parts of a pattern: `"any"`, `"one"`, or `("char", c)`.
fn pattern(given: &Bound<'_, PyAny>) -> PyResult<kernel::Pattern> {
    let parts = given.cast::<PyTuple>()?.iter().map(|part| {
        if let Ok((_, char)) = part.extract::<(String, char)>() {
            return Ok(Part::Char(char));
        }
        match part.extract::<String>()?.as_str() {
            "any" => Ok(Part::Any),
            "one" => Ok(Part::One),
            other => unknown("part of a pattern", other),
        }
    });
    Ok(kernel::Pattern(parts.collect::<PyResult<Vec<_>>>()?))
}
