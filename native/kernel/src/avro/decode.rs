//! Records into columns, as Spark's `from_avro` does it.

use crate::avro::program::{Field, Program, Skip, Step};
use crate::avro::wire::Wire;
use crate::fault::{Budget, Decoded, Fault};
use crate::text::{decimal, utf_8};
use crate::typed::{Column, ListColumn, StructColumn};

/// Decodes values by programs.
#[derive(Default)]
pub(crate) struct AvroDecoder;

impl AvroDecoder {
    /// Adds the row that `bytes` begin with; as in Spark, what follows does not count. After a fault, `column` may
    /// have a row that was begun.
    pub(crate) fn decode(
        &mut self,
        program: &Program,
        bytes: &[u8],
        column: &mut Column,
        budget: &mut Budget,
    ) -> Decoded<()> {
        Walk { skips: &program.skips, budget }.step(&program.step, &mut Wire::new(bytes), column)
    }
}

/// A program is checked to fit its columns.
#[cold]
fn unfit() -> Fault {
    Fault::new("its program does not fit its columns")
}

struct Walk<'d> {
    skips: &'d [Box<[Skip]>],
    budget: &'d mut Budget,
}

impl Walk<'_> {
    /// Adds a value.
    #[inline(always)]
    fn step(&mut self, step: &Step, wire: &mut Wire<'_>, column: &mut Column) -> Decoded<()> {
        match step {
            Step::Union(branches) => match branches.get(wire.index(branches.len(), "branches")?) {
                Some(branch) => self.one(branch, wire, column),
                None => Err(unfit()),
            },
            step => self.one(step, wire, column),
        }
    }

    /// Adds a value that is in no union, or in one whose branch was read.
    #[inline(always)]
    fn one(&mut self, step: &Step, wire: &mut Wire<'_>, column: &mut Column) -> Decoded<()> {
        match (step, column) {
            (Step::Null, column) => column.push_null(),
            (Step::Bytes, Column::String(texts)) => {
                let bytes = wire.bytes()?;
                if bytes.is_ascii() {
                    self.budget.take(bytes.len())?;
                    texts.push(Some(bytes))?;
                } else {
                    let text = utf_8::replaced(bytes);
                    self.budget.take(text.len())?;
                    texts.push(Some(&text))?;
                }
            }
            (Step::Long(_), Column::Long(longs)) => longs.push(wire.long()?),
            (Step::Int(_), Column::Int(ints) | Column::Date(ints)) => ints.push(wire.int()?),
            (Step::Double, Column::Double(doubles)) => doubles.push(f64::from_le_bytes(wire.fixed()?)),
            (Step::Boolean, Column::Boolean(flags)) => flags.push(wire.fixed()? == [1]),
            (Step::Long(times), Column::Timestamp(micros) | Column::TimestampNtz(micros)) => {
                let time = wire.long()?;
                micros.push(time.checked_mul(*times).ok_or_else(|| too_far(time, wire))?);
            }
            (step, column) => return self.other(step, wire, column),
        }
        Ok(())
    }

    #[inline(never)]
    fn other(&mut self, step: &Step, wire: &mut Wire<'_>, column: &mut Column) -> Decoded<()> {
        match (step, column) {
            (Step::Record(fields), Column::Struct(columns)) => return self.record(fields, wire, columns),
            (Step::Array(item), Column::Array(list)) => return self.array(item, wire, list),
            (Step::Map(value), Column::Map(list)) => return self.map(value, wire, list),
            (Step::Enum(symbols), Column::String(texts)) => {
                let Some(symbol) = symbols.get(wire.index(symbols.len(), "symbols")?) else { return Err(unfit()) };
                let Some(text) = &symbol.text else {
                    return Err(wire.fault("a symbol that the reader has", &format!("{:?}", symbol.name)));
                };
                self.budget.take(text.len())?;
                texts.push(Some(text.as_bytes()))?;
            }
            (Step::Bytes, Column::Binary(binaries)) => {
                let bytes = wire.bytes()?;
                self.budget.take(bytes.len())?;
                binaries.push(Some(bytes))?;
            }
            (Step::Fixed(length), Column::Binary(binaries)) => {
                let bytes = wire.take(*length)?;
                self.budget.take(bytes.len())?;
                binaries.push(Some(bytes))?;
            }
            (step @ (Step::Bytes | Step::Fixed(_)), Column::Decimal { digits, precision, .. }) => {
                let bytes = if let Step::Fixed(length) = step { wire.take(*length)? } else { wire.bytes()? };
                let found = number(bytes).and_then(|unscaled| decimal::fitting(unscaled, *precision));
                digits.push(found.ok_or_else(|| {
                    wire.fault(&format!("a decimal of {precision} digits at most"), &format!("{} bytes", bytes.len()))
                })?);
            }
            (Step::Float, Column::Float(floats)) => floats.push(f32::from_le_bytes(wire.fixed()?)),
            (Step::Float, Column::Double(doubles)) => doubles.push(f64::from(f32::from_le_bytes(wire.fixed()?))),
            (Step::Int(_), Column::Long(longs)) => longs.push(i64::from(wire.int()?)),
            (Step::Int(_), Column::Float(floats)) => floats.push(wire.int()? as f32),
            (Step::Int(_), Column::Double(doubles)) => doubles.push(f64::from(wire.int()?)),
            (Step::Long(_), Column::Float(floats)) => floats.push(wire.long()? as f32),
            (Step::Long(_), Column::Double(doubles)) => doubles.push(wire.long()? as f64),
            (Step::Int(times), Column::Timestamp(micros) | Column::TimestampNtz(micros)) => {
                let time = i64::from(wire.int()?);
                micros.push(time.checked_mul(*times).ok_or_else(|| too_far(time, wire))?);
            }
            (Step::Member(member), Column::Struct(columns)) => return self.member(member, wire, columns),
            (Step::Default(bytes, step), column) => return self.step(step, &mut Wire::new(bytes), column),
            (Step::Refused(why), _) => return Err(Fault::new(&**why)),
            _ => return Err(unfit()),
        }
        Ok(())
    }

    fn record(&mut self, fields: &[Field], wire: &mut Wire<'_>, columns: &mut StructColumn) -> Decoded<()> {
        for field in fields {
            match field {
                Field::Column(at, step) => {
                    let Some(column) = columns.child(*at) else { return Err(unfit()) };
                    if let Err(fault) = self.step(step, wire, column) {
                        return Err(fault.within(columns.name(*at)));
                    }
                }
                Field::Skip(skip) => wire.skip(skip, self.skips, 0)?,
            }
        }
        columns.push_complete();
        Ok(())
    }

    fn member(&mut self, member: &Field, wire: &mut Wire<'_>, columns: &mut StructColumn) -> Decoded<()> {
        match member {
            Field::Column(at, step) => {
                let Some(column) = columns.child(*at) else { return Err(unfit()) };
                if let Err(fault) = self.step(step, wire, column) {
                    return Err(fault.within(columns.name(*at)));
                }
            }
            Field::Skip(skip) => wire.skip(skip, self.skips, 0)?,
        }
        columns.push();
        Ok(())
    }

    fn array(&mut self, item: &Step, wire: &mut Wire<'_>, list: &mut ListColumn) -> Decoded<()> {
        // Items may be no bytes, both here and there.
        let item_bytes = list.item_bytes().max(1);
        loop {
            let count = wire.block()?;
            if count == 0 {
                return Ok(list.push()?);
            }
            for _ in 0..count {
                self.budget.take(item_bytes)?;
                self.step(item, wire, list.items())?;
            }
        }
    }

    fn map(&mut self, value: &Step, wire: &mut Wire<'_>, list: &mut ListColumn) -> Decoded<()> {
        let item_bytes = list.item_bytes();
        loop {
            let count = wire.block()?;
            if count == 0 {
                return Ok(list.push()?);
            }
            let Column::Struct(entries) = list.items() else { return Err(unfit()) };
            for _ in 0..count {
                self.budget.take(item_bytes)?;
                match entries.child(0) {
                    Some(keys) => self.one(&Step::Bytes, wire, keys)?,
                    None => return Err(unfit()),
                }
                match entries.child(1) {
                    Some(values) => self.step(value, wire, values)?,
                    None => return Err(unfit()),
                }
                entries.push_complete();
            }
        }
    }
}

#[cold]
fn too_far(time: i64, wire: &Wire<'_>) -> Fault {
    wire.fault("a time whose microseconds are 64 bits", &format!("{time} milliseconds"))
}

/// The number that bytes are in two's complement, the highest first; `None` if there is none, or it is beyond 128 bits.
fn number(bytes: &[u8]) -> Option<i128> {
    let sign = if *bytes.first()? < 0x80 { 0 } else { 0xff };
    let (beyond, last) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut padded = [sign; 16];
    for (to, from) in padded.iter_mut().rev().zip(last.iter().rev()) {
        *to = *from;
    }
    let value = i128::from_be_bytes(padded);
    (beyond.iter().all(|byte| *byte == sign) && (value < 0) == (sign != 0)).then_some(value)
}
