//! Decimals: exact, rounded half up.

use crate::text::{digits, sign};

/// The most digits that a decimal has.
const DIGITS_MAX: usize = 38;

/// Java divides by no higher power of ten.
const POWER_MAX: i64 = 646_456_993;

/// The digits without the point of what `text` says, with `scale` digits after the point; `None` if it is no number in
/// the grammar of Java's `BigDecimal`, or needs more than `precision` digits.
pub(crate) fn parse(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (negative, rest) = sign(text);
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => digits(rest),
        rest => (&[][..], rest),
    };
    let exponent = match rest {
        [] => 0,
        [b'e' | b'E', rest @ ..] => exponent(rest)?,
        _ => return None,
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale_given = i64::try_from(fraction.len()).ok()? - exponent;
    i32::try_from(scale_given).ok()?;
    let shift = i64::from(scale) - scale_given;
    let magnitude = rescaled(whole, fraction, shift)?;
    fitting(if negative { -magnitude } else { magnitude }, precision)
}

/// `unscaled` if it has at most `precision` digits.
pub(crate) fn fitting(unscaled: i128, precision: u8) -> Option<i128> {
    (unscaled.unsigned_abs() < power(precision)?.unsigned_abs()).then_some(unscaled)
}

/// `unscaled`, which has `from` digits after the point, with `scale` of them, rounded half up.
pub(crate) fn rescale(unscaled: i128, from: u8, precision: u8, scale: u8) -> Option<i128> {
    let made = match scale.checked_sub(from) {
        Some(more) => unscaled.checked_mul(power(more)?)?,
        None => {
            let unit = power(from - scale)?;
            let (whole, rest) = (unscaled.checked_div(unit)?, unscaled.checked_rem(unit)?);
            let away = i128::from(rest.unsigned_abs() >= unit.unsigned_abs() / 2);
            whole + if unscaled < 0 { -away } else { away }
        }
    };
    fitting(made, precision)
}

/// The nearest floating point number.
pub(crate) fn double(unscaled: i128, scale: u8) -> Option<f64> {
    const EXACT_MAX: u128 = 1 << f64::MANTISSA_DIGITS;
    if unscaled.unsigned_abs() < EXACT_MAX && scale <= 22 {
        return Some(unscaled as f64 / power(scale)? as f64);
    }
    format!("{unscaled}e-{scale}").parse().ok()
}

/// As text, without an exponent.
pub(crate) fn text(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// 10 to the power of `exponent`, up to 38.
pub(crate) fn power(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

/// An exponent, which has to fit into 32 bits.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, unsigned) = sign(text);
    let (found, rest) = digits(unsigned);
    let significant = std::str::from_utf8(found).ok()?.trim_start_matches('0');
    if found.is_empty() || !rest.is_empty() || significant.len() > 10 {
        return None;
    }
    let value = if significant.is_empty() { 0 } else { significant.parse::<i64>().ok()? };
    let signed = if negative { -value } else { value };
    i32::try_from(signed).ok().map(i64::from)
}

/// The digits, times 10 to the power of `shift`, rounded half up.
fn rescaled(whole: &[u8], fraction: &[u8], shift: i64) -> Option<i128> {
    let zeros = whole.iter().chain(fraction).take_while(|digit| **digit == b'0').count();
    let count = whole.len() + fraction.len() - zeros;
    let kept = i64::try_from(count).ok()?.saturating_add(shift);
    // Beyond so many digits, nothing fits.
    if count > 0 && kept > DIGITS_MAX as i64 {
        return None;
    }
    if count > 0 && shift < -POWER_MAX {
        return None;
    }
    if count == 0 || kept < 0 {
        return Some(0);
    }
    let taken = usize::try_from(kept).ok()?.min(count);
    let mut value = 0_i128;
    let mut all = whole.iter().chain(fraction).skip(zeros);
    for digit in all.by_ref().take(taken) {
        value = value * 10 + i128::from(digit - b'0');
    }
    if matches!(all.next(), Some(b'5'..=b'9')) {
        value += 1;
    }
    let missing = u8::try_from(usize::try_from(kept).ok()?.saturating_sub(count)).ok()?;
    value.checked_mul(power(missing)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_half_up_and_then_looks_at_the_digits() {
        let cases: [(&str, Option<i128>); 23] = [
            ("999.994", Some(99_999)),
            ("999.995", None),
            ("-0.005", Some(-1)),
            ("-0.0049", Some(0)),
            ("0.005", Some(1)),
            ("1e2", Some(10_000)),
            ("5e-3", Some(1)),
            ("4e-3", Some(0)),
            ("1e-400", Some(0)),
            ("1e-99999999", Some(0)),
            ("0e2147483647", Some(0)),
            ("0e999999999999", None),
            ("0e-2147483647", Some(0)),
            ("0e-2147483648", None),
            ("1e-646456991", Some(0)),
            ("1e-646456996", None),
            ("+1.", Some(100)),
            (".5", Some(50)),
            (".", None),
            ("", None),
            ("1e", None),
            ("--1", None),
            ("0000000000000000000000000000000000000000000000001.25", Some(125)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes(), 5, 2), expected, "{text}");
        }
    }

    #[test]
    fn up_to_38_digits() {
        let all = "9".repeat(38);
        assert_eq!(parse(all.as_bytes(), 38, 0), all.parse().ok());
        assert_eq!(parse(format!("{all}.5").as_bytes(), 38, 0), None);
        assert_eq!(parse(format!("{all}9").as_bytes(), 38, 0), None);
        assert_eq!(parse(b"1e37", 38, 0), Some(10_i128.pow(37)));
        assert_eq!(parse(b"1e38", 38, 0), None);
    }
}
