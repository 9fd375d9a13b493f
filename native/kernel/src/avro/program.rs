//! How to read what one schema has written as another.

use crate::typed::DataType;
use std::collections::HashSet;

/// How values of one schema become rows of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(super) step: Step,
    /// The fields of records that are passed over.
    pub(super) skips: Box<[Box<[Skip]>]>,
}

/// How a value becomes one of its column.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing is written; it is null.
    Null,
    /// `boolean`.
    Boolean,
    /// `int`. If it is a time, this many microseconds each.
    Int(i64),
    /// `long`. If it is a time, this many microseconds each.
    Long(i64),
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `bytes` and `string`, decimals among them.
    Bytes,
    /// `fixed` of so many bytes.
    Fixed(usize),
    /// `enum`.
    Enum(Box<[Symbol]>),
    /// `record`: its fields as they are written.
    Record(Box<[Field]>),
    /// `array`.
    Array(Box<Step>),
    /// `map`.
    Map(Box<Step>),
    /// A union of the writer, by its branches.
    Union(Box<[Step]>),
    /// A branch of a union of the reader: one of the fields of a struct, of which the others are null.
    Member(Box<Field>),
    /// Nothing is written; it is these bytes, as this step reads them.
    Default(Box<[u8]>, Box<Step>),
    /// It cannot be read, for this reason.
    Refused(Box<str>),
}

/// A field, or a member of a union.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// It goes into the column of this number.
    Column(usize, Step),
    /// It is passed over.
    Skip(Skip),
}

/// A symbol of the writer's enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// The symbol.
    pub name: Box<str>,
    /// What the reader takes it for; `None`: it cannot be read.
    pub text: Option<Box<str>>,
}

/// How to pass over a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Skip {
    /// So many bytes.
    Fixed(usize),
    /// `int` and `enum`.
    Int,
    /// `long`.
    Long,
    /// `bytes` and `string`.
    Bytes,
    /// `record`, by its number.
    Record(usize),
    /// Several values, one after the other.
    All(Box<[Skip]>),
    /// `array`.
    Array(Box<Skip>),
    /// `map`.
    Map(Box<Skip>),
    /// A union, by its branches.
    Union(Box<[Skip]>),
}

impl Program {
    /// A program for values that become rows of type `of`. `skips`: the fields of each record that is passed over.
    /// `Err` says where it does not fit the type.
    pub fn new(mut step: Step, skips: Vec<Vec<Skip>>, of: &DataType) -> Result<Self, String> {
        let mut records = Records::new(&skips);
        step.settle(of, &mut records)?;
        let settled: Result<Vec<_>, String> = (0..skips.len()).map(|number| records.record(number)).collect();
        Ok(Program { step, skips: settled?.into() })
    }
}

/// So many records that are passed over are written out where they are, which is faster than to look them up.
const WRITTEN_OUT_MAX: usize = 200;

/// They may be so deep in each other.
const WRITTEN_OUT_DEPTH_MAX: usize = 8;

/// The records that are passed over.
struct Records<'s> {
    fields: &'s [Vec<Skip>],
    /// Whether each of them is no bytes.
    empty: Vec<bool>,
    /// Those that are being written out.
    above: Vec<usize>,
    written_out: usize,
}

impl<'s> Records<'s> {
    fn new(fields: &'s [Vec<Skip>]) -> Self {
        let mut records = Records { fields, empty: vec![false; fields.len()], above: Vec::new(), written_out: 0 };
        loop {
            let next: Vec<bool> = fields.iter().map(|fields| fields.iter().all(|one| records.is_empty(one))).collect();
            if next == records.empty {
                return records;
            }
            records.empty = next;
        }
    }

    fn is_empty(&self, skip: &Skip) -> bool {
        match skip {
            Skip::Fixed(length) => *length == 0,
            Skip::Record(number) => self.empty.get(*number).copied().unwrap_or_default(),
            Skip::All(each) => each.iter().all(|one| self.is_empty(one)),
            _ => false,
        }
    }

    /// How to pass over a record: its fields.
    fn record(&mut self, number: usize) -> Result<Box<[Skip]>, String> {
        self.above.push(number);
        let made = self.settled(self.fields.get(number).map_or(&[][..], |fields| fields));
        self.above.pop();
        made
    }

    /// How to pass over several values, with what is no bytes left out, and what is passed over by its length made one.
    fn settled(&mut self, skips: &[Skip]) -> Result<Box<[Skip]>, String> {
        let mut made = Vec::with_capacity(skips.len());
        skips.iter().try_for_each(|skip| self.settle(skip, &mut made))?;
        Ok(made.into())
    }

