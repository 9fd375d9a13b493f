//! Values as values of another type, as `CAST` of Spark in ANSI mode makes them, in UTC.

use crate::error::{Error, Result};
use crate::filter::arithmetic::bounds;
use crate::filter::value::{failed, Value};
use crate::text::{calendar, decimal, time};
use crate::typed::DataType;
use std::borrow::Cow;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// So many characters of a text that cannot be cast are shown.
const SHOWN_MAX: usize = 60;

/// `value` of type `from` as one of type `to`.
pub(crate) fn cast<'a>(value: &Value<'a>, from: &DataType, to: &DataType) -> Result<Value<'a>> {
    let made = match value {
        Value::Null => Some(Value::Null),
        Value::Boolean(flag) => of_boolean(*flag, to),
        Value::Long(number) => of_integer(*number, from, to),
        Value::Double(number) => of_double(*number, to),
        Value::Decimal(digits) => of_decimal(*digits, from, to),
        Value::Text(text) => of_text(text, to),
        Value::Nested(..) => None,
    };
    made.ok_or_else(|| refused(value, from, to))
}

#[cold]
fn refused(value: &Value<'_>, from: &DataType, to: &DataType) -> Error {
    let shown = match value {
        Value::Null => "null".to_owned(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Long(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Decimal(digits) => digits.to_string(),
        Value::Text(text) => {
            let shown: String = String::from_utf8_lossy(text).chars().take(SHOWN_MAX).collect();
            format!("{shown:?}")
        }
        Value::Nested(..) => "it".to_owned(),
    };
    failed(format!("{shown}, a {from}, is no {to}"))
}

fn owned<'a>(text: String) -> Option<Value<'a>> {
    Some(Value::Text(Cow::Owned(text.into_bytes())))
}

fn of_boolean<'a>(flag: bool, to: &DataType) -> Option<Value<'a>> {
    match to {
        DataType::Boolean => Some(Value::Boolean(flag)),
        DataType::String => owned(flag.to_string()),
        DataType::Float | DataType::Double => Some(Value::Double(f64::from(u8::from(flag)))),
        DataType::Decimal { .. } => of_integer(i64::from(flag), &DataType::Int, to),
        _ => Some(Value::Long(i64::from(flag))),
    }
}

fn of_integer<'a>(number: i64, from: &DataType, to: &DataType) -> Option<Value<'a>> {
    match (from, to) {
        (DataType::Date, DataType::Timestamp | DataType::TimestampNtz) => {
            number.checked_mul(MICROS_PER_DAY).map(Value::Long)
        }
        (DataType::Timestamp | DataType::TimestampNtz, DataType::Date) => {
            Some(Value::Long(number.div_euclid(MICROS_PER_DAY)))
        }
        (DataType::Timestamp, DataType::Long) => Some(Value::Long(number.div_euclid(MICROS_PER_SECOND))),
        (DataType::Timestamp, DataType::Double) => Some(Value::Double(number as f64 / MICROS_PER_SECOND as f64)),
        (DataType::Date, DataType::String) => owned(date_text(number)),
        (DataType::Timestamp | DataType::TimestampNtz, DataType::String) => owned(time_text(number)),
        (_, DataType::String) => owned(number.to_string()),
        (_, DataType::Boolean) => Some(Value::Boolean(number != 0)),
        (_, DataType::Float) => Some(Value::Double(f64::from(number as f32))),
        (_, DataType::Double) => Some(Value::Double(number as f64)),
        (_, DataType::Decimal { precision, scale }) => {
            let digits = i128::from(number).checked_mul(decimal::power(*scale)?)?;
            decimal::fitting(digits, *precision).map(Value::Decimal)
        }
        (_, DataType::Byte | DataType::Short | DataType::Int | DataType::Long) => within(number, to),
        (_, same) if same == from => Some(Value::Long(number)),
        (DataType::Timestamp, DataType::TimestampNtz) | (DataType::TimestampNtz, DataType::Timestamp) => {
            Some(Value::Long(number))
        }
        _ => None,
    }
}

/// An integer that has to fit into a type.
fn within<'a>(number: i64, to: &DataType) -> Option<Value<'a>> {
    let (least, most) = bounds(to);
    (number >= least && number <= most).then_some(Value::Long(number))
}

fn of_double<'a>(number: f64, to: &DataType) -> Option<Value<'a>> {
    match to {
        DataType::Double => Some(Value::Double(number)),
        DataType::Float => Some(Value::Double(f64::from(number as f32))),
        DataType::Boolean => Some(Value::Boolean(number != 0.0)),
        DataType::Byte | DataType::Short | DataType::Int | DataType::Long => {
            let (least, most) = bounds(to);
            // As in Spark: the bounds as floating point, so 2 to the power of 63 becomes the most bigint.
            (number.floor() <= most as f64 && number.ceil() >= least as f64).then_some(Value::Long(number as i64))
        }
        _ => None,
    }
}

fn of_decimal<'a>(digits: i128, from: &DataType, to: &DataType) -> Option<Value<'a>> {
    let DataType::Decimal { scale: from_scale, .. } = from else { return None };
    let unit = decimal::power(*from_scale)?;
    match to {
        DataType::Decimal { precision, scale } => {
            decimal::rescale(digits, *from_scale, *precision, *scale).map(Value::Decimal)
        }
        DataType::Boolean => Some(Value::Boolean(digits != 0)),
        DataType::Double => decimal::double(digits, *from_scale).map(Value::Double),
        DataType::Float => {
            format!("{digits}e-{from_scale}").parse::<f32>().ok().map(|number| Value::Double(f64::from(number)))
        }
        DataType::Byte | DataType::Short | DataType::Int | DataType::Long => {
            within(i64::try_from(digits.checked_div(unit)?).ok()?, to)
        }
        DataType::String => owned(decimal::text(digits, *from_scale)),
        _ => None,
    }
}

fn of_text<'a>(text: &Cow<'a, [u8]>, to: &DataType) -> Option<Value<'a>> {
    let trimmed = time::trimmed(text);
    match to {
        DataType::String | DataType::Binary => Some(Value::Text(text.clone())),
        DataType::Boolean => flag(trimmed).map(Value::Boolean),
        DataType::Byte | DataType::Short | DataType::Int | DataType::Long => within(integer(trimmed)?, to),
        DataType::Double => double(text).map(Value::Double),
        DataType::Float => float(text).map(|number| Value::Double(f64::from(number))),
        DataType::Decimal { precision, scale } => {
            decimal::parse(blanks_trimmed(text), *precision, *scale).map(Value::Decimal)
        }
        DataType::Date => time::cast_date(text).map(|days| Value::Long(i64::from(days))),
        DataType::Timestamp => time::cast_timestamp(text).map(Value::Long),
        DataType::TimestampNtz => time::cast_timestamp_ntz(text).map(Value::Long),
        _ => None,
    }
}

