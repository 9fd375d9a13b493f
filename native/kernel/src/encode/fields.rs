//! What rows say about the records that they become.

use super::column::{Column, Refused, Rows};
use super::record::{nullable_bytes, Record};
use super::views::{Bytes, Headers, Numbers};

/// A row that cannot become a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The record would have this many bytes in a batch of its own, by Java's estimate.
    TooLarge(usize),
    /// The topic does not have this partition.
    Partition(i32),
    /// There is no topic with this number; -1 for a null.
    Topic(i32),
    /// A timestamp before 1970.
    Timestamp(i64),
    /// The header at this place of the row has no key.
    Header(usize),
}

/// Why a row did not become a record.
pub(super) enum Stop {
    Problem(Problem),
    Refused(Refused),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Stop::Problem(problem)
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Stop::Refused(refused)
    }
}

/// All columns.
pub(super) struct Fields<'a> {
    key: Option<Bytes<'a>>,
    value: Option<Bytes<'a>>,
    pub(super) headers: Option<Headers<'a>>,
    timestamps: Option<Numbers<'a, 8>>,
    partitions: Option<Numbers<'a, 4>>,
    topics: Option<Numbers<'a, 4>>,
}

impl<'a> Fields<'a> {
    /// `rows_min`: how many rows the columns have to have.
    pub(super) fn of(columns: &Rows<'a>, rows_min: usize) -> Result<Self, Refused> {
        let enough = |column: &Column<'a>, what: &str| match column.rows {
            rows if rows < rows_min => Err(Refused(format!("{what}: {rows} rows, expected {rows_min} or more"))),
            _ => Ok(()),
        };
        let bytes = |column: &Option<Column<'a>>, what: &'static str| {
            column.as_ref().map(|column| enough(column, what).and_then(|()| Bytes::of(column, what))).transpose()
        };
        let ints = |column: &Option<Column<'a>>, what: &str| {
            column.as_ref().map(|column| enough(column, what).and_then(|()| Numbers::of(column, what))).transpose()
        };
        let headers = |column: &Column<'a>| enough(column, "headers").and_then(|()| Headers::of(column));
        let longs = |column: &Column<'a>| enough(column, "timestamps").and_then(|()| Numbers::of(column, "timestamps"));
        Ok(Fields {
            key: bytes(&columns.key, "key")?,
            value: bytes(&columns.value, "value")?,
            headers: columns.headers.as_ref().map(headers).transpose()?,
            timestamps: columns.timestamps.as_ref().map(longs).transpose()?,
            partitions: ints(&columns.partitions, "partitions")?,
            topics: ints(&columns.topics, "topics")?,
        })
    }

    /// The number of the row's topic; `None` for a row that is left out.
    #[inline(always)]
    pub(super) fn topic(&self, row: usize, topic: usize, count: usize) -> Result<Option<usize>, Problem> {
        let Some(topics) = &self.topics else { return Ok(Some(topic)) };
        let number = match topics.at(row).map(i32::from_le_bytes) {
            Some(-1) => return Ok(None),
            number => number.unwrap_or(-1),
        };
        match usize::try_from(number) {
            Ok(topic) if topic < count => Ok(Some(topic)),
            _ => Err(Problem::Topic(number)),
        }
    }

    /// The partition that the row names, of `count`.
    #[inline(always)]
    pub(super) fn partition(&self, row: usize, count: u32) -> Result<Option<u32>, Problem> {
        let Some(bytes) = self.partitions.as_ref().and_then(|partitions| partitions.at(row)) else { return Ok(None) };
        match i32::from_le_bytes(bytes) {
            number @ 0.. if number.unsigned_abs() < count => Ok(Some(number.unsigned_abs())),
            number => Err(Problem::Partition(number)),
        }
    }

    /// -1 is none.
    #[inline(always)]
    pub(super) fn timestamp(&self, row: usize, now_ms: i64) -> Result<i64, Problem> {
        match self.timestamps.as_ref().and_then(|timestamps| timestamps.at(row)).map(i64::from_le_bytes) {
            None => Ok(now_ms),
            Some(timestamp @ -1..) => Ok(timestamp),
            Some(timestamp) => Err(Problem::Timestamp(timestamp)),
        }
    }

    /// The row's key, value and headers, none of which lacks a key.
    #[inline(always)]
    pub(super) fn record(&self, row: usize) -> Result<Record<'a>, Stop> {
        let (key, value) = (cell(&self.key, row)?, cell(&self.value, row)?);
        let Some(headers) = &self.headers else { return Ok(Record::new(key, value, 0..0, 0)) };
        let (range, mut headers_bytes) = (headers.of_row(row)?, 0);
        for (place, header) in range.clone().enumerate() {
            let (key, value) = headers.at(header)?;
            if key.is_none() {
                return Err(Problem::Header(place).into());
            }
            headers_bytes += nullable_bytes(key) + nullable_bytes(value);
        }
        Ok(Record::new(key, value, range, headers_bytes))
    }
}

/// A row of a column that may not be there.
#[inline(always)]
fn cell<'a>(column: &Option<Bytes<'a>>, row: usize) -> Result<Option<&'a [u8]>, Refused> {
    match column {
        Some(column) => column.at(row),
        None => Ok(None),
    }
}
