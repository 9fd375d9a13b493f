//! Dates and times, as Spark reads them without a format.

use crate::text::{calendar, digits, sign};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i128 = 86_400 * MICROS_PER_SECOND as i128;

/// Zones are at most so far from UTC.
const ZONE_SECONDS_MAX: i64 = 18 * 3600;

/// Earlier days are read in another calendar, which is not known here.
const FIRST_GREGORIAN_DAY: i32 = -141_427;

/// The days since 1970 that a text says.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    if let Some(found) = date_of(trimmed(text)) {
        return Some(found);
    }
    if let Some(without) = without_gmt(text) {
        if let Some(found) = date_of(trimmed(&without)) {
            return Some(found);
        }
    }
    let (_, unsigned) = sign(text);
    if unsigned.is_empty() || !unsigned.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let days = std::str::from_utf8(text).ok()?.parse::<i32>().ok()?;
    (days >= FIRST_GREGORIAN_DAY).then_some(days)
}

/// The days since 1970 that a text says which is cast.
pub(crate) fn cast_date(text: &[u8]) -> Option<i32> {
    date_of(trimmed(text))
}

/// The microseconds since 1970 in UTC that a text says which is cast; one without a zone is in UTC.
pub(crate) fn cast_timestamp(text: &[u8]) -> Option<i64> {
    let (micros, zone) = moment(trimmed(text))?;
    let offset = match zone {
        Some(zone) => offset_seconds(zone)?,
        None => 0,
    };
    i64::try_from(micros - i128::from(offset) * i128::from(MICROS_PER_SECOND)).ok()
}

/// The microseconds since 1970 that a text says which is cast to a time of no zone: its own zone does not count.
pub(crate) fn cast_timestamp_ntz(text: &[u8]) -> Option<i64> {
    let (micros, zone) = moment(trimmed(text))?;
    if let Some(zone) = zone {
        offset_seconds(zone)?;
    }
    i64::try_from(micros).ok()
}

/// The microseconds since 1970 in UTC that a text says; one without a zone is in UTC.
pub(crate) fn timestamp(text: &[u8]) -> Option<i64> {
    cast_timestamp(text).or_else(|| cast_timestamp(&without_gmt(text)?))
}

/// The microseconds since 1970 that a text says which has no zone.
pub(crate) fn timestamp_ntz(text: &[u8]) -> Option<i64> {
    match moment(trimmed(text))? {
        (micros, None) => i64::try_from(micros).ok(),
        _ => None,
    }
}

pub(crate) fn trimmed(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    let begin = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(begin, |last| last + 1);
    text.get(begin..end).unwrap_or_default()
}

/// The text without each `GMT` in it; `None` if there is none.
fn without_gmt(text: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = match rest.strip_prefix(b"GMT") {
            Some(after) => after,
            None => {
                made.push(*first);
                after
            }
        };
    }
    (made.len() < text.len()).then_some(made)
}

