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
    /// `array`.
    Array(Box<Skip>),
    /// `map`.
    Map(Box<Skip>),
    /// A union, by its branches.
    Union(Box<[Skip]>),
}

impl Program {
    /// A program for values that become rows of type `of`. `skips`: the fields of each record that is passed over. `Err`
    /// says where it does not fit the type.
    pub fn new(mut step: Step, skips: Vec<Vec<Skip>>, of: &DataType) -> Result<Self, String> {
        let mut records = Records { empty: vec![false; skips.len()] };
        records.find_empty(&skips);
        step.settle(of, &records)?;
        let settled = skips.into_iter().map(|fields| {
            let fields: Result<Vec<Skip>, String> = fields.into_iter().map(|one| records.settled(one)).collect();
            fields.map(|fields| joined(fields).into())
        });
        Ok(Program { step, skips: settled.collect::<Result<_, _>>()? })
    }
}

/// Fields with those that are passed over by their length made one, if they are next to each other.
fn joined(fields: Vec<Skip>) -> Vec<Skip> {
    let mut made: Vec<Skip> = Vec::with_capacity(fields.len());
    for field in fields {
        match (made.last_mut(), field) {
            (_, Skip::Fixed(0)) => {}
            (Some(Skip::Fixed(length)), Skip::Fixed(more)) => *length = length.saturating_add(more),
            (_, field) => made.push(field),
        }
    }
    made
}

/// The records that are passed over.
struct Records {
    /// Whether each of them is no bytes.
    empty: Vec<bool>,
}

impl Records {
    fn find_empty(&mut self, skips: &[Vec<Skip>]) {
        loop {
            let next: Vec<bool> = skips.iter().map(|fields| fields.iter().all(|one| self.is_empty(one))).collect();
            if next == self.empty {
                return;
            }
            self.empty = next;
        }
    }

    fn is_empty(&self, skip: &Skip) -> bool {
        match skip {
            Skip::Fixed(length) => *length == 0,
            Skip::Record(number) => self.empty.get(*number).copied().unwrap_or_default(),
            _ => false,
        }
    }

    /// With records that are no bytes, wherever they are, as such.
    fn settled(&self, skip: Skip) -> Result<Skip, String> {
        Ok(match skip {
            Skip::Record(number) if number >= self.empty.len() => {
                return Err(format!("record {number} is passed over, but {} are known", self.empty.len()));
            }
            skip if self.is_empty(&skip) => Skip::Fixed(0),
            Skip::Array(item) => Skip::Array(Box::new(self.settled(*item)?)),
            Skip::Map(value) => Skip::Map(Box::new(self.settled(*value)?)),
            Skip::Union(branches) => {
                let branches: Result<Vec<Skip>, String> =
                    branches.into_vec().into_iter().map(|one| self.settled(one)).collect();
                Skip::Union(branches?.into())
            }
            other => other,
        })
    }
}

impl Step {
    /// Whether it fits a column of type `of`.
    fn settle(&mut self, of: &DataType, records: &Records) -> Result<(), String> {
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
                    *skip = records.settled(skip.clone())?;
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
fn settle_record(fields: &mut Box<[Field]>, columns: &[crate::typed::Field], records: &Records) -> Result<(), String> {
    let mut filled = HashSet::new();
    let mut made: Vec<Field> = Vec::with_capacity(fields.len());
    for field in std::mem::take(fields).into_vec() {
        match field {
            Field::Skip(skip) => match (made.last_mut(), records.settled(skip)?) {
                (_, Skip::Fixed(0)) => {}
                (Some(Field::Skip(Skip::Fixed(length))), Skip::Fixed(more)) => *length = length.saturating_add(more),
                (_, skip) => made.push(Field::Skip(skip)),
            },
            Field::Column(at, mut step) => {
                let column = columns.get(at).filter(|_| filled.insert(at));
                let column = column.ok_or_else(|| format!("there is no column {at}, or it has two fields"))?;
                step.settle(&column.data_type, records).map_err(|wrong| format!("{}: {wrong}", column.name))?;
                made.push(Field::Column(at, step));
            }
        }
    }
    *fields = made.into();
    match filled.len() == columns.len() {
        true => Ok(()),
        false => Err(format!("{} of {} columns have a field", filled.len(), columns.len())),
    }
}
