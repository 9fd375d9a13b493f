//! Which records become rows: those of which a condition is true. The others cost no more than finding that out.

mod arithmetic;
mod cast;
mod evaluate;
mod expression;
mod function;
mod probe;
mod quick;
mod text;
mod value;
mod wider;

pub(crate) use evaluate::Facts;
pub use expression::{Comparison, Expression, Function, Operator, Part, Pattern, Source, EXPRESSION_DEPTH_MAX};

use crate::decoding::{Decoding, OnFault, TypedColumn};
use crate::error::{Error, Kind, Result};
use crate::fault::Fault;
use crate::record::Record;
use crate::rows::{MissingWriter, Rows, Sides};
use crate::typed::Column;
use crate::writers::Written;
use evaluate::Row;
use probe::{header_column, read_headers, Probe, Probed};
use wider::Widening;

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
}

/// After so many records it is decided anew which of two ways the next ones take.
const RECORDS_BETWEEN: u32 = 256;

/// A condition, and what it needs of the current record.
pub(crate) struct Filter {
    /// All have to be true.
    conjuncts: Vec<Expression>,
    /// The same over the columns of rows, if these have all that it needs of keys and values.
    over_rows: Option<Vec<Expression>>,
    /// Whether most records pass. Their rows are decoded first: otherwise, what the condition needs is decoded twice.
    rows_first: bool,
    /// Those since that was decided.
    judged: u32,
    wanted: u32,
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
    /// `bytes_max`: so many bytes of columns one record may need. `rows`: what records become.
    pub(crate) fn new(condition: Condition, on_fault: OnFault, bytes_max: usize, rows: &Rows) -> Self {
        let conjuncts = condition.expression.clone().conjuncts();
        Filter {
            over_rows: over_rows(&condition, &conjuncts, rows),
            rows_first: false,
            judged: 0,
            wanted: 0,
            conjuncts,
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

    /// Whether rows are decoded before the condition is evaluated over them.
    #[inline]
    pub(crate) fn rows_first(&self) -> bool {
        self.rows_first
    }

    /// Whether the current record cannot be decoded for the condition, and may be for its row, over which the condition
    /// can be evaluated. To pass over a field can be stricter than to decode it.
    #[inline]
    pub(crate) fn is_row_to_decide(&self) -> bool {
        (self.faults.key.is_some() || self.faults.value.is_some()) && self.over_rows.is_some()
    }

    /// Notes that the current record is a row.
    #[inline]
    pub(crate) fn let_in(&mut self) {
        self.wanted += 1;
        self.judged();
    }

    fn judged(&mut self) {
        self.judged += 1;
        if self.judged == RECORDS_BETWEEN {
            self.rows_first = self.over_rows.is_some() && self.wanted * 2 > self.judged;
            (self.judged, self.wanted) = (0, 0);
        }
    }

    /// Notes that the current record is left out, and whether its key and its value cannot be decoded.
    #[inline]
    pub(crate) fn leave_out(&mut self, faulty: Sides<bool>) {
        self.judged();
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

    /// Decodes what the condition needs of a record, now the current one. Returns the schema of its key or value instead,
    /// if nothing is known of that.
    #[inline]
    pub(crate) fn probe(&mut self, record: &Record<'_>) -> Result<Option<MissingWriter>> {
        let sides = [
            (true, &mut self.key, record.key, &mut self.faults.key),
            (false, &mut self.value, record.value, &mut self.faults.value),
        ];
        for (key, probe, bytes, fault) in sides {
            let Some(probe) = probe else { continue };
            *fault = match probe.decode(bytes)? {
                Probed::Decoded => None,
                Probed::Refused(why) => Some(why),
                Probed::Unknown(writer) => return Ok(Some(MissingWriter { key, writer })),
            };
        }
        Ok(None)
    }

    /// Whether the current record is wanted. `decoded`: what is decoded for its row.
    #[inline]
    pub(crate) fn judge(&mut self, facts: &Facts<'_>, decoded: Sides<bool>) -> Result<Verdict> {
        let record = facts.record;
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
            at: 0,
            headers: self.headers.as_ref(),
        };
        all_true(&self.conjuncts, &row)
    }

    /// Whether the condition is true of a record whose key and value are decoded, as the last row.
    #[inline]
    pub(crate) fn is_true_of_last(&mut self, facts: &Facts<'_>, rows: &Rows) -> Result<bool> {
        if let Some(column) = &mut self.headers {
            read_headers(&facts.record.headers, column)?;
        }
        let typed = rows.typed();
        let row = Row {
            facts,
            key: typed.key.map(TypedColumn::column),
            value: typed.value.map(TypedColumn::column),
            at: rows.count(),
            headers: self.headers.as_ref(),
        };
        all_true(self.over_rows.as_deref().unwrap_or(&self.conjuncts), &row)
    }
}

fn all_true<'a>(conjuncts: &'a [Expression], row: &Row<'a>) -> Result<bool> {
    for part in conjuncts {
        match quick::is_true(part, row) {
            Some(true) => continue,
            Some(false) => return Ok(false),
            None => {}
        }
        let value = part.evaluate(row).map_err(|error| error.at(row.facts.offset))?;
        if value.boolean().map_err(|error| error.at(row.facts.offset))? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The condition over what records become; `None` if that does not have all that it needs, or if it needs no field.
fn over_rows(condition: &Condition, conjuncts: &[Expression], rows: &Rows) -> Option<Vec<Expression>> {
    let typed = rows.typed();
    let types = Sides {
        key: condition.key.as_ref().zip(typed.key).map(|(one, column)| (&one.data_type, column.data_type())),
        value: condition.value.as_ref().zip(typed.value).map(|(one, column)| (&one.data_type, column.data_type())),
    };
    if condition.key.is_none() && condition.value.is_none() {
        return None;
    }
    let wider = Widening { types };
    conjuncts.iter().map(|one| wider.expression(one)).collect()
}
