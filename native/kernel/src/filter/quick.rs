//! What most conditions consist of, without a value in between: a field of a key or a value, compared with a literal.

use crate::filter::evaluate::Row;
use crate::filter::expression::{Comparison, Expression, Source};
use crate::filter::value::doubles;
use crate::typed::Column;
use std::cmp::Ordering;

/// Whether `part` is true of a row; `None` if it is not of this kind.
#[inline(always)]
pub(crate) fn is_true(part: &Expression, row: &Row<'_>) -> Option<bool> {
    let Expression::Compare(how, left, right) = part else { return None };
    let Expression::Field(of, number) = &**left else { return None };
    let Some((column, at)) = cell(of, *number, row)? else { return (*how != Comparison::Same).then_some(false) };
    let order = match (column, &**right) {
        (Column::Long(numbers) | Column::Timestamp(numbers), Expression::Long(value)) => {
            numbers.get(at).map(|number| number.cmp(value))
        }
        (Column::Int(numbers) | Column::Date(numbers), Expression::Long(value)) => {
            numbers.get(at).map(|number| i64::from(number).cmp(value))
        }
        (Column::Double(numbers), Expression::Double(value)) => numbers.get(at).map(|number| doubles(number, *value)),
        (Column::String(texts), Expression::Text(value)) => texts.get(at).map(|text| text.cmp(value)),
        _ => return None,
    };
    match (how, order) {
        (Comparison::Same, None) => None,
        (_, None) => Some(false),
        (how, Some(order)) => Some(how.holds(order)),
    }
}

/// The column of a field of `of`, and the row of it; `Some(None)` if it is null, since what it is in is null; `None` if
/// `of` is something else than a key, a value or a field in one.
#[inline(always)]
fn cell<'a>(of: &Expression, number: usize, row: &Row<'a>) -> Option<Option<(&'a Column, usize)>> {
    let (column, at) = match of {
        Expression::Column(Source::Value) => (row.value, row.at),
        Expression::Column(Source::Key) => (row.key, row.at),
        Expression::Field(outer, inner) => match deeper(outer, *inner, row)? {
            Some((column, at)) => (Some(column), at),
            None => return Some(None),
        },
        _ => return None,
    };
    match column {
        Some(Column::Struct(fields)) if fields.is_valid(at) => Some(fields.get(number).map(|column| (column, at))),
        Some(Column::Struct(_)) | None => Some(None),
        Some(_) => None,
    }
}

#[inline(never)]
fn deeper<'a>(of: &Expression, number: usize, row: &Row<'a>) -> Option<Option<(&'a Column, usize)>> {
    cell(of, number, row)
}

impl Comparison {
    /// Whether it is true of two values that compare like this.
    #[inline(always)]
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal | Comparison::Same => order == Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::AtMost => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::AtLeast => order != Ordering::Less,
        }
    }
}
