//! The names of the columns, and a choice of them.

use std::fmt;

/// Which columns are built. The others are neither copied nor kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Record keys.
    pub key: bool,
    /// Record values.
    pub value: bool,
    /// Topic names.
    pub topic: bool,
    /// Partition numbers.
    pub partition: bool,
    /// Offsets.
    pub offset: bool,
    /// Timestamps.
    pub timestamp: bool,
    /// Which side has set the timestamps.
    pub timestamp_type: bool,
    /// Record headers.
    pub headers: bool,
    /// Cluster names.
    pub cluster: bool,
    /// Why keys cannot be decoded.
    pub key_error: bool,
    /// Keys that cannot be decoded, as they are.
    pub key_raw: bool,
    /// Why values cannot be decoded.
    pub value_error: bool,
    /// Values that cannot be decoded, as they are.
    pub value_raw: bool,
}

/// Names of columns that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionError {
    /// None is named.
    Empty,
    /// This one does not exist.
    Unknown(String),
    /// This one is named twice.
    Repeated(String),
}

impl Selection {
    /// The names of all columns, in the order of Spark's schema.
    pub const NAMES: [&'static str; 13] = [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "cluster",
        "key_error",
        "key_raw",
        "value_error",
        "value_raw",
    ];

    /// Every column that records have without being decoded.
    pub const ALL: Selection = Selection {
        key: true,
        value: true,
        topic: true,
        partition: true,
        offset: true,
        timestamp: true,
        timestamp_type: true,
        headers: true,
        cluster: true,
        key_error: false,
        key_raw: false,
        value_error: false,
        value_raw: false,
    };

    /// The columns with these names, at least one, each once.
    pub fn of<S: AsRef<str>>(names: &[S]) -> Result<Self, SelectionError> {
        let mut selection = Selection::default();
        for name in names.iter().map(AsRef::as_ref) {
            match selection.column(name) {
                None => return Err(SelectionError::Unknown(name.to_owned())),
                Some(true) => return Err(SelectionError::Repeated(name.to_owned())),
                Some(column) => *column = true,
            }
        }
        if names.is_empty() {
            return Err(SelectionError::Empty);
        }
        Ok(selection)
    }

    fn column(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "key" => &mut self.key,
            "value" => &mut self.value,
            "topic" => &mut self.topic,
            "partition" => &mut self.partition,
            "offset" => &mut self.offset,
            "timestamp" => &mut self.timestamp,
            "timestampType" => &mut self.timestamp_type,
            "headers" => &mut self.headers,
            "cluster" => &mut self.cluster,
            "key_error" => &mut self.key_error,
            "key_raw" => &mut self.key_raw,
            "value_error" => &mut self.value_error,
            "value_raw" => &mut self.value_raw,
            _ => return None,
        })
    }

    /// The bytes that every row needs for numbers; keys, values, headers and names are left out.
    pub(crate) fn row_bytes(self) -> usize {
        let numbers = [self.partition, self.timestamp_type].map(|there| 4 * usize::from(there));
        let longs = [self.offset, self.timestamp].map(|there| 8 * usize::from(there));
        numbers.iter().chain(&longs).sum()
    }
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelectionError::Empty => write!(f, "no column is named")?,
            SelectionError::Unknown(name) => write!(f, "there is no column {name:?}")?,
            SelectionError::Repeated(name) => write!(f, "the column {name:?} is named twice")?,
        }
        write!(f, "; expected one or more of {}, each once", Selection::NAMES.join(", "))
    }
}

impl std::error::Error for SelectionError {}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_column_of_its_own() {
        assert_eq!(Selection::of(&Selection::NAMES[..9]).unwrap(), Selection::ALL);
        let each: Vec<Selection> = Selection::NAMES.iter().map(|name| Selection::of(&[name]).unwrap()).collect();
        for (index, one) in each.iter().enumerate() {
            assert!(each.iter().skip(index + 1).all(|other| other != one), "{one:?}");
        }
    }

    #[test]
    fn names_that_make_no_selection() {
        let refused = |names: &[&str]| Selection::of(names).unwrap_err().to_string();
        let expected = "; expected one or more of key, value, topic, partition, offset, timestamp, timestampType, \
                        headers, cluster, key_error, key_raw, value_error, value_raw, each once";
        assert_eq!(refused(&[]), format!("no column is named{expected}"));
        assert_eq!(refused(&["value", "Key"]), format!("there is no column \"Key\"{expected}"));
        assert_eq!(refused(&["value", "key", "value"]), format!("the column \"value\" is named twice{expected}"));
    }
}
