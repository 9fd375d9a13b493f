//! What to do with the fields of a message.

use crate::protobuf::wire::{FIXED_32, FIXED_64, GROUP, LENGTH, VARINT};
use crate::typed::{self, DataType};
use std::collections::HashSet;

/// Fields with smaller numbers are found in a table.
const TABLE_MAX: u32 = 1024;

const NUMBER_MAX: u32 = (1 << 29) - 1;

/// No field, in the table.
const NONE: u16 = u16::MAX;

/// How messages of one type become rows of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(super) message: Message,
    /// How many fields are times.
    pub(super) times: usize,
}

/// The fields of a message that matter: those that are asked for, and the others of their oneofs.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// By number, ascending.
    pub(super) fields: Box<[Field]>,
    /// Number -> where in `fields`, or NONE.
    table: Box<[u16]>,
    /// The columns of each oneof.
    oneofs: Box<[Box<[usize]>]>,
    /// Whether a field in it has to be there.
    pub(super) demanding: bool,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// The column that it is decoded into, by its number in the struct; `None`: it is not asked for, but it is in a
    /// oneof with one that is.
    pub column: Option<usize>,
    /// Whether it may be missing.
    pub label: Label,
    /// Its type.
    pub kind: Kind,
    /// Which of the message's oneofs it is in, if it is in one.
    pub oneof: Option<usize>,
    /// Which of the times it is.
    pub(super) time: usize,
}

/// What a missing field is.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// Null.
    Optional,
    /// Null, and so is one that has the value which stands for a missing one.
    Implicit,
    /// An error.
    Required,
    /// This value, as it would be written, without a tag.
    Default(Vec<u8>),
    /// An empty list; of maps, the entries are messages.
    Repeated,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `int32`, `uint32`.
    Int32,
    /// `int64`, `uint64`.
    Int64,
    /// `sint32`.
    Sint32,
    /// `sint64`.
    Sint64,
    /// `fixed32`, `sfixed32`.
    Fixed32,
    /// `fixed64`, `sfixed64`.
    Fixed64,
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `bool`.
    Bool,
    /// `string`.
    String {
        /// Whether it is an error if it is no UTF-8.
        strict: bool,
    },
    /// `bytes`.
    Bytes,
    /// An enum, which becomes the names of its values.
    Enum(Enum),
    /// A message after its length.
    Message(Message),
    /// A message between two tags.
    Group(Message),
    /// A message of seconds (`int64`, number 1) and nanoseconds (`int32`, number 2).
    Timestamp,
}

/// The values of an enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Enum {
    /// What unknown values begin with.
    name: Box<str>,
    /// Number and name, by number.
    values: Box<[(i32, Box<str>)]>,
    closed: bool,
    /// The number of the first value.
    first: i32,
}

impl Enum {
    /// `values`: number and name of each; of several with one number, the first counts. `closed`: other numbers are
    /// unknown fields.
    pub fn new(name: &str, values: Vec<(i32, String)>, closed: bool) -> Self {
        let first = values.first().map_or(0, |(number, _)| *number);
        let mut values: Vec<(i32, Box<str>)> = values.into_iter().map(|(number, name)| (number, name.into())).collect();
        values.sort_by_key(|(number, _)| *number);
        values.dedup_by_key(|(number, _)| *number);
        Enum { name: name.into(), values: values.into(), closed, first }
    }

    pub(super) fn first(&self) -> i32 {
        self.first
    }

    pub(super) fn name(&self, number: i32) -> Option<&str> {
        let guess = usize::try_from(number).ok().and_then(|at| self.values.get(at));
        match guess {
            Some((known, name)) if *known == number => Some(name),
            _ => {
                let at = self.values.binary_search_by_key(&number, |(known, _)| *known).ok()?;
                self.values.get(at).map(|(_, name)| &**name)
            }
        }
    }

    /// Whether a field with this number does not count.
    pub(super) fn is_unknown(&self, number: i32) -> bool {
        self.closed && self.name(number).is_none()
    }

    /// The name that Java gives to a number without one.
    #[cold]
    pub(super) fn made_up(&self, number: i32) -> String {
        format!("UNKNOWN_ENUM_VALUE_{}_{number}", self.name)
    }
}

impl Field {
    /// A field of a message. See the fields of this struct.
    pub fn new(number: u32, column: Option<usize>, label: Label, kind: Kind, oneof: Option<usize>) -> Self {
        Field { number, column, label, kind, oneof, time: 0 }
    }

    #[inline]
    pub(super) fn is_repeated(&self) -> bool {
        self.label == Label::Repeated
    }

    /// Whether its values may come one after the other, without a tag for each.
    pub(super) fn is_packable(&self) -> bool {
        self.is_repeated() && !matches!(self.kind.wire_type(), LENGTH | GROUP)
    }
}

impl Kind {
    #[inline]
    pub(super) fn wire_type(&self) -> u32 {
        match self {
            Kind::Int32 | Kind::Int64 | Kind::Sint32 | Kind::Sint64 | Kind::Bool | Kind::Enum(_) => VARINT,
            Kind::Fixed64 | Kind::Double => FIXED_64,
            Kind::Fixed32 | Kind::Float => FIXED_32,
            Kind::String { .. } | Kind::Bytes | Kind::Message(_) | Kind::Timestamp => LENGTH,
            Kind::Group(_) => GROUP,
        }
    }

