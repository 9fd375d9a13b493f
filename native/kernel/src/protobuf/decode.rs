//! Messages into columns, as Spark's `from_protobuf` does it.

use crate::fault::{Budget, Decoded, Fault};
use crate::protobuf::program::{Enum, Field, Kind, Label, Message, Program};
use crate::protobuf::whole::{self, UnfitTime};
use crate::protobuf::wire::{Tag, Wire, LENGTH, VARINT};
use crate::text::utf_8::replaced;
use crate::typed::{Column, ListColumn, StructColumn};

/// A value with more times that do not fit is not worth a look whether they are replaced.
const UNFIT_TIMES_MAX: usize = 64;

/// Seconds and nanoseconds.
type Time = (i64, i32);

/// Memory that is used again for each value.
#[derive(Default)]
pub(crate) struct ProtobufDecoder {
    /// The last value of each time, to which another occurrence of it adds.
    times: Vec<Time>,
    unfit_times: Vec<UnfitTime>,
}

impl ProtobufDecoder {
    /// Adds the row that `bytes` are. After a fault, `column` may have a row that was begun.
    pub(crate) fn decode(
        &mut self,
        program: &Program,
        bytes: &[u8],
        column: &mut Column,
        budget: &mut Budget,
    ) -> Decoded<()> {
        let Column::Struct(columns) = column else { return Err(unfit()) };
        self.times.resize(program.times, (0, 0));
        let row = columns.rows();
        self.unfit_times.clear();
        let (times, unfit_times) = (&mut self.times, &mut self.unfit_times);
        let mut walk = Walk { times, unfit_times, budget, depth: 0 };
        walk.message(&program.message, &mut Wire::new(bytes), columns, None)?;
        match program.message.demanding || !self.unfit_times.is_empty() {
            true => whole::check(&program.message, columns, row..row + 1, &self.unfit_times),
            false => Ok(()),
        }
    }
}

/// A program is checked to fit its columns.
#[cold]
fn unfit() -> Fault {
    Fault::new("its program does not fit its columns")
}

struct Walk<'d> {
    times: &'d mut [Time],
    unfit_times: &'d mut Vec<UnfitTime>,
    budget: &'d mut Budget,
    /// How many messages it is in.
    depth: usize,
}

/// Adds a number, unless it stands for a missing one.
macro_rules! keep {
    ($column:expr, $value:expr, $implicit:expr) => {{
        let value = $value;
        if !$implicit || value != 0 {
            $column.push(value);
        }
    }};
}

