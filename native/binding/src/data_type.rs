//! Types and decodings from Python's tuples.

use crate::{avro, protobuf};
use evensplit_kernel as kernel;
use kernel::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A type, such as `("long",)`, `("decimal", 10, 2)`, `("struct", (("id", ("long",)), …))`, `("array", element)` or
/// `("map", key, value)`.
fn data_type(given: &Bound<'_, PyAny>, depth_left: usize) -> PyResult<DataType> {
    if depth_left == 0 {
        return Err(PyValueError::new_err(format!("types are nested in more than {} levels", kernel::DEPTH_MAX)));
    }
    let parts = given.cast::<PyTuple>()?;
    let inner = |at: usize| data_type(&parts.get_item(at)?, depth_left - 1);
    let kind: String = parts.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "boolean" => DataType::Boolean,
        "byte" => DataType::Byte,
        "short" => DataType::Short,
        "int" => DataType::Int,
        "long" => DataType::Long,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "string" => DataType::String,
        "binary" => DataType::Binary,
        "date" => DataType::Date,
        "timestamp" => DataType::Timestamp,
        "timestamp_ntz" => DataType::TimestampNtz,
        "decimal" => {
            let (precision, scale) = (parts.get_item(1)?.extract::<u8>()?, parts.get_item(2)?.extract::<u8>()?);
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(PyValueError::new_err(format!(
                    "decimal({precision}, {scale}), expected 1 to 38 digits and at most as many after the point"
                )));
            }
            DataType::Decimal { precision, scale }
        }
        "array" => DataType::Array(Box::new(inner(1)?)),
        "map" => DataType::Map(Box::new(inner(1)?), Box::new(inner(2)?)),
        "struct" => {
            let fields = parts.get_item(1)?;
            let mut made = Vec::new();
            for field in fields.cast::<PyTuple>()? {
                let (name, of): (String, Bound<'_, PyAny>) = field.extract()?;
                made.push(kernel::Field { name, data_type: data_type(&of, depth_left - 1)? });
            }
            DataType::Struct(made)
        }
        other => return Err(PyValueError::new_err(format!("there is no type {other:?}"))),
    })
}

/// A type.
pub(crate) fn data_type_of(given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    data_type(given, kernel::DEPTH_MAX)
}

/// A format for a column of this type: `("json",)`, `("protobuf", program)` or `("avro", program)`.
fn format(given: &Bound<'_, PyAny>, of: &DataType) -> PyResult<kernel::Format> {
    let parts = given.cast::<PyTuple>()?;
    let kind: String = parts.get_item(0)?.extract()?;
    match kind.as_str() {
        "json" => Ok(kernel::Format::Json),
        "protobuf" => Ok(kernel::Format::Protobuf(protobuf::program(&parts.get_item(1)?, of)?)),
        "avro" => Ok(kernel::Format::Avro(avro::program(&parts.get_item(1)?, of)?)),
        other => Err(PyValueError::new_err(format!("there is no format {other:?}, expected json, protobuf or avro"))),
    }
}

/// What becomes of all that one schema has written, in a column of this type: a format, or `("refused", why)`.
pub(crate) fn written(given: &Bound<'_, PyAny>, of: &DataType) -> PyResult<kernel::Written> {
    if let Ok((kind, why)) = given.extract::<(String, String)>() {
        if kind == "refused" {
            return Ok(kernel::Written::Refused(why));
        }
    }
    format(given, of).map(kernel::Written::In)
}

/// A decoding: `(format, type, framing)`; the format is None where it depends on the writer's schema.
pub(crate) fn decoding(given: &Bound<'_, PyAny>) -> PyResult<kernel::Decoding> {
    type Given<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, String);
    let (written_in, of, framing): Given<'_> = given.extract()?;
    let framing = match framing.as_str() {
        "none" => kernel::Framing::None,
        "id" => kernel::Framing::Id,
        "id and indexes" => kernel::Framing::IdAndIndexes,
        other => return Err(PyValueError::new_err(format!("there is no framing {other:?}"))),
    };
    let data_type = data_type_of(&of)?;
    let format = written_in.map(|given| format(&given, &data_type)).transpose()?;
    if format.is_none() && framing == kernel::Framing::None {
        return Err(PyValueError::new_err("without a format, a frame has to name the writer's schema"));
    }
    Ok(kernel::Decoding { format, framing, data_type })
}
