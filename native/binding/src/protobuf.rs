//! Programs for messages of Protocol Buffers from Python's tuples.

use evensplit_kernel as kernel;
use kernel::protobuf::{Enum, Field, Kind, Label, Message, Program};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A program: the fields of a message, each `(number, column, label, kind, oneof)`.
pub(crate) fn program(given: &Bound<'_, PyAny>, of: &kernel::DataType) -> PyResult<Program> {
    Program::new(message(given, kernel::DEPTH_MAX)?, of).map_err(PyValueError::new_err)
}

fn message(given: &Bound<'_, PyAny>, depth_left: usize) -> PyResult<Message> {
    if depth_left == 0 {
        return Err(PyValueError::new_err(format!("messages are nested in more than {} levels", kernel::DEPTH_MAX)));
    }
    let mut fields = Vec::new();
    for field in given.cast::<PyTuple>()? {
        type Parts<'py> = (u32, Option<usize>, Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<usize>);
        let (number, column, said, of, oneof): Parts<'_> = field.extract()?;
        fields.push(Field::new(number, column, label(&said)?, kind(&of, depth_left)?, oneof));
    }
    Ok(Message::new(fields))
}

/// `"optional"`, `"implicit"`, `"required"`, `"repeated"`, or the bytes of a default.
fn label(given: &Bound<'_, PyAny>) -> PyResult<Label> {
    if let Ok(default) = given.extract::<Vec<u8>>() {
        return Ok(Label::Default(default));
    }
    Ok(match given.extract::<String>()?.as_str() {
        "optional" => Label::Optional,
        "implicit" => Label::Implicit,
        "required" => Label::Required,
        "repeated" => Label::Repeated,
        other => return Err(PyValueError::new_err(format!("there is no label {other:?}"))),
    })
}

/// Such as `("int32",)`, `("string", strict)`, `("enum", name, ((0, "NONE"), …), closed)` or `("message", fields)`.
fn kind(parts: &Bound<'_, PyTuple>, depth_left: usize) -> PyResult<Kind> {
    let inner = || message(&parts.get_item(1)?, depth_left - 1);
    let name: String = parts.get_item(0)?.extract()?;
    Ok(match name.as_str() {
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "sint32" => Kind::Sint32,
        "sint64" => Kind::Sint64,
        "fixed32" => Kind::Fixed32,
        "fixed64" => Kind::Fixed64,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bool" => Kind::Bool,
        "string" => Kind::String { strict: parts.get_item(1)?.extract()? },
        "bytes" => Kind::Bytes,
        "enum" => {
            let mut values = Vec::new();
            for value in parts.get_item(2)?.cast::<PyTuple>()? {
                values.push(value.extract()?);
            }
            Kind::Enum(Enum::new(&parts.get_item(1)?.extract::<String>()?, values, parts.get_item(3)?.extract()?))
        }
        "message" => Kind::Message(inner()?),
        "group" => Kind::Group(inner()?),
        "timestamp" => Kind::Timestamp,
        other => return Err(PyValueError::new_err(format!("there is no kind of field {other:?}"))),
    })
}
