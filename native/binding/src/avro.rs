//! Programs for Avro from Python's tuples.

use evensplit_kernel as kernel;
use kernel::avro::{Field, Program, Skip, Step, Symbol};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// On each level of a type there may be a union, one of its members, and a default.
const DEPTH_MAX: usize = 4 * kernel::DEPTH_MAX;

/// A program: a step, and the steps that pass over the fields of each record.
pub(crate) fn program(given: &Bound<'_, PyAny>, of: &kernel::DataType) -> PyResult<Program> {
    let (first, records): (Bound<'_, PyTuple>, Bound<'_, PyTuple>) = given.extract()?;
    let mut skips = Vec::new();
    for fields in &records {
        skips.push(each(&fields, |one| skip(one, DEPTH_MAX))?);
    }
    Program::new(step(&first, DEPTH_MAX)?, skips, of).map_err(PyValueError::new_err)
}

/// What `make` makes of each of a tuple's items, which are tuples.
fn each<T>(given: &Bound<'_, PyAny>, make: impl Fn(&Bound<'_, PyTuple>) -> PyResult<T>) -> PyResult<Vec<T>> {
    given.cast::<PyTuple>()?.iter().map(|one| make(one.cast::<PyTuple>()?)).collect()
}

fn deeper(depth_left: usize) -> PyResult<usize> {
    let left = depth_left.checked_sub(1);
    left.ok_or_else(|| PyValueError::new_err(format!("steps are nested in more than {DEPTH_MAX} levels")))
}

/// Such as `("int", times)`, `("enum", ((symbol, text or None), …))` or `("record", ((column or None, step), …))`.
fn step(parts: &Bound<'_, PyTuple>, depth_left: usize) -> PyResult<Step> {
    let left = deeper(depth_left)?;
    let inner = |at: usize| step(parts.get_item(at)?.cast()?, left).map(Box::new);
    let name: String = parts.get_item(0)?.extract()?;
    Ok(match name.as_str() {
        "null" => Step::Null,
        "boolean" => Step::Boolean,
        "int" => Step::Int(parts.get_item(1)?.extract()?),
        "long" => Step::Long(parts.get_item(1)?.extract()?),
        "float" => Step::Float,
        "double" => Step::Double,
        "bytes" => Step::Bytes,
        "fixed" => Step::Fixed(parts.get_item(1)?.extract()?),
        "enum" => Step::Enum(each(&parts.get_item(1)?, symbol)?.into()),
        "record" => Step::Record(each(&parts.get_item(1)?, |one| field(one, left))?.into()),
        "array" => Step::Array(inner(1)?),
        "map" => Step::Map(inner(1)?),
        "union" => Step::Union(each(&parts.get_item(1)?, |one| step(one, left))?.into()),
        "member" => Step::Member(Box::new(field(&parts.get_slice(1, 3), left)?)),
        "default" => Step::Default(parts.get_item(1)?.extract::<Vec<u8>>()?.into(), inner(2)?),
        "refused" => Step::Refused(parts.get_item(1)?.extract::<String>()?.into()),
        other => return Err(PyValueError::new_err(format!("there is no step {other:?}"))),
    })
}

fn symbol(given: &Bound<'_, PyTuple>) -> PyResult<Symbol> {
    let (name, text): (String, Option<String>) = given.extract()?;
    Ok(Symbol { name: name.into(), text: text.map(Into::into) })
}

/// `(column, step)`, or without a column a step that passes over it.
fn field(given: &Bound<'_, PyTuple>, depth_left: usize) -> PyResult<Field> {
    let (column, parts): (Option<usize>, Bound<'_, PyTuple>) = given.extract()?;
    Ok(match column {
        Some(at) => Field::Column(at, step(&parts, depth_left)?),
        None => Field::Skip(skip(&parts, depth_left)?),
    })
}

/// Such as `("fixed", length)`, `("record", number)`, `("array", step)` or `("union", step, …)`.
fn skip(parts: &Bound<'_, PyTuple>, depth_left: usize) -> PyResult<Skip> {
    let left = deeper(depth_left)?;
    let inner = |at: usize| skip(parts.get_item(at)?.cast()?, left).map(Box::new);
    let name: String = parts.get_item(0)?.extract()?;
    Ok(match name.as_str() {
        "fixed" => Skip::Fixed(parts.get_item(1)?.extract()?),
        "int" => Skip::Int,
        "long" => Skip::Long,
        "bytes" => Skip::Bytes,
        "record" => Skip::Record(parts.get_item(1)?.extract()?),
        "array" => Skip::Array(inner(1)?),
        "map" => Skip::Map(inner(1)?),
        "union" => Skip::Union(each(parts.get_slice(1, parts.len()).as_any(), |one| skip(one, left))?.into()),
        other => return Err(PyValueError::new_err(format!("there is no step {other:?} that passes over a value"))),
    })
}
