//! Arrow's arrays as they come, of which nothing is trusted.

use std::fmt;

/// Input or settings that cannot be used; says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// An Arrow array.
#[derive(Clone, Debug, Default)]
pub struct Column<'a> {
    /// The number of rows.
    pub rows: usize,
    /// How many rows of the buffers are before the first one.
    pub offset: usize,
    /// Whether offsets have 64 bits instead of 32.
    pub wide: bool,
    /// Those of its type in Arrow's order, the validity bitmap (`None` without nulls) first.
    pub buffers: Vec<Option<&'a [u8]>>,
    /// Of a list its elements; of a struct its fields.
    pub children: Vec<Column<'a>>,
}

/// The columns of rows that become records. `None`: no row has it.
#[derive(Clone, Debug, Default)]
pub struct Rows<'a> {
    /// Binary or string.
    pub key: Option<Column<'a>>,
    /// Binary or string.
    pub value: Option<Column<'a>>,
    /// A list of structs of a key (string) and a value (binary).
    pub headers: Option<Column<'a>>,
    /// Milliseconds since 1970, 64 bits; now, where it is null.
    pub timestamps: Option<Column<'a>>,
    /// 32 bits; chosen by the encoder, where it is null.
    pub partitions: Option<Column<'a>>,
    /// The number of the topic, 32 bits; -1 for a row that is left out.
    pub topics: Option<Column<'a>>,
}
