//! JSON into columns, as Spark's `from_json` does it.

use crate::binary::BinaryColumn;
use crate::fault::{Budget, Decoded, Fault};
use crate::json::number::Number;
use crate::json::rewritten::Rewriter;
use crate::json::scanner::{RawString, Scanner, Sink};
use crate::json::strings;
use crate::text::{base64, decimal, time};
use crate::typed::{Column, ListColumn, StructColumn};

/// Memory that is used again for each value.
#[derive(Default)]
pub(crate) struct JsonDecoder {
    open: Vec<u8>,
    key: Vec<u8>,
    text: Vec<u8>,
}

impl JsonDecoder {
    /// Adds the row that `bytes` are. After a fault, `column` may have a row that was begun.
    #[inline]
    pub(crate) fn decode(&mut self, bytes: &[u8], column: &mut Column, budget: &mut Budget) -> Decoded<()> {
        self.open.clear();
        let scan = Scanner::new(bytes, &mut self.open);
        Walk { scan, key: &mut self.key, text: &mut self.text, budget }.root(column)
    }
}

struct Walk<'a, 'd> {
    scan: Scanner<'a, 'd>,
    key: &'d mut Vec<u8>,
    text: &'d mut Vec<u8>,
    budget: &'d mut Budget,
}

impl<'a> Walk<'a, '_> {
    /// As in Spark, nothing at all is null, and what follows the object does not count.
    fn root(&mut self, column: &mut Column) -> Decoded<()> {
        match (self.scan.next(), column) {
            (Some(next), Column::Struct(fields)) => self.object(Some(next), fields),
            (Some(_), other) => self.value(other),
            (None, column) => {
                column.push_null();
                Ok(())
            }
        }
    }

    #[inline]
    fn value(&mut self, column: &mut Column) -> Decoded<()> {
        let next = self.scan.next();
        if next == Some(b'n') {
            self.scan.word("null")?;
            column.push_null();
            return Ok(());
        }
        match column {
            Column::String(texts) => return self.string(next, texts),
            Column::Struct(fields) => return self.object(next, fields),
            Column::Long(longs) => longs.push(self.integer(i64::MIN, i64::MAX, "bigint")?),
            Column::Int(ints) => ints.push(self.small(i32::MIN, i32::MAX, "int")?),
            Column::Double(doubles) => doubles.push(self.double(next)?),
            Column::Boolean(flags) => flags.push(self.flag(next)?),
            Column::Array(list) => return self.array(next, list),
            Column::Map(list) => return self.map(next, list),
            Column::Short(shorts) => shorts.push(self.small(i16::MIN, i16::MAX, "smallint")?),
            // As in Spark, 128 to 255 are taken for the byte with these bits.
            Column::Byte(bytes) => bytes.push(self.integer(-128, 255, "tinyint")? as i8),
            Column::Float(floats) => floats.push(self.float(next)?),
            _ => return self.rare(next, column),
        }
        Ok(())
    }

    /// The number that is next; `None` for one of the words that stand for what is no number.
    #[inline(always)]
    fn number(&mut self, what: &str) -> Decoded<Option<Number<'a>>> {
        match self.scan.peek() {
            Some(b'-' | b'0'..=b'9' | b'N' | b'I' | b'+') => self.scan.number(),
            _ => Err(self.scan.expected(what)),
        }
    }

    #[inline(always)]
    fn integer(&mut self, least: i64, most: i64, name: &str) -> Decoded<i64> {
        let begin = self.scan.at();
        let found = self.number(name)?.and_then(|number| number.long());
        match found {
            Some(value) if value >= least && value <= most => Ok(value),
            _ => Err(self.unfit(begin, name)),
        }
    }

    #[inline(always)]
    fn small<T: Into<i64> + TryFrom<i64>>(&mut self, least: T, most: T, name: &str) -> Decoded<T> {
        let begin = self.scan.at();
        let value = self.integer(least.into(), most.into(), name)?;
        T::try_from(value).map_err(|_| self.unfit(begin, name))
    }

    /// What was passed over since `begin` is no value of the type with this name.
    #[cold]
    fn unfit(&self, begin: usize, name: &str) -> Fault {
        let found = String::from_utf8_lossy(self.scan.since(begin)).into_owned();
        Fault::new(format!("byte {begin}: expected {name}, found {found:?}"))
    }

    #[inline(always)]
    fn flag(&mut self, next: Option<u8>) -> Decoded<bool> {
        match next {
            Some(b't') => self.scan.word("true").map(|()| true),
            Some(b'f') => self.scan.word("false").map(|()| false),
            _ => Err(self.scan.expected("boolean")),
        }
    }

    #[inline(always)]
    fn double(&mut self, next: Option<u8>) -> Decoded<f64> {
        let begin = self.scan.at();
        match next {
            Some(b'"' | b'\'') => self.named(begin, "double"),
            _ => match self.number("double")? {
                Some(number) => Ok(number.double()),
                None => not_finite(self.scan.since(begin)).ok_or_else(|| self.unfit(begin, "double")),
            },
        }
    }

    fn float(&mut self, next: Option<u8>) -> Decoded<f32> {
        let begin = self.scan.at();
        match next {
            Some(b'"' | b'\'') => self.named(begin, "float").map(|value| value as f32),
            _ => match self.number("float")? {
                Some(number) => Ok(number.float()),
                None => not_finite(self.scan.since(begin)).map(|v| v as f32).ok_or_else(|| self.unfit(begin, "float")),
            },
        }
    }

    /// What is no number and no finite one, as a string.
    #[cold]
    fn named(&mut self, begin: usize, name: &str) -> Decoded<f64> {
        let raw = self.scan.string()?;
        not_finite(raw.bytes).ok_or_else(|| self.unfit(begin, name))
    }

    #[inline(always)]
    fn string(&mut self, next: Option<u8>, texts: &mut BinaryColumn) -> Decoded<()> {
        match next {
            Some(b'"' | b'\'') => {
                let raw = self.scan.string()?;
                self.push_text(raw, texts)
            }
            _ => self.rewritten(next, texts),
        }
    }

    /// Whatever is no string, as text.
    #[inline(never)]
    fn rewritten(&mut self, next: Option<u8>, texts: &mut BinaryColumn) -> Decoded<()> {
        let mut written = String::new();
        let mut rewriter = Rewriter::new(&mut written);
        if let Some(b'{' | b'[') = next {
            self.scan.nested(&mut rewriter)?;
        } else {
            let begin = self.scan.at();
            let number = self.scan.scalar()?;
            rewriter.scalar(self.scan.since(begin), number);
        }
        self.budget.take(written.len())?;
        Ok(texts.push(Some(written.as_bytes()))?)
    }

    #[inline(always)]
    fn push_text(&mut self, raw: RawString<'_>, texts: &mut BinaryColumn) -> Decoded<()> {
        let text = strings::text(raw, self.text);
        self.budget.take(text.len())?;
        Ok(texts.push(Some(text))?)
    }

    #[inline]
    fn object(&mut self, next: Option<u8>, fields: &mut StructColumn) -> Decoded<()> {
        if next != Some(b'{') {
            return Err(self.scan.expected("an object"));
        }
        self.scan.enter(b'}')?;
        let row = fields.rows();
        let (mut expected, mut written) = (0, 0);
        if self.scan.next() == Some(b'}') {
            self.scan.leave();
            fields.push();
            return Ok(());
        }
        loop {
            self.scan.next();
            let number = match fields.seen.expect(self.scan.rest(), expected) {
                Some((length, number)) => {
                    self.scan.skip_bytes(length);
                    expected += 1;
                    number
                }
                None => self.name(fields, &mut expected)?,
            };
            match number {
                Some(number) => {
                    if let Some(child) = fields.child(number) {
                        // The last of several counts.
                        if child.rows() > row {
                            child.truncate(row);
                            written -= 1;
                        }
                        if let Err(fault) = self.value(child) {
                            return Err(fault.within(fields.name(number)));
                        }
                        written += 1;
                    }
                }
                None => self.scan.skip_value()?,
            }
            if self.scan.is_last(b'}')? {
                break;
            }
        }
        self.scan.leave();
        match written == fields.len() {
            true => fields.push_complete(),
            false => fields.push(),
        }
        Ok(())
    }

    /// The number of the field whose name is next; `None` if it is not wanted. Passes over the colon, too.
    #[inline(never)]
    fn name(&mut self, fields: &mut StructColumn, expected: &mut usize) -> Decoded<Option<usize>> {
        let begin = self.scan.at();
        let raw = self.scan.name()?;
        let number = match strings::has_half_a_pair(raw) {
            true => None,
            false => fields.number(strings::text(raw, self.key)),
        };
        self.scan.colon()?;
        let text = self.scan.since(begin);
        // Not with blanks before the colon, which may be others the next time.
        if !raw.escaped && text.len() == raw.bytes.len() + 3 {
            *expected = fields.seen.note(text, number);
        }
        Ok(number)
    }

    fn array(&mut self, next: Option<u8>, list: &mut ListColumn) -> Decoded<()> {
        match next {
            Some(b'[') => self.items(b']', list, Self::value),
            _ => Err(self.scan.expected("an array")),
        }
    }

    fn map(&mut self, next: Option<u8>, list: &mut ListColumn) -> Decoded<()> {
        match next {
            Some(b'{') => self.items(b'}', list, Self::entry),
            _ => Err(self.scan.expected("an object")),
        }
    }

    /// A list of what `item` reads, up to `closing`; its beginning is next.
    #[inline(always)]
    fn items(
        &mut self,
        closing: u8,
        list: &mut ListColumn,
        item: impl Fn(&mut Self, &mut Column) -> Decoded<()>,
    ) -> Decoded<()> {
        self.scan.enter(closing)?;
        let item_bytes = list.item_bytes();
        if self.scan.next() != Some(closing) {
            loop {
                self.budget.take(item_bytes)?;
                item(self, list.items())?;
                if self.scan.is_last(closing)? {
                    break;
                }
            }
        }
        self.scan.leave();
        Ok(list.push()?)
    }

    fn entry(&mut self, items: &mut Column) -> Decoded<()> {
        self.scan.next();
        let raw = self.scan.name()?;
        let Column::Struct(entry) = items else { return Ok(()) };
        if let Some(Column::String(keys)) = entry.child(0) {
            self.push_text(raw, keys)?;
        }
        self.scan.colon()?;
        if let Some(value) = entry.child(1) {
            self.value(value)?;
        }
        entry.push_complete();
        Ok(())
    }

    /// The types that few schemas have.
    #[inline(never)]
    fn rare(&mut self, next: Option<u8>, column: &mut Column) -> Decoded<()> {
        let begin = self.scan.at();
        if let (Column::Decimal { digits, precision, scale }, Some(b'-' | b'0'..=b'9')) = (&mut *column, next) {
            let number = self.scan.number()?;
            let parsed = number.and_then(|number| decimal::parse(number.text, *precision, *scale));
            let name = || format!("decimal({precision},{scale})");
            digits.push(parsed.ok_or_else(|| self.unfit(begin, &name()))?);
            return Ok(());
        }
        if let (Column::Timestamp(times), Some(b'-' | b'0'..=b'9')) = (&mut *column, next) {
            let seconds = self.integer(i64::MIN, i64::MAX, "timestamp")?;
            // As in Spark, beyond 64 bits it goes on from the other end.
            times.push(seconds.wrapping_mul(1_000_000));
            return Ok(());
        }
        let name = match column {
            Column::Decimal { .. } => "decimal",
            Column::Binary(_) => "binary",
            Column::Date(_) => "date",
            Column::TimestampNtz(_) => "timestamp_ntz",
            _ => "timestamp",
        };
        if !matches!(next, Some(b'"' | b'\'')) {
            return Err(self.scan.expected(name));
        }
        let raw = match column {
            // As in Jackson, blanks of any kind may stand between the groups of base64 in double quotes.
            Column::Binary(_) if next == Some(b'"') => self.scan.string_with_controls()?,
            _ => self.scan.string()?,
        };
        let text = strings::text(raw, self.text);
        let read = match column {
            Column::Decimal { digits, precision, scale } => {
                let plain: Vec<u8> = text.iter().copied().filter(|&byte| byte != b',').collect();
                decimal::parse(&plain, *precision, *scale).map(|value| digits.push(value))
            }
            Column::Date(days) => time::date(text).map(|value| days.push(value)),
            Column::Timestamp(times) => time::timestamp(text).map(|value| times.push(value)),
            Column::TimestampNtz(times) => time::timestamp_ntz(text).map(|value| times.push(value)),
            Column::Binary(bytes) => {
                let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
                match base64::decode(text, &mut decoded) {
                    Some(()) => {
                        self.budget.take(decoded.len())?;
                        Some(bytes.push(Some(&decoded))?)
                    }
                    None => None,
                }
            }
            _ => None,
        };
        read.ok_or_else(|| self.unfit(begin, name))
    }
}

/// What is no number, or infinite.
pub(super) fn not_finite(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => Some(f64::NAN),
        b"Infinity" | b"+Infinity" | b"+INF" => Some(f64::INFINITY),
        b"-Infinity" | b"-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
