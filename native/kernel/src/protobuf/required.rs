//! Whether fields that have to be there are: only known at the end of a message, whose parts may come in pieces.

use crate::fault::{Decoded, Fault};
use crate::protobuf::program::{Kind, Label, Message};
use crate::typed::{Column, StructColumn};
use std::ops::Range;

/// Checks `rows` of the messages in `columns`.
pub(super) fn check(message: &Message, columns: &mut StructColumn, rows: Range<usize>) -> Decoded<()> {
    for field in &message.fields {
        let Some(at) = field.column else { continue };
        if field.label == Label::Required {
            for row in rows.clone() {
                if columns.is_valid(row) && !columns.child(at).is_some_and(|column| column.is_valid(row)) {
                    return Err(Fault::new("a required field is missing").within(columns.name(at)));
                }
            }
        }
        let (Kind::Message(inner) | Kind::Group(inner)) = &field.kind else { continue };
        if !inner.demanding {
            continue;
        }
        let checked = match columns.child(at) {
            Some(Column::Struct(fields)) => check(inner, fields, rows.clone()),
            Some(Column::Array(list) | Column::Map(list)) => {
                let items = list.items_of(rows.clone());
                match list.items() {
                    Column::Struct(fields) => check(inner, fields, items),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        };
        checked.map_err(|fault| fault.within(columns.name(at)))?;
    }
    Ok(())
}
