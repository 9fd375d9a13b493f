//! The types that columns can have: those of Spark that formats of values are decoded to.

use std::fmt;

/// How deep types may be nested: a decoder calls itself for each level.
pub const DEPTH_MAX: usize = 64;

/// The type of a column. Every column can hold nulls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// True or false.
    Boolean,
    /// An integer of 8 bits.
    Byte,
    /// An integer of 16 bits.
    Short,
    /// An integer of 32 bits.
    Int,
    /// An integer of 64 bits.
    Long,
    /// IEEE 754, 32 bits.
    Float,
    /// IEEE 754, 64 bits.
    Double,
    /// `precision` digits, 1 to 38, `scale` of them after the point.
    Decimal {
        /// The number of digits.
        precision: u8,
        /// How many of them are after the point, 0 to `precision`.
        scale: u8,
    },
    /// Text in UTF-8.
    String,
    /// Bytes.
    Binary,
    /// Days since 1970.
    Date,
    /// Microseconds since 1970 in UTC.
    Timestamp,
    /// A time of no time zone, in microseconds since 1970.
    TimestampNtz,
    /// A value for each of its fields.
    Struct(Vec<Field>),
    /// Elements of one type.
    Array(Box<DataType>),
    /// Keys, never null, with a value each.
    Map(Box<DataType>, Box<DataType>),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
}

impl fmt::Display for DataType {
    /// As Spark writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            DataType::Boolean => "boolean",
            DataType::Byte => "tinyint",
            DataType::Short => "smallint",
            DataType::Int => "int",
            DataType::Long => "bigint",
            DataType::Float => "float",
            DataType::Double => "double",
            DataType::String => "string",
            DataType::Binary => "binary",
            DataType::Date => "date",
            DataType::Timestamp => "timestamp",
            DataType::TimestampNtz => "timestamp_ntz",
            DataType::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            DataType::Struct(_) => "struct",
            DataType::Array(_) => "array",
            DataType::Map(..) => "map",
        };
        f.write_str(name)
    }
}
