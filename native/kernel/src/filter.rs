//! Which records become rows: those of which a condition is true. The others cost no more than finding that out.

mod arithmetic;
mod cast;
mod evaluate;
mod expression;
mod function;
mod probe;
mod text;
mod value;

pub(crate) use evaluate::Facts;
pub use expression::{Comparison, Expression, Function, Operator, Part, Pattern, Source, EXPRESSION_DEPTH_MAX};

use crate::decoding::{Decoding, OnFault};
use crate::error::{Error, Kind, Result};
use crate::fault::Fault;
use crate::rows::{MissingWriter, Sides};
use crate::typed::Column;
use crate::writers::Written;
use evaluate::Row;
use probe::{header_column, read_headers, Probe, Probed};

/// Which rows are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// A row is wanted if this is true: neither false nor null.
    pub expression: Expression,
    /// How the key is decoded for it, to those of its fields that it needs; `None`: it needs none of them.
    pub key: Option<Decoding>,
    /// The same for the value.
    pub value: Option<Decoding>,
    /// Whether it needs headers.
    pub headers: bool,
}

/// What is known of a record before its row is built.
pub(crate) enum Verdict {
    Wanted,
    Unwanted,
    /// It is wanted if its key or its value cannot be decoded to the row's fields.
    IfFaulty,
    /// Somebody has to say first what becomes of values with this schema.
    Unknown(MissingWriter),
}

/// A condition, and what it needs of the current record.
pub(crate) struct Filter {
    /// All have to be true.
    conjuncts: Vec<Expression>,
    on_fault: OnFault,
    key: Option<Probe>,
    value: Option<Probe>,
    headers: Option<Column>,
    /// Why the key and the value of the current record cannot be decoded.
    faults: Sides<Option<Fault>>,
    filtered: u64,
    faulty: u64,
}

impl Filter {
    /// `bytes_max`: so many bytes of columns one record may need.
    pub(crate) fn new(condition: Condition, on_fault: OnFault, bytes_max: usize) -> Self {
        Filter {
            conjuncts: condition.expression.conjuncts(),
            on_fault,
            key: condition.key.map(|decoding| Probe::new(&decoding, bytes_max)),
            value: condition.value.map(|decoding| Probe::new(&decoding, bytes_max)),
            headers: condition.headers.then(header_column),
            faults: Sides::default(),
            filtered: 0,
            faulty: 0,
        }
    }

    pub(crate) fn headers_wanted(&self) -> bool {
        self.headers.is_some()
    }

    /// Notes that what comes next is from this cluster.
    pub(crate) fn select(&mut self, cluster: &str) {
        for probe in [&mut self.key, &mut self.value].into_iter().flatten() {
            probe.select(cluster);
        }
    }

    /// Notes what becomes, for the condition, of all that `missing` has written in the cluster that is selected.
    pub(crate) fn add_writer(&mut self, missing: MissingWriter, written: Written) {
        if let Some(probe) = if missing.key { &mut self.key } else { &mut self.value } {
            probe.add_writer(missing.writer, written);
        }
    }

    /// How many records were left out so far.
    pub(crate) fn filtered(&self) -> u64 {
        self.filtered
    }

    /// How many keys and values of records that were left out could not be decoded so far.
    pub(crate) fn faulty(&self) -> u64 {
        self.faulty
    }

    /// Notes that the current record is left out, and whether its key and its value cannot be decoded.
    pub(crate) fn leave_out(&mut self, faulty: Sides<bool>) {
        self.filtered += 1;
        self.faulty += u64::from(faulty.key) + u64::from(faulty.value);
    }

    /// Whether the key and the value of the current record are known not to be decoded.
    pub(crate) fn faulty_now(&self) -> Sides<bool> {
        Sides { key: self.faults.key.is_some(), value: self.faults.value.is_some() }
    }

    /// Why the key and the value of the current record cannot be decoded.
    pub(crate) fn faults(&self) -> Sides<Option<Fault>> {
        self.faults.clone()
    }

    /// Whether a record, now the current one, is wanted. `decoded`: what is decoded for its row.
    #[inline]
    pub(crate) fn judge(&mut self, facts: &Facts<'_>, decoded: Sides<bool>) -> Result<Verdict> {
        let record = facts.record;
        let sides = [
            (true, &mut self.key, record.key, &mut self.faults.key),
            (false, &mut self.value, record.value, &mut self.faults.value),
        ];
        for (key, probe, bytes, fault) in sides {
            let Some(probe) = probe else { continue };
            *fault = match probe.decode(bytes)? {
                Probed::Decoded => None,
                Probed::Refused(why) => Some(why),
                Probed::Unknown(writer) => return Ok(Verdict::Unknown(MissingWriter { key, writer })),
            };
        }
        if let Some(column) = &mut self.headers {
            read_headers(&record.headers, column)?;
        }
        if self.on_fault == OnFault::Fail {
            for (what, fault) in [("key", &self.faults.key), ("value", &self.faults.value)] {
                if let Some(fault) = fault {
                    let detail = format!("its {what} cannot be decoded: {}", fault.text());
                    return Err(Error::new(Kind::Undecodable, detail).at(facts.offset));
                }
            }
        }
        let faulty = self.faulty_now();
        if self.is_true(facts, faulty)? {
            return Ok(Verdict::Wanted);
        }
        if self.on_fault == OnFault::Fail {
            return Ok(Verdict::Unwanted);
        }
        let key = decoded.key && self.key.is_some() && record.key.is_some() && !faulty.key;
        let value = decoded.value && self.value.is_some() && record.value.is_some() && !faulty.value;
        for (key, value) in [(false, value), (key, false), (key, value)] {
            // An error counts, too: it is one only if the record is faulty.
            let tried = Sides { key: key || faulty.key, value: value || faulty.value };
            if (key || value) && self.is_true(facts, tried).unwrap_or(true) {
                return Ok(Verdict::IfFaulty);
            }
        }
        Ok(Verdict::Unwanted)
    }

    /// Whether the condition is true of the current record, whose key and value are null where they are `faulty`.
    pub(crate) fn is_true(&self, facts: &Facts<'_>, faulty: Sides<bool>) -> Result<bool> {
        let row = Row {
            facts,
            key: self.key.as_ref().filter(|_| !faulty.key).map(Probe::column),
            value: self.value.as_ref().filter(|_| !faulty.value).map(Probe::column),
            headers: self.headers.as_ref(),
        };
        for part in &self.conjuncts {
            let value = part.evaluate(&row).map_err(|error| error.at(facts.offset))?;
            if value.boolean().map_err(|error| error.at(facts.offset))? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
