//! What can be asked of texts. Most of it goes by bytes, as in Spark, so it does not matter if a text is no UTF-8.

use crate::filter::expression::{Part, Pattern};
use crate::header_key;

/// How many bytes the character has that begins with this one.
fn width(first: u8) -> usize {
    match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

/// The number of characters.
pub(crate) fn length(text: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(first) = text.get(at) {
        at += width(*first);
        count += 1;
    }
    count
}

/// `length` characters from `position` on, which begins at 1, or at -1 from the end.
pub(crate) fn substring(text: &[u8], position: i64, length_wanted: i64) -> &[u8] {
    let count = i64::try_from(length(text)).unwrap_or(i64::MAX);
    let start = match position {
        1.. => position - 1,
        0 => 0,
        _ => count.saturating_add(position),
    };
    let end = start.saturating_add(length_wanted);
    let (mut at, mut number) = (0, 0);
    while at < text.len() && number < start {
        at += text.get(at).map_or(1, |first| width(*first));
        number += 1;
    }
    let begin = at.min(text.len());
    while at < text.len() && number < end {
        at += text.get(at).map_or(1, |first| width(*first));
        number += 1;
    }
    text.get(begin..at.min(text.len())).unwrap_or_default()
}

/// Without the spaces at both ends.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(begin, |last| last + 1);
    text.get(begin..end).unwrap_or_default()
}

/// Whether `part` is in `text`.
pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    let Some((first, rest)) = part.split_first() else { return true };
    let mut left = text;
    while let Some(at) = left.iter().position(|byte| byte == first) {
        left = left.get(at + 1..).unwrap_or_default();
        if left.starts_with(rest) {
            return true;
        }
    }
    false
}

/// In lower case, or in upper case.
pub(crate) fn in_case(text: &[u8], upper: bool) -> Vec<u8> {
    if text.is_ascii() {
        return if upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
    }
    let decoded = header_key::decode(text);
    if upper { decoded.to_uppercase() } else { decoded.to_lowercase() }.into_bytes()
}

/// Whether the whole text matches.
pub(crate) fn matches(pattern: &Pattern, text: &[u8]) -> bool {
    let decoded = header_key::decode(text);
    let (mut rest, mut parts) = (decoded.chars(), pattern.0.as_slice());
    // Where to go on if the characters after the last `%` do not match: one character later.
    let mut again: Option<(std::str::Chars<'_>, &[Part])> = None;
    loop {
        let matched = match parts.split_first() {
            Some((Part::Any, after)) => {
                again = Some((rest.clone(), after));
                parts = after;
                continue;
            }
            Some((Part::One, after)) => rest.next().map(|_| after),
            Some((Part::Char(expected), after)) => rest.next().filter(|found| found == expected).map(|_| after),
            None if rest.as_str().is_empty() => return true,
            None => None,
        };
        if let Some(after) = matched {
            parts = after;
            continue;
        }
        let Some((from, after)) = &mut again else { return false };
        if from.next().is_none() {
            return false;
        }
        (rest, parts) = (from.clone(), after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let part = |char| match char {
            '%' => Part::Any,
            '_' => Part::One,
            other => Part::Char(other),
        };
        Pattern(text.chars().map(part).collect())
    }

    #[test]
    fn patterns() {
        for (like, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("_", "", false),
            ("_", "é", true),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("a%c%", "abcd", true),
            ("%ab", "aab", true),
            ("a_c", "abbc", false),
            ("%a%a%a%b", "aaaaaaaaaaaaaaaaaaaaaaaaaaac", false),
            ("%_", "", false),
            ("%%_", "x\ny", true),
        ] {
            assert_eq!(matches(&pattern(like), text.as_bytes()), expected, "{text:?} LIKE {like:?}");
        }
        assert!(matches(&pattern("a_"), b"a\xff"));
    }

    #[test]
    fn parts_of_texts() {
        for (position, length, expected) in [
            (1, 2, "hé"),
            (0, 2, "hé"),
            (2, 100, "éllo"),
            (-2, 1, "l"),
            (-9, 6, "hé"),
            (9, 1, ""),
            (1, -1, ""),
            (i64::MIN, i64::MAX, "héll"),
        ] {
            assert_eq!(substring("héllo".as_bytes(), position, length), expected.as_bytes(), "{position} {length}");
        }
        assert_eq!(length("héllo€".as_bytes()), 6);
        assert_eq!(length(b"\xff\xe0a"), 2);
        assert!(contains(b"aab", b"ab") && contains(b"", b"") && !contains(b"a", b"aa"));
        assert_eq!(trim(b"  a b \t "), b"a b \t");
    }
}