    /// The same for one value.
    fn settled_one(&mut self, skip: &Skip) -> Result<Skip, String> {
        let mut made = self.settled(std::slice::from_ref(skip))?.into_vec();
        Ok(match (made.pop(), made.is_empty()) {
            (None, _) => Skip::Fixed(0),
            (Some(one), true) => one,
            (Some(last), false) => {
                made.push(last);
                Skip::All(made.into())
            }
        })
    }

    fn settle(&mut self, skip: &Skip, made: &mut Vec<Skip>) -> Result<(), String> {
        let next = match skip {
            skip if self.is_empty(skip) => return Ok(()),
            Skip::Record(number) => {
                let known = self.fields.get(*number);
                let fields = known
                    .ok_or_else(|| format!("record {number} is passed over, but {} are known", self.fields.len()))?;
                let room = self.written_out < WRITTEN_OUT_MAX && self.above.len() < WRITTEN_OUT_DEPTH_MAX;
                if !room || self.above.contains(number) {
                    Skip::Record(*number)
                } else {
                    self.written_out += 1;
                    self.above.push(*number);
                    fields.iter().try_for_each(|field| self.settle(field, made))?;
                    self.above.pop();
                    return Ok(());
                }
            }
            Skip::All(each) => return each.iter().try_for_each(|one| self.settle(one, made)),
            Skip::Array(item) => Skip::Array(Box::new(self.settled_one(item)?)),
            Skip::Map(value) => Skip::Map(Box::new(self.settled_one(value)?)),
            Skip::Union(branches) => {
                let branches: Result<Vec<Skip>, String> = branches.iter().map(|one| self.settled_one(one)).collect();
                Skip::Union(branches?.into())
            }
            other => other.clone(),
        };
        match (made.last_mut(), next) {
            (Some(Skip::Fixed(length)), Skip::Fixed(more)) => *length = length.saturating_add(more),
            (_, next) => made.push(next),
        }
        Ok(())
    }
}

impl Step {
    /// Whether it fits a column of type `of`.
    fn settle(&mut self, of: &DataType, records: &mut Records<'_>) -> Result<(), String> {
        let fits = match (&mut *self, of) {
            (Step::Null | Step::Refused(_), _) => true,
            (Step::Boolean, DataType::Boolean) => true,
            (Step::Int(_), DataType::Int | DataType::Date) => true,
            (Step::Int(_) | Step::Long(_), DataType::Long | DataType::Timestamp | DataType::TimestampNtz) => true,
            (Step::Int(_) | Step::Long(_) | Step::Float, DataType::Float | DataType::Double) => true,
            (Step::Double, DataType::Double) => true,
            (Step::Bytes, DataType::String | DataType::Binary | DataType::Decimal { .. }) => true,
            (Step::Fixed(_), DataType::Binary | DataType::Decimal { .. }) => true,
            (Step::Enum(_), DataType::String) => true,
            (Step::Record(fields), DataType::Struct(columns)) => return settle_record(fields, columns, records),
            (Step::Array(item), DataType::Array(element)) => return item.settle(element, records),
            (Step::Map(value), DataType::Map(key, of)) if **key == DataType::String => {
                return value.settle(of, records);
            }
            (Step::Union(branches), of) => return branches.iter_mut().try_for_each(|one| one.settle(of, records)),
            (Step::Member(member), DataType::Struct(columns)) => match &mut **member {
                Field::Skip(skip) => {
                    *skip = records.settled_one(skip)?;
                    true
                }
                Field::Column(at, step) => match columns.get(*at) {
                    Some(column) => return step.settle(&column.data_type, records),
                    None => false,
                },
            },
            (Step::Default(_, step), of) => return step.settle(of, records),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(format!("what is decoded into {of} is not of its type")),
        }
    }
}

/// Whether every column is that of one field, of its type.
fn settle_record(
    fields: &mut Box<[Field]>,
    columns: &[crate::typed::Field],
    records: &mut Records<'_>,
) -> Result<(), String> {
    let mut filled = HashSet::new();
    let mut made: Vec<Field> = Vec::with_capacity(fields.len());
    let mut skips = Vec::new();
    for field in std::mem::take(fields).into_vec() {
        match field {
            Field::Skip(skip) => records.settle(&skip, &mut skips)?,
            Field::Column(at, mut step) => {
                let column = columns.get(at).filter(|_| filled.insert(at));
                let column = column.ok_or_else(|| format!("there is no column {at}, or it has two fields"))?;
                step.settle(&column.data_type, records).map_err(|wrong| format!("{}: {wrong}", column.name))?;
                if !skips.is_empty() {
                    made.push(Field::Skip(Skip::All(std::mem::take(&mut skips).into())));
                }
                made.push(Field::Column(at, step));
            }
        }
    }
    if !skips.is_empty() {
        made.push(Field::Skip(Skip::All(skips.into())));
    }
    *fields = made.into();
    match filled.len() == columns.len() {
        true => Ok(()),
        false => Err(format!("{} of {} columns have a field", filled.len(), columns.len())),
    }
}