/// A number of `least` to `most` digits, and what follows it.
fn number(text: &[u8], least: usize, most: usize) -> Option<(u32, &[u8])> {
    let (digits, rest) = digits(text);
    if digits.len() < least || digits.len() > most {
        return None;
    }
    Some((digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')), rest))
}

/// The date that a text begins with, whether it has a day, and what follows it.
fn leading_date(text: &[u8], year_digits_max: usize) -> Option<(i32, bool, &[u8])> {
    let (negative, unsigned) = sign(text);
    let (year, mut rest) = number(unsigned, 4, year_digits_max)?;
    let (mut month, mut day, mut whole) = (1, 1, false);
    if let Some(after) = rest.strip_prefix(b"-") {
        (month, rest) = number(after, 1, 2)?;
        if let Some(after) = rest.strip_prefix(b"-") {
            (day, rest) = number(after, 1, 2)?;
            whole = true;
        }
    }
    let signed = if negative { -i64::from(year) } else { i64::from(year) };
    Some((calendar::days(signed, month, day)?, whole, rest))
}

fn date_of(text: &[u8]) -> Option<i32> {
    let (days, whole, rest) = leading_date(text, 7)?;
    match rest {
        [] => Some(days),
        [b' ' | b'T', ..] if whole => Some(days),
        _ => None,
    }
}

/// Microseconds since 1970, and the text of the zone that follows.
fn moment(text: &[u8]) -> Option<(i128, Option<&[u8]>)> {
    let (days, whole, rest) = leading_date(text, 6)?;
    let midnight = i128::from(days) * MICROS_PER_DAY;
    if rest.is_empty() {
        return Some((midnight, None));
    }
    let [b' ' | b'T', rest @ ..] = rest else { return None };
    if !whole {
        return None;
    }
    let (hour, mut rest) = number(rest, 1, 2)?;
    let (mut minute, mut second, mut micros) = (0, 0, 0);
    let mut zone = None;
    if let Some(after) = rest.strip_prefix(b":") {
        (minute, rest) = number(after, 1, 2)?;
        if let Some(after) = rest.strip_prefix(b":") {
            (second, rest) = number(after, 1, 2)?;
            if let Some(after) = rest.strip_prefix(b".") {
                (micros, rest) = fraction(after);
            }
            if !rest.is_empty() {
                zone = Some(trimmed(rest));
                rest = &[];
            }
        }
    }
    if !rest.is_empty() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some((midnight + i128::from(seconds * MICROS_PER_SECOND + micros), zone))
}

/// Microseconds from any number of digits, and what follows them.
fn fraction(text: &[u8]) -> (i64, &[u8]) {
    let (digits, rest) = digits(text);
    let micros = (0..6).fold(0, |value, at| value * 10 + digits.get(at).map_or(0, |digit| i64::from(digit - b'0')));
    (micros, rest)
}

/// How many seconds a zone is before UTC: an offset, or UTC by one of its names.
fn offset_seconds(zone: &[u8]) -> Option<i64> {
    if matches!(zone, b"Z" | b"UTC" | b"GMT" | b"UT") {
        return Some(0);
    }
    let named = [&b"UTC"[..], b"GMT", b"UT"].iter().find_map(|name| zone.strip_prefix(*name)).unwrap_or(zone);
    let [sign @ (b'+' | b'-'), digits @ ..] = named else { return None };
    let two = |text: &[u8]| match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    };
    let one = |digit: u8| digit.is_ascii_digit().then(|| i64::from(digit - b'0'));
    let (hours, minutes, seconds) = match *digits {
        [h] => (one(h)?, 0, 0),
        [a, b] => (two(&[a, b])?, 0, 0),
        [h, b':', m] => (one(h)?, one(m)?, 0),
        [h, b':', a, b] => (one(h)?, two(&[a, b])?, 0),
        [a, b, b':', m] => (two(&[a, b])?, one(m)?, 0),
        [a, b, c, d] => (two(&[a, b])?, two(&[c, d])?, 0),
        [a, b, b':', c, d] => (two(&[a, b])?, two(&[c, d])?, 0),
        [a, b, c, d, e, f] => (two(&[a, b])?, two(&[c, d])?, two(&[e, f])?),
        [h, b':', c, d, b':', e, f] => (one(h)?, two(&[c, d])?, two(&[e, f])?),
        [a, b, b':', c, d, b':', e, f] => (two(&[a, b])?, two(&[c, d])?, two(&[e, f])?),
        _ => return None,
    };
    let seconds = (minutes <= 59 && seconds <= 59).then_some(hours * 3600 + minutes * 60 + seconds)?;
    let signed = if *sign == b'-' { -seconds } else { seconds };
    (seconds <= ZONE_SECONDS_MAX).then_some(signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (text, expected) in [
            ("2020-01-02", Some(18_263)),
            (" 2020-1-2\t", Some(18_263)),
            ("2020", Some(18_262)),
            ("2020-1", Some(18_262)),
            ("2020-01-02Tgarbage", Some(18_263)),
            ("2020-01-02 ", Some(18_263)),
            ("2020-GMT01-01", Some(18_262)),
            ("2020-01-02Z", None),
            ("2020-01T", None),
            ("2020-01T-1", None),
            ("2023-02-29", None),
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("+5", Some(5)),
            ("12345678", Some(12_345_678)),
            ("-12345678", None),
            ("", None),
            ("20-01-01", None),
        ] {
            assert_eq!(date(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn timestamps() {
        const NEW_YEAR: i64 = 1_577_836_800_000_000;
        for (text, expected) in [
            ("2020-01-01", Some(NEW_YEAR)),
            ("2020-01-01T00:00:00Z", Some(NEW_YEAR)),
            ("2020-01-01 00:00:00.1234567", Some(NEW_YEAR + 123_456)),
            ("2020-01-01 0:0:30.", Some(NEW_YEAR + 30_000_000)),
            ("2020-01-01T01:00:00+01:00", Some(NEW_YEAR)),
            ("2020-01-01T01:00:00 UTC+1", Some(NEW_YEAR)),
            ("2020-01-01T01:00:00+1:0", Some(NEW_YEAR)),
            ("2019-12-31T19:00:00-0500", Some(NEW_YEAR)),
            ("2020-01-01GMT", Some(NEW_YEAR)),
            ("2020-01-01T00:00GMT", Some(NEW_YEAR)),
            ("2020-01-01T10:20Z", None),
            ("2020-01-01T24:00:00", None),
            ("2020-01-01T10:", None),
            ("2020-01-01t10:00", None),
            ("10:20", None),
            ("2020-01-01T00:00:00+19", None),
            ("2020-01-01T00:00:00utc", None),
            ("294247-01-10T04:00:54.775807Z", Some(i64::MAX)),
            ("294247-01-10T04:00:54.775808Z", None),
            ("-290308-12-21T19:59:05.224192Z", Some(i64::MIN)),
            ("12345", Some(327_403_382_400_000_000)),
        ] {
            assert_eq!(timestamp(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(timestamp_ntz(b"2020-01-01T00:00:00"), Some(NEW_YEAR));
        assert_eq!(timestamp_ntz(b"2020-01-01T00:00:00Z"), None);
        assert_eq!(timestamp_ntz(b"2020-01-01GMT"), None);
    }
}
