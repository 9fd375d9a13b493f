//! A condition over types with more fields than it needs.

use crate::filter::expression::{Expression, Source};
use crate::rows::Sides;
use crate::typed::DataType;

/// The type that a condition knows, and the one with more fields.
type Types<'t> = (&'t DataType, &'t DataType);

/// Rewrites conditions: fields have other numbers where there are more of them.
pub(crate) struct Widening<'t> {
    /// Of keys and of values.
    pub(crate) types: Sides<Option<Types<'t>>>,
}

impl<'t> Widening<'t> {
    /// `of` with the numbers that its fields have in the wider types; `None` if that cannot be said.
    pub(crate) fn expression(&self, of: &Expression) -> Option<Expression> {
        self.with_types(of).map(|(made, _)| made)
    }

    fn all(&self, of: &[Expression]) -> Option<Vec<Expression>> {
        of.iter().map(|one| self.expression(one)).collect()
    }

    fn boxed(&self, of: &Expression) -> Option<Box<Expression>> {
        self.expression(of).map(Box::new)
    }

    /// Something that is part of a key or a value, with its types; without, if it is anything else.
    fn with_types(&self, of: &Expression) -> Option<(Expression, Option<Types<'t>>)> {
        let path = match of {
            Expression::Column(source) => {
                let types = match source {
                    Source::Key => Some(self.types.key?),
                    Source::Value => Some(self.types.value?),
                    _ => None,
                };
                (of.clone(), types)
            }
            Expression::Field(outer, number) => {
                let (outer, types) = self.with_types(outer)?;
                let Some(types) = types else {
                    return Some((Expression::Field(Box::new(outer), *number), None));
                };
                let (number, types) = field(types, *number)?;
                (Expression::Field(Box::new(outer), number), Some(types))
            }
            Expression::Item(list, index) => {
                let (list, types) = self.with_types(list)?;
                (Expression::Item(Box::new(list), self.boxed(index)?), item(types)?)
            }
            Expression::ElementAt(list, index) => {
                let (list, types) = self.with_types(list)?;
                (Expression::ElementAt(Box::new(list), self.boxed(index)?), item(types)?)
            }
            Expression::Entry(map, key) => {
                let (map, types) = self.with_types(map)?;
                (Expression::Entry(Box::new(map), self.boxed(key)?), item(types)?)
            }
            other => (self.operation(other)?, None),
        };
        Some(path)
    }

    /// An operation whose parts are rewritten. What it chooses of them has to be of one type on both sides.
    fn operation(&self, of: &Expression) -> Option<Expression> {
        Some(match of {
            Expression::Not(one) => Expression::Not(self.boxed(one)?),
            Expression::And(parts) => Expression::And(self.all(parts)?),
            Expression::Or(parts) => Expression::Or(self.all(parts)?),
            Expression::IsNull(one) => Expression::IsNull(self.boxed(one)?),
            Expression::IsNan(one) => Expression::IsNan(self.boxed(one)?),
            Expression::Compare(how, left, right) => Expression::Compare(*how, self.boxed(left)?, self.boxed(right)?),
            Expression::In(one, list) => Expression::In(self.boxed(one)?, self.all(list)?),
            Expression::Case(branches, last) => {
                let branch = |(when, then): &(_, _)| Some((self.expression(when)?, self.chosen(then)?));
                Expression::Case(branches.iter().map(branch).collect::<Option<_>>()?, Box::new(self.chosen(last)?))
            }
            Expression::Coalesce(parts) => {
                Expression::Coalesce(parts.iter().map(|one| self.chosen(one)).collect::<Option<_>>()?)
            }
            Expression::Arithmetic(how, of, left, right) => {
                Expression::Arithmetic(*how, of.clone(), self.boxed(left)?, self.boxed(right)?)
            }
            Expression::Cast(one, from, to, or_null) => {
                Expression::Cast(self.boxed(one)?, from.clone(), to.clone(), *or_null)
            }
            Expression::Like(one, pattern) => Expression::Like(self.boxed(one)?, pattern.clone()),
            Expression::Call(function, arguments) => Expression::Call(*function, self.all(arguments)?),
            // Literals; the others are paths.
            other => other.clone(),
        })
    }

    fn chosen(&self, of: &Expression) -> Option<Expression> {
        let (made, types) = self.with_types(of)?;
        types.is_none_or(|(narrow, wide)| narrow == wide).then_some(made)
    }
}

/// The field with this number, in the type with more of them.
fn field<'t>((narrow, wide): Types<'t>, number: usize) -> Option<(usize, Types<'t>)> {
    let (DataType::Struct(narrow), DataType::Struct(wide)) = (narrow, wide) else { return None };
    let known = narrow.get(number)?;
    let mut found = wide.iter().enumerate().filter(|(_, one)| one.name == known.name);
    let (number, one) = found.next()?;
    found.next().is_none().then_some((number, (&known.data_type, &one.data_type)))
}

/// What an array, or a map, has.
fn item(types: Option<Types<'_>>) -> Option<Option<Types<'_>>> {
    Some(match types {
        None => None,
        Some((DataType::Array(narrow), DataType::Array(wide))) => Some((narrow, wide)),
        Some((DataType::Map(_, narrow), DataType::Map(_, wide))) => Some((narrow, wide)),
        Some(_) => return None,
    })
}