    fn fits(&self, of: &DataType) -> bool {
        match self {
            Kind::Int32 | Kind::Sint32 | Kind::Fixed32 => *of == DataType::Int,
            Kind::Int64 | Kind::Sint64 | Kind::Fixed64 => *of == DataType::Long,
            Kind::Float => *of == DataType::Float,
            Kind::Double => *of == DataType::Double,
            Kind::Bool => *of == DataType::Boolean,
            Kind::String { .. } | Kind::Enum(_) => *of == DataType::String,
            Kind::Bytes => *of == DataType::Binary,
            Kind::Message(_) | Kind::Group(_) => matches!(of, DataType::Struct(_)),
            Kind::Timestamp => *of == DataType::Timestamp,
        }
    }
}

impl Message {
    /// The fields, in any order.
    pub fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by_key(|field| field.number);
        fields.truncate(usize::from(NONE));
        let known = fields.iter().map(|field| field.number).filter(|number| *number < TABLE_MAX).max();
        let mut table = vec![NONE; known.map_or(0, |number| number as usize + 1)];
        for (field, at) in fields.iter().zip(0..NONE) {
            if let Some(place) = table.get_mut(field.number as usize) {
                *place = at;
            }
        }
        let mut oneofs = vec![Vec::new(); fields.len()];
        for field in &fields {
            if let (Some(members), Some(column)) = (field.oneof.and_then(|at| oneofs.get_mut(at)), field.column) {
                members.push(column);
            }
        }
        let demanding = fields.iter().any(|field| match &field.kind {
            Kind::Message(inner) | Kind::Group(inner) => inner.demanding || field.label == Label::Required,
            _ => field.label == Label::Required,
        });
        let oneofs = oneofs.into_iter().map(Vec::into_boxed_slice).collect();
        Message { fields: fields.into(), table: table.into(), oneofs, demanding }
    }

    /// The field with this number, and where it is. `expected`: where it is if fields come in their order.
    #[inline(always)]
    pub(super) fn find(&self, number: u32, expected: usize) -> Option<(usize, &Field)> {
        if let Some(field) = self.fields.get(expected) {
            if field.number == number {
                return Some((expected, field));
            }
        }
        let at = match self.table.get(number as usize) {
            Some(&at) => usize::from(at),
            None if number < TABLE_MAX => return None,
            None => self.fields.binary_search_by_key(&number, |field| field.number).ok()?,
        };
        self.fields.get(at).map(|field| (at, field))
    }

    /// The columns of the oneof that a field is in.
    #[inline]
    pub(super) fn oneof(&self, field: &Field) -> &[usize] {
        field.oneof.and_then(|at| self.oneofs.get(at)).map_or(&[], |columns| columns)
    }

    /// Whether every column is that of one field, of its type. Numbers the times.
    fn settle(&mut self, columns: &[typed::Field], times: &mut usize) -> Result<(), String> {
        let mut filled = HashSet::new();
        let mut last = 0;
        for field in &mut self.fields {
            if field.number <= last || field.number > NUMBER_MAX {
                return Err(format!("a field has the number {}, expected 1 to {NUMBER_MAX}, each once", field.number));
            }
            last = field.number;
            if let Some(oneof) = field.oneof.filter(|oneof| *oneof >= self.oneofs.len()) {
                let most = self.oneofs.len() as i64 - 1;
                return Err(format!("field {last} is in oneof {oneof}, expected {most} at most"));
            }
            let Some(at) = field.column else { continue };
            let column = columns.get(at).filter(|_| filled.insert(at));
            let column = column.ok_or_else(|| format!("field {} has no column of its own", field.number))?;
            field.settle(&column.data_type, times).map_err(|wrong| format!("{}: {wrong}", column.name))?;
        }
        match filled.len() == columns.len() {
            true => Ok(()),
            false => Err(format!("{} of {} columns have a field", filled.len(), columns.len())),
        }
    }
}

impl Field {
    fn settle(&mut self, of: &DataType, times: &mut usize) -> Result<(), String> {
        if let Kind::Timestamp = self.kind {
            self.time = *times;
            *times += 1;
        }
        let field = |name: &str, of: &DataType| typed::Field { name: name.to_owned(), data_type: of.clone() };
        let repeated = self.is_repeated();
        match (&mut self.kind, of) {
            (Kind::Message(entry), DataType::Map(key, value)) if repeated => {
                if entry.fields.iter().any(|field| !matches!(field.label, Label::Default(_))) {
                    return Err("a key or value has no default".to_owned());
                }
                entry.settle(&[field("key", key), field("value", value)], times)
            }
            (kind, DataType::Array(element)) if repeated && kind.fits(element) => kind.settle(element, times),
            (kind, of) if !repeated && kind.fits(of) => kind.settle(of, times),
            _ => Err(format!("a field is decoded into {of}, which is not its type")),
        }
    }
}

impl Kind {
    fn settle(&mut self, of: &DataType, times: &mut usize) -> Result<(), String> {
        match (self, of) {
            (Kind::Message(inner) | Kind::Group(inner), DataType::Struct(columns)) => inner.settle(columns, times),
            _ => Ok(()),
        }
    }
}

impl Program {
    /// A program for messages that become rows of type `of`. `Err` says where it does not fit the type.
    pub fn new(mut message: Message, of: &DataType) -> Result<Self, String> {
        let DataType::Struct(columns) = of else { return Err(format!("messages become {of}, expected a struct")) };
        let mut times = 0;
        message.settle(columns, &mut times)?;
        Ok(Program { message, times })
    }
}