fn flag(text: &[u8]) -> Option<bool> {
    match text.to_ascii_lowercase().as_slice() {
        b"t" | b"true" | b"y" | b"yes" | b"1" => Some(true),
        b"f" | b"false" | b"n" | b"no" | b"0" => Some(false),
        _ => None,
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    // A sign, and digits of ASCII: the grammar of Rust.
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// As Java's `String.trim`.
fn blanks_trimmed(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| *byte > b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|byte| *byte > b' ').map_or(begin, |last| last + 1);
    text.get(begin..end).unwrap_or_default()
}

/// A text in Java's grammar of decimal floating point, which may end with the letter of a type; `None` for words.
fn plain(text: &[u8]) -> Option<&str> {
    let trimmed = blanks_trimmed(text);
    let number = trimmed.strip_suffix(b"d").or(trimmed.strip_suffix(b"D")).unwrap_or(trimmed);
    let number =
        number.strip_suffix(b"f").or(number.strip_suffix(b"F")).filter(|_| number == trimmed).unwrap_or(number);
    let known = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    (number.iter().all(known)).then_some(())?;
    std::str::from_utf8(number).ok()
}

fn word(text: &[u8]) -> Option<f64> {
    let trimmed = blanks_trimmed(text);
    match trimmed.to_ascii_lowercase().as_slice() {
        b"inf" | b"+inf" | b"infinity" | b"+infinity" => Some(f64::INFINITY),
        b"-inf" | b"-infinity" => Some(f64::NEG_INFINITY),
        b"nan" => Some(f64::NAN),
        // Only as Java writes it may it have a sign.
        _ if matches!(trimmed, b"+NaN" | b"-NaN") => Some(f64::NAN),
        _ => None,
    }
}

fn double(text: &[u8]) -> Option<f64> {
    word(text).or_else(|| plain(text)?.parse().ok())
}

fn float(text: &[u8]) -> Option<f32> {
    word(text).map(|number| number as f32).or_else(|| plain(text)?.parse().ok())
}

fn date_text(days: i64) -> String {
    let (year, month, day) = calendar::civil(days);
    let year = match year {
        10_000.. => format!("+{year}"),
        0.. => format!("{year:04}"),
        _ => format!("-{:04}", year.unsigned_abs()),
    };
    format!("{year}-{month:02}-{day:02}")
}

fn time_text(micros: i64) -> String {
    let of_day = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (of_day / MICROS_PER_SECOND, of_day % MICROS_PER_SECOND);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{} {hours:02}:{minutes:02}:{seconds:02}", date_text(micros.div_euclid(MICROS_PER_DAY)));
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_text() {
        for (micros, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (1_577_836_800_120_000, "2020-01-01 00:00:00.12"),
            (253_402_300_800_000_000, "+10000-01-01 00:00:00"),
            (-62_198_755_200_000_000, "-0001-01-01 00:00:00"),
        ] {
            assert_eq!(time_text(micros), expected);
        }
    }

    #[test]
    fn numbers_of_texts() {
        for (text, expected) in [
            (" 1.5 ", Some(1.5)),
            ("1e3", Some(1000.0)),
            ("1.", Some(1.0)),
            (".5f", Some(0.5)),
            ("1D", Some(1.0)),
            ("iNf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("", None),
            ("1df", None),
            ("e", None),
            ("0x1", None),
        ] {
            assert_eq!(double(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(integer(b"+12"), Some(12));
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(flag(b"YES"), Some(true));
        assert_eq!(flag(b"2"), None);
    }
}
