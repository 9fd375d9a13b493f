//! How keys and values are decoded, and the columns that they become.

use crate::binary::{Binary, BinaryColumn};
use crate::error::Result;
use crate::fault::{Budget, Decoded, Fault};
use crate::format::{Decoders, Format};
use crate::framing::{Framing, Writer};
use crate::typed::{Array, Column, DataType};
use crate::writers::{Writers, Written};

/// How keys, or values, are decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoding {
    /// The format that all of them are written in; `None`: it depends on the schema that a frame names.
    pub format: Option<Format>,
    /// What is before each of them.
    pub framing: Framing,
    /// The type of the column.
    pub data_type: DataType,
}

/// What becomes of a record whose key or value cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFault {
    /// It is an error.
    #[default]
    Fail,
    /// The column is null.
    Null,
}

/// Rows that were decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// What the rows were decoded to.
    pub values: Option<Array>,
    /// Why a row could not be decoded; null for the others.
    pub error: Option<Binary>,
    /// The bytes of a row that could not be decoded; null for the others.
    pub raw: Option<Binary>,
}

/// A column that keys or values are decoded into.
pub(crate) struct TypedColumn {
    column: Column,
    data_type: DataType,
    format: Option<Format>,
    framing: Framing,
    writers: Writers,
    decoders: Decoders,
    on_fault: OnFault,
    row_bytes: usize,
    /// The bytes of lists and texts in all rows.
    bytes: usize,
    error: Option<BinaryColumn>,
    raw: Option<BinaryColumn>,
    faults: u64,
}

/// What became of a value.
pub(crate) enum Outcome {
    /// It has a row.
    Pushed,
    /// There is no row of it, since it needs more bytes than there are left.
    TooLong,
    /// There is no row of it, since it cannot be decoded.
    Refused(Fault),
    /// There is no row of it, since the schema that it was written by is not known.
    Unknown(Writer),
}

impl TypedColumn {
    /// `error`, `raw`: whether there are columns for the values that cannot be decoded.
    pub(crate) fn new(decoding: &Decoding, on_fault: OnFault, error: bool, raw: bool) -> Self {
        let column = Column::new(&decoding.data_type);
        TypedColumn {
            row_bytes: column.row_bytes() + 4 * (usize::from(error) + usize::from(raw)),
            column,
            data_type: decoding.data_type.clone(),
            format: decoding.format.clone(),
            framing: decoding.framing,
            writers: Writers::default(),
            decoders: Decoders::default(),
            on_fault,
            bytes: 0,
            error: error.then(BinaryColumn::default),
            raw: raw.then(BinaryColumn::default),
            faults: 0,
        }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The bytes of all rows beyond `row_bytes` of each.
    #[inline]
    pub(crate) fn data_bytes(&self) -> usize {
        let data = |column: &Option<BinaryColumn>| column.as_ref().map_or(0, BinaryColumn::data_bytes);
        self.bytes + data(&self.error) + data(&self.raw)
    }

    /// How many values could not be decoded so far.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// Takes back those that were counted since there were so many.
    pub(crate) fn restore_faults(&mut self, faults: u64) {
        self.faults = faults;
    }

    /// Notes that what comes next is from this cluster.
    #[inline]
    pub(crate) fn select(&mut self, cluster: &str) {
        self.writers.select(cluster);
    }

    /// Notes what becomes of all that `writer` has written in the cluster that is selected.
    pub(crate) fn add_writer(&mut self, writer: Writer, written: Written) {
        self.writers.add(writer, written);
    }

    /// Adds the row that `value` is. Returns the writer's schema instead, if that is not known.
    #[inline(always)]
    fn decode(&mut self, value: &[u8], budget: &mut Budget) -> Decoded<Option<Writer>> {
        let (column, decoders) = (&mut self.column, &mut self.decoders);
        if let (Some(format), Framing::None) = (&self.format, self.framing) {
            return decoders.decode(format, value, column, budget).map(|()| None);
        }
        let framed = self.framing.split(value)?;
        let format = match &self.format {
            Some(format) => format,
            None => match self.writers.find(&framed)? {
                Some(Written::In(format)) => format,
                Some(Written::Refused(why)) => return Err(Fault::new(why.clone())),
                None => return framed.writer().map(Some),
            },
        };
        decoders.decode(format, framed.payload, column, budget).map(|()| None)
    }

    /// Adds a row that needs at most `bytes_max` beyond `row_bytes`. `first`: there is no other row, so the bound holds
    /// only for a value that grows by being decoded. `known`: why the value cannot be decoded for something else, if so.
    #[inline]
    pub(crate) fn push(
        &mut self,
        value: Option<&[u8]>,
        bytes_max: usize,
        first: bool,
        known: Option<Fault>,
    ) -> Result<Outcome> {
        let row = self.column.rows();
        let Some(value) = value else {
            self.column.push_null();
            self.push_fault(None)?;
            return Ok(Outcome::Pushed);
        };
        let bytes_max = if first { bytes_max.max(value.len().saturating_mul(GROWTH_MAX)) } else { bytes_max };
        let mut budget = Budget::new(bytes_max);
        // Its own fault says more, so that is looked for first.
        let decoded = match (self.decode(value, &mut budget), known) {
            (Ok(None), Some(fault)) => Err(fault),
            (decoded, _) => decoded,
        };
        match decoded {
            Ok(Some(writer)) => Ok(Outcome::Unknown(writer)),
            Ok(None) => {
                self.bytes += budget.taken();
                self.push_fault(None)?;
                Ok(Outcome::Pushed)
            }
            Err(fault) => {
                self.column.truncate(row);
                if budget.exceeded() && !first {
                    return Ok(Outcome::TooLong);
                }
                if self.on_fault == OnFault::Fail {
                    return Ok(Outcome::Refused(fault));
                }
                if !first && value.len() > bytes_max && self.raw.is_some() {
                    return Ok(Outcome::TooLong);
                }
                self.faults += 1;
                self.column.push_null();
                self.push_fault(Some((fault, value)))?;
                Ok(Outcome::Pushed)
            }
        }
    }

    #[inline]
    fn push_fault(&mut self, fault: Option<(Fault, &[u8])>) -> Result<()> {
        if let Some(column) = &mut self.error {
            let text = fault.as_ref().map(|(fault, _)| fault.text());
            column.push(text.as_deref().map(str::as_bytes))?;
        }
        if let Some(column) = &mut self.raw {
            column.push(fault.map(|(_, value)| value))?;
        }
        Ok(())
    }

    /// The type of the rows.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The rows, to be read.
    pub(crate) fn column(&self) -> &Column {
        &self.column
    }

    /// The bytes of lists and texts in all rows, to cut them back to.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes every row from `rows` on; those that are left have so many `bytes`.
    pub(crate) fn truncate(&mut self, rows: usize, bytes: usize) {
        self.bytes = bytes;
        self.column.truncate(rows);
        for column in [&mut self.error, &mut self.raw].into_iter().flatten() {
            column.truncate(rows);
        }
    }

    pub(crate) fn finish(&mut self) -> Typed {
        self.bytes = 0;
        Typed {
            values: Some(self.column.finish()),
            error: self.error.as_mut().map(BinaryColumn::finish),
            raw: self.raw.as_mut().map(BinaryColumn::finish),
        }
    }
}

/// So many bytes of columns may become of each byte of a value that is longer than all rows together may be.
const GROWTH_MAX: usize = 16;
