//! Conditions over the columns of a row, as they are handed to the kernel: every cast is spelled out.

use crate::filter::cast::cast;
use crate::filter::value::Value;
use crate::typed::DataType;
use std::borrow::Cow;

/// So many operations may be nested: whoever reads or evaluates them calls itself for each level.
pub const EXPRESSION_DEPTH_MAX: usize = 100;

/// What is computed of a row. Numbers of all integer types, dates and times are 64-bit integers; a float is the double
/// of the same value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Null, of any type.
    Null,
    /// True or false.
    Boolean(bool),
    /// An integer, days or microseconds since 1970.
    Long(i64),
    /// Floating point.
    Double(f64),
    /// The digits of a decimal, without the point.
    Decimal(i128),
    /// Text, or bytes.
    Text(Vec<u8>),
    /// A column.
    Column(Source),
    /// The field with this number of a struct.
    Field(Box<Expression>, usize),
    /// The element of an array at an index that begins at 0, an error beyond its end.
    Item(Box<Expression>, Box<Expression>),
    /// The element of an array at an index that begins at 1, or at -1 from its end; an error beyond.
    ElementAt(Box<Expression>, Box<Expression>),
    /// The first value of a map with this key; null if there is none.
    Entry(Box<Expression>, Box<Expression>),
    /// Not, in three values.
    Not(Box<Expression>),
    /// And, in three values; evaluated up to the first that is false.
    And(Vec<Expression>),
    /// Or, in three values; evaluated up to the first that is true.
    Or(Vec<Expression>),
    /// Whether it is null.
    IsNull(Box<Expression>),
    /// Whether it is a floating point number that is none.
    IsNan(Box<Expression>),
    /// Of two values of one type.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// Whether one of several values is equal, in three values.
    In(Box<Expression>, Vec<Expression>),
    /// The value beside the first condition that is true, or else the last one.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
    /// The first value that is not null.
    Coalesce(Vec<Expression>),
    /// Of two numbers of this type; beyond it is an error.
    Arithmetic(Operator, DataType, Box<Expression>, Box<Expression>),
    /// A value of the first type as one of the second; where it is none: null if that is said, else an error.
    Cast(Box<Expression>, DataType, DataType, bool),
    /// Whether a text matches a pattern.
    Like(Box<Expression>, Pattern),
    /// A function of texts, arrays or maps.
    Call(Function, Vec<Expression>),
}

/// A column, or what is known of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bytes of the key.
    KeyBytes,
    /// The bytes of the value.
    ValueBytes,
    /// The key, decoded.
    Key,
    /// The value, decoded.
    Value,
    /// The record's headers.
    Headers,
    /// The topic's name.
    Topic,
    /// The cluster's name.
    Cluster,
    /// The number of the partition.
    Partition,
    /// The offset.
    Offset,
    /// Microseconds since 1970.
    Timestamp,
    /// Who set the timestamp.
    TimestampType,
}

/// How two values are compared. Text by its bytes; NaN is equal to itself and more than every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<=>`: two nulls are equal, and one is not.
    Same,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, of floating point; by zero it is an error.
    Divide,
    /// `DIV`, of integers; by zero it is an error.
    IntegerDivide,
    /// `%`, with the sign of the first; by zero it is an error.
    Remainder,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The characters of a text.
    Length,
    /// The bytes of bytes.
    ByteLength,
    /// In lower case.
    Lower,
    /// In upper case.
    Upper,
    /// Without the spaces at both ends.
    Trim,
    /// A part of a text: from a character that is counted from 1, or from the end; so many characters.
    Substring,
    /// Whether it begins with another.
    StartsWith,
    /// Whether it ends with another.
    EndsWith,
    /// Whether another is in it.
    Contains,
    /// One after the other.
    Concat,
    /// The number of elements.
    Size,
    /// Whether an array has a value, in three values.
    ArrayContains,
}

/// A pattern of SQL's `LIKE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub Vec<Part>);

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `%`: any characters, also none.
    Any,
    /// `_`: one character.
    One,
    /// This character.
    Char(char),
}

impl Expression {
    /// [`Expression::Cast`]; of a literal that can be cast, what it becomes.
    pub fn cast(of: Expression, from: DataType, to: DataType, null_if_none: bool) -> Self {
        let value = match &of {
            Expression::Boolean(value) => Value::Boolean(*value),
            Expression::Long(value) => Value::Long(*value),
            Expression::Double(value) => Value::Double(*value),
            Expression::Decimal(value) => Value::Decimal(*value),
            Expression::Text(value) => Value::Text(Cow::Borrowed(value)),
            _ => Value::Null,
        };
        match cast(&value, &from, &to) {
            Ok(Value::Boolean(value)) => Expression::Boolean(value),
            Ok(Value::Long(value)) => Expression::Long(value),
            Ok(Value::Double(value)) => Expression::Double(value),
            Ok(Value::Decimal(value)) => Expression::Decimal(value),
            Ok(Value::Text(value)) => Expression::Text(value.into_owned()),
            _ => Expression::Cast(Box::new(of), from, to, null_if_none),
        }
    }

    /// Itself, or what a conjunction consists of.
    pub(crate) fn conjuncts(self) -> Vec<Expression> {
        match self {
            Expression::And(parts) => parts.into_iter().flat_map(Expression::conjuncts).collect(),
            other => vec![other],
        }
    }
}
