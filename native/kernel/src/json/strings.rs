//! Strings in JSON as UTF-8.

use crate::json::scanner::RawString;
use crate::text::utf_8::replaced;
use std::borrow::Cow;
use std::fmt::Write;

/// What Java writes for half of a pair of surrogates.
const LONE_SURROGATE: u8 = b'?';

/// The text of a string; what had to be changed is in `scratch`.
#[inline(always)]
pub(crate) fn text<'t>(raw: RawString<'t>, scratch: &'t mut Vec<u8>) -> &'t [u8] {
    if !raw.escaped && raw.bytes.is_ascii() {
        return raw.bytes;
    }
    changed(raw, scratch)
}

#[inline(never)]
fn changed<'t>(raw: RawString<'t>, scratch: &'t mut Vec<u8>) -> &'t [u8] {
    let valid = replaced(raw.bytes);
    if !raw.escaped {
        if let Cow::Borrowed(bytes) = valid {
            return bytes;
        }
    }
    scratch.clear();
    if raw.escaped {
        unescape(&valid, scratch);
    } else {
        scratch.extend_from_slice(&valid);
    }
    scratch
}

/// A part of a string.
enum Piece<'t> {
    /// Without an escape.
    Plain(&'t [u8]),
    /// What an escape, or a pair of them, stands for.
    Character(char),
    /// Half of a pair of surrogates, alone.
    Lone(u16),
}

/// Writes what stands for `bytes`, whose escapes are right.
fn unescape(bytes: &[u8], out: &mut Vec<u8>) {
    pieces(bytes, |piece| match piece {
        Piece::Plain(plain) => out.extend_from_slice(plain),
        Piece::Character(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        Piece::Lone(_) => out.push(LONE_SURROGATE),
    });
}

/// Whether an escape in it is half of a pair of surrogates, alone.
#[inline(always)]
pub(crate) fn has_half_a_pair(raw: RawString<'_>) -> bool {
    let mut found = false;
    if raw.escaped {
        pieces(raw.bytes, |piece| found |= matches!(piece, Piece::Lone(_)));
    }
    found
}

/// Its length in UTF-16 code units.
#[cold]
pub(crate) fn units(raw: RawString<'_>) -> usize {
    let mut count = 0;
    pieces(&replaced(raw.bytes), |piece| {
        count += match piece {
            Piece::Plain(plain) => String::from_utf8_lossy(plain).encode_utf16().count(),
            Piece::Character(character) => character.len_utf16(),
            Piece::Lone(_) => 1,
        }
    });
    count
}

/// Writes the string with the escapes that Jackson writes.
pub(crate) fn write_escaped(raw: RawString<'_>, out: &mut String) {
    let valid = replaced(raw.bytes);
    pieces(&valid, |piece| match piece {
        Piece::Plain(plain) => String::from_utf8_lossy(plain).chars().for_each(|character| escaped(character, out)),
        Piece::Character(character) => escaped(character, out),
        Piece::Lone(unit) => unit_escaped(unit, out),
    });
}

fn escaped(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '\0'..='\u{1f}' | '\u{10000}'.. => {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| unit_escaped(*unit, out));
        }
        _ => out.push(character),
    }
}

fn unit_escaped(unit: u16, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\u{unit:04X}");
}

fn pieces(bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        each(Piece::Plain(plain));
        let length = match escape.get(1) {
            Some(b'u') => {
                let (piece, length) = unicode(escape);
                each(piece);
                length
            }
            Some(other) => {
                each(Piece::Character(match other {
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    itself => char::from(*itself),
                }));
                2
            }
            None => 1,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    each(Piece::Plain(rest));
}

/// What the escape that `bytes` begin with stands for, with the other half of its pair; and its length.
fn unicode(bytes: &[u8]) -> (Piece<'static>, usize) {
    let first = unit(bytes).unwrap_or_default();
    if let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, bytes.get(6..).and_then(unit)) {
        let code = 0x1_0000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00);
        if let Some(found) = char::from_u32(code) {
            return (Piece::Character(found), 12);
        }
    }
    match char::from_u32(u32::from(first)) {
        Some(found) => (Piece::Character(found), 6),
        None => (Piece::Lone(first), 6),
    }
}

/// The number in an escape such as `\u00e9`, if `bytes` begin with one.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
