//! What is only known at the end of a message, whose parts may come in pieces and be replaced.

use crate::fault::{Decoded, Fault};
use crate::protobuf::program::{Kind, Label, Message};
use crate::typed::{Column, StructColumn};
use std::ops::Range;

/// A time that 64 bits of microseconds cannot hold.
pub(super) struct UnfitTime {
    /// Which of the times it is.
    pub(super) time: usize,
    pub(super) row: usize,
    pub(super) seconds: i64,
}

impl UnfitTime {
    #[cold]
    pub(super) fn fault(&self) -> Fault {
        Fault::new(format!("expected a time in 64 bits of microseconds, found {} seconds", self.seconds))
    }
}

/// Whether `rows` of the messages in `columns` have the fields that have to be there, and times that fit.
pub(super) fn check(
    message: &Message,
    columns: &mut StructColumn,
    rows: Range<usize>,
    unfit_times: &[UnfitTime],
) -> Decoded<()> {
    for field in &message.fields {
        let Some(at) = field.column else { continue };
        if field.label == Label::Required {
            for row in rows.clone() {
                if columns.is_valid(row) && !columns.child(at).is_some_and(|column| column.is_valid(row)) {
                    return Err(Fault::new("a required field is missing").within(columns.name(at)));
                }
            }
        }
        let Some(column) = columns.child(at) else { continue };
        let (column, rows) = match column {
            Column::Array(list) | Column::Map(list) => {
                let items = list.items_of(rows.clone());
                (list.items(), items)
            }
            column => (column, rows.clone()),
        };
        let checked = match (&field.kind, column) {
            (Kind::Message(inner) | Kind::Group(inner), Column::Struct(fields)) => {
                check(inner, fields, rows, unfit_times)
            }
            (Kind::Timestamp, column) => {
                let mut mine = unfit_times.iter().filter(|one| one.time == field.time);
                // Those that were replaced by nothing are null, or gone.
                let there = mine.find(|one| one.row < column.rows() && column.is_valid(one.row));
                there.map_or(Ok(()), |one| Err(one.fault()))
            }
            _ => Ok(()),
        };
        checked.map_err(|fault| fault.within(columns.name(at)))?;
    }
    Ok(())
}
