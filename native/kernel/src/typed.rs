//! Columns of any type: a decoder of values writes into them, record by record.

mod array;
mod column;
mod data_type;
mod fixed;
mod nested;

pub use array::{Array, Memory};
pub(crate) use column::Column;
pub use data_type::{DataType, Field, DEPTH_MAX};
pub(crate) use nested::{ListColumn, StructColumn};
