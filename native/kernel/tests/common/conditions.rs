//! Parts of conditions.

use evensplit_kernel::{Comparison, Expression, Source};

pub fn boxed(one: Expression) -> Box<Expression> {
    Box::new(one)
}

/// The field with this number of the value.
pub fn field(number: usize) -> Expression {
    Expression::Field(boxed(Expression::Column(Source::Value)), number)
}

pub fn compare(how: Comparison, left: Expression, right: Expression) -> Expression {
    Expression::Compare(how, boxed(left), boxed(right))
}