impl Walk<'_> {
    /// Adds the row that the rest of `wire` is, or that it is up to the end of `group`.
    fn message(
        &mut self,
        message: &Message,
        wire: &mut Wire<'_>,
        columns: &mut StructColumn,
        group: Option<u32>,
    ) -> Decoded<()> {
        let row = columns.rows();
        let mut expected = 0;
        while let Some(tag) = wire.tag(group)? {
            let Some((at, field)) = message.find(tag.number(), expected) else {
                wire.skip(tag, self.depth)?;
                continue;
            };
            expected = if field.is_repeated() { at } else { at + 1 };
            if let Err(fault) = self.field(message, field, tag, wire, columns, row) {
                return Err(match field.column {
                    Some(column) => fault.within(columns.name(column)),
                    None => fault,
                });
            }
        }
        self.end(message, columns, row)
    }

    /// Ends a row: what was not written is null, or its default.
    #[inline]
    fn end(&mut self, message: &Message, columns: &mut StructColumn, row: usize) -> Decoded<()> {
        for field in &message.fields {
            let Some(column) = field.column.and_then(|at| columns.child(at)) else { continue };
            match column {
                Column::Array(list) | Column::Map(list) => list.push()?,
                column if column.rows() > row => {}
                column => match &field.label {
                    Label::Default(bytes) => self.one(field, &mut Wire::new(bytes), column, false)?,
                    _ => column.push_null(),
                },
            }
        }
        columns.push_complete();
        Ok(())
    }

    #[inline(always)]
    fn field(
        &mut self,
        message: &Message,
        field: &Field,
        tag: Tag,
        wire: &mut Wire<'_>,
        columns: &mut StructColumn,
        row: usize,
    ) -> Decoded<()> {
        let wire_type = tag.wire_type();
        if wire_type == field.kind.wire_type() {
            if field.is_repeated() {
                match field.column.and_then(|at| columns.child(at)) {
                    Some(Column::Array(list) | Column::Map(list)) => self.item(field, wire, list),
                    _ => Err(unfit()),
                }
            } else {
                self.singular(message, field, tag, wire, columns, row)
            }
        } else if wire_type == LENGTH && field.is_packable() {
            match field.column.and_then(|at| columns.child(at)) {
                Some(Column::Array(list)) => {
                    let mut items = wire.nested()?;
                    while !items.is_empty() {
                        self.item(field, &mut items, list)?;
                    }
                    Ok(())
                }
                _ => Err(unfit()),
            }
        } else if self.depth == 0 {
            // Spark takes an unknown field with a known number for a fault, but only here.
            Err(wire.fault(&format!("wire type {}", field.kind.wire_type()), &wire_type.to_string()))
        } else {
            wire.skip(tag, self.depth)
        }
    }

    /// An element of a list, or an entry of a map.
    #[inline(always)]
    fn item(&mut self, field: &Field, wire: &mut Wire<'_>, list: &mut ListColumn) -> Decoded<()> {
        self.budget.take(list.item_bytes())?;
        if let Kind::Enum(of) = &field.kind {
            return match self.enum_number(of, wire)? {
                Some(number) => self.enum_name(of, number, list.items()),
                None => Ok(()),
            };
        }
        self.one(field, wire, list.items(), false)
    }

    /// The last value counts; several messages are merged.
    #[inline(always)]
    fn singular(
        &mut self,
        message: &Message,
        field: &Field,
        tag: Tag,
        wire: &mut Wire<'_>,
        columns: &mut StructColumn,
        row: usize,
    ) -> Decoded<()> {
        let number = match &field.kind {
            Kind::Enum(of) => match self.enum_number(of, wire)? {
                None => return Ok(()),
                number => number,
            },
            _ => None,
        };
        for &other in message.oneof(field) {
            let Some(column) = columns.child(other).filter(|_| Some(other) != field.column) else { continue };
            if column.rows() > row {
                self.anew(column)?;
                column.truncate(row);
            }
        }
        let Some(column) = field.column.and_then(|at| columns.child(at)) else {
            return if number.is_some() { Ok(()) } else { wire.skip(tag, self.depth) };
        };
        let again = column.rows() > row;
        let implicit = field.label == Label::Implicit;
        match (&field.kind, column) {
            (Kind::Message(_) | Kind::Group(_), column @ Column::Struct(_)) if again => {
                self.anew(column)?;
                if let Column::Struct(inner) = &mut *column {
                    inner.reopen();
                }
                self.one(field, wire, column, false)
            }
            (Kind::Timestamp, column) => {
                let before = self.times.get(field.time).filter(|_| again).copied().unwrap_or_default();
                column.truncate(row);
                let time = self.time(wire, before)?;
                if let Some(last) = self.times.get_mut(field.time) {
                    *last = time;
                }
                self.push_time(field, time, column)
            }
            (kind, column) => {
                if again {
                    column.truncate(row);
                }
                match (kind, number) {
                    (Kind::Enum(of), Some(number)) if implicit && number == of.first() => Ok(()),
                    (Kind::Enum(of), Some(number)) => self.enum_name(of, number, column),
                    _ => self.one(field, wire, column, implicit),
                }
            }
        }
    }

    /// Takes what a row of messages needs once more, since to write it again is work that a few bytes ask for.
    #[cold]
    fn anew(&mut self, column: &Column) -> Decoded<()> {
        match column {
            Column::Struct(columns) => self.budget.take(columns.row_bytes()),
            _ => Ok(()),
        }
    }

    /// Adds a value. `implicit`: not if it stands for a missing one.
    #[inline(always)]
    fn one(&mut self, field: &Field, wire: &mut Wire<'_>, column: &mut Column, implicit: bool) -> Decoded<()> {
        match (&field.kind, column) {
            (Kind::String { strict }, Column::String(texts)) => {
                let bytes = wire.bytes()?;
                if implicit && bytes.is_empty() {
                    return Ok(());
                }
                if let Err(wrong) = std::str::from_utf8(bytes) {
                    if *strict {
                        let found = format!("{} bytes that are none after {}", bytes.len(), wrong.valid_up_to());
                        return Err(wire.fault("UTF-8", &found));
                    }
                    let text = replaced(bytes);
                    self.budget.take(text.len())?;
                    return Ok(texts.push(Some(&text))?);
                }
                self.budget.take(bytes.len())?;
                texts.push(Some(bytes))?;
            }
            (Kind::Int64, Column::Long(longs)) => keep!(longs, wire.varint()? as i64, implicit),
            (Kind::Int32, Column::Int(ints)) => keep!(ints, wire.varint()? as i32, implicit),
            (Kind::Double, Column::Double(doubles)) => {
                let bits = u64::from_le_bytes(wire.fixed()?);
                if !implicit || bits != 0 {
                    doubles.push(f64::from_bits(bits));
                }
            }
            (Kind::Bool, Column::Boolean(flags)) => {
                let flag = wire.varint()? != 0;
                if !implicit || flag {
                    flags.push(flag);
                }
            }
            (Kind::Message(_) | Kind::Group(_), Column::Struct(columns)) => return self.nested(field, wire, columns),
            (Kind::Enum(of), column) => {
                let number = wire.varint()? as i32;
                return self.enum_name(of, number, column);
            }
            (Kind::Timestamp, column) => {
                let time = self.time(wire, (0, 0))?;
                return self.push_time(field, time, column);
            }
            (Kind::Bytes, Column::Binary(binaries)) => {
                let bytes = wire.bytes()?;
                if !implicit || !bytes.is_empty() {
                    self.budget.take(bytes.len())?;
                    binaries.push(Some(bytes))?;
                }
            }
            (Kind::Float, Column::Float(floats)) => {
                let bits = u32::from_le_bytes(wire.fixed()?);
                if !implicit || bits != 0 {
                    floats.push(f32::from_bits(bits));
                }
            }
            (Kind::Sint32, Column::Int(ints)) => {
                let bits = wire.varint()? as u32;
                keep!(ints, (bits >> 1) as i32 ^ -((bits & 1) as i32), implicit);
            }
            (Kind::Sint64, Column::Long(longs)) => {
                let bits = wire.varint()?;
                keep!(longs, (bits >> 1) as i64 ^ -((bits & 1) as i64), implicit);
            }
            (Kind::Fixed32, Column::Int(ints)) => keep!(ints, i32::from_le_bytes(wire.fixed()?), implicit),
            (Kind::Fixed64, Column::Long(longs)) => keep!(longs, i64::from_le_bytes(wire.fixed()?), implicit),
            _ => return Err(unfit()),
        }
        Ok(())
    }

    /// The number of an enum's value; `None` if it does not count.
    #[inline]
    fn enum_number(&mut self, of: &Enum, wire: &mut Wire<'_>) -> Decoded<Option<i32>> {
        let number = wire.varint()? as i32;
        if !of.is_unknown(number) {
            return Ok(Some(number));
        }
        match self.depth {
            0 => Err(wire.fault("a value of its enum", &number.to_string())),
            _ => Ok(None),
        }
    }

    #[inline]
    fn enum_name(&mut self, of: &Enum, number: i32, column: &mut Column) -> Decoded<()> {
        let Column::String(texts) = column else { return Err(unfit()) };
        let made_up;
        let name = match of.name(number) {
            Some(name) => name,
            None => {
                made_up = of.made_up(number);
                &made_up
            }
        };
        self.budget.take(name.len())?;
        Ok(texts.push(Some(name.as_bytes()))?)
    }

    #[inline(never)]
    fn nested(&mut self, field: &Field, wire: &mut Wire<'_>, columns: &mut StructColumn) -> Decoded<()> {
        let outside = self.depth;
        self.depth = wire.deeper(outside)?;
        match &field.kind {
            Kind::Message(inner) => self.message(inner, &mut wire.nested()?, columns, None)?,
            Kind::Group(inner) => self.message(inner, wire, columns, Some(field.number))?,
            _ => return Err(unfit()),
        }
        self.depth = outside;
        Ok(())
    }

    /// A time that was `before`.
    #[inline(never)]
    fn time(&mut self, wire: &mut Wire<'_>, before: Time) -> Decoded<Time> {
        let depth = wire.deeper(self.depth)?;
        let (mut seconds, mut nanos) = before;
        let mut inner = wire.nested()?;
        while let Some(tag) = inner.tag(None)? {
            match (tag.number(), tag.wire_type()) {
                (1, VARINT) => seconds = inner.varint()? as i64,
                (2, VARINT) => nanos = inner.varint()? as i32,
                _ => inner.skip(tag, depth)?,
            }
        }
        Ok((seconds, nanos))
    }

    /// As in Spark, milliseconds go on from the other end beyond 64 bits, and microseconds do not. What does not fit is
    /// no fault if it is replaced.
    fn push_time(&mut self, field: &Field, (seconds, nanos): Time, column: &mut Column) -> Decoded<()> {
        let Column::Timestamp(times) = column else { return Err(unfit()) };
        let row = times.rows();
        if !self.unfit_times.is_empty() {
            self.unfit_times.retain(|noted| (noted.time, noted.row) != (field.time, row));
        }
        match seconds.wrapping_mul(1000).checked_mul(1000) {
            Some(micros) => times.push(micros.wrapping_add(i64::from(nanos / 1000))),
            None => {
                let noted = UnfitTime { time: field.time, row, seconds };
                if self.unfit_times.len() == UNFIT_TIMES_MAX {
                    return Err(noted.fault());
                }
                self.unfit_times.push(noted);
                times.push(0);
            }
        }
        Ok(())
    }
}
