//! Finished rows.

use crate::binary::Binary;
use crate::decoding::Typed;
use crate::headers::HeaderColumn;
use crate::times::Times;
use crate::typed::{Array, Memory};

/// Finished rows, by columns: those of the [`Selection`](crate::Selection).
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The number of rows.
    pub rows: usize,
    /// Record keys, as they are.
    pub key: Option<Binary>,
    /// Record values, as they are.
    pub value: Option<Binary>,
    /// Record keys, decoded.
    pub typed_key: Option<Typed>,
    /// Record values, decoded.
    pub typed_value: Option<Typed>,
    /// Topic names.
    pub topic: Option<Binary>,
    /// Partition numbers.
    pub partition: Option<Vec<i32>>,
    /// Offsets.
    pub offset: Option<Vec<i64>>,
    /// Timestamps.
    pub timestamp: Option<Times>,
    /// [`TimestampType`](crate::TimestampType) as numbers.
    pub timestamp_type: Option<Vec<i32>>,
    /// Record headers.
    pub headers: Option<HeaderColumn>,
    /// Cluster names.
    pub cluster: Option<Binary>,
}

impl Columns {
    /// Each column by its name, in no particular order.
    pub fn into_arrays(self) -> Vec<(&'static str, Array)> {
        let (key, value) = (self.typed_key.unwrap_or_default(), self.typed_value.unwrap_or_default());
        let columns = [
            ("key", self.key.map(Array::from).or(key.values)),
            ("value", self.value.map(Array::from).or(value.values)),
            ("topic", self.topic.map(Array::from)),
            ("partition", self.partition.map(|numbers| Memory::Ints(numbers).into())),
            ("offset", self.offset.map(|numbers| Memory::Longs(numbers).into())),
            ("timestamp", self.timestamp.map(Array::from)),
            ("timestampType", self.timestamp_type.map(|numbers| Memory::Ints(numbers).into())),
            ("headers", self.headers.map(Array::from)),
            ("cluster", self.cluster.map(Array::from)),
            ("key_error", key.error.map(Array::from)),
            ("key_raw", key.raw.map(Array::from)),
            ("value_error", value.error.map(Array::from)),
            ("value_raw", value.raw.map(Array::from)),
        ];
        columns.into_iter().filter_map(|(name, column)| Some((name, column?))).collect()
    }
}
