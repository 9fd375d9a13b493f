//! Strings in JSON as UTF-8.

use crate::json::scanner::RawString;
use std::borrow::Cow;

/// What Java writes for half of a pair of surrogates.
const LONE_SURROGATE: u8 = b'?';

/// The text of a string; what had to be changed is in `scratch`.
#[inline(always)]
pub(crate) fn text<'t>(raw: RawString<'t>, scratch: &'t mut Vec<u8>) -> &'t [u8] {
    if raw.ascii && !raw.escaped {
        return raw.bytes;
    }
    changed(raw, scratch)
}

#[inline(never)]
fn changed<'t>(raw: RawString<'t>, scratch: &'t mut Vec<u8>) -> &'t [u8] {
    let valid = if raw.ascii { Cow::Borrowed(raw.bytes) } else { replaced(raw.bytes) };
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

/// The bytes, with U+FFFD for those that are not UTF-8.
fn replaced(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Cow::Borrowed(bytes),
        Err(_) => Cow::Owned(String::from_utf8_lossy(bytes).into_owned().into_bytes()),
    }
}

/// Writes what stands for `bytes`, whose escapes are right.
fn unescape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        let length = match escape.get(1) {
            Some(b'u') => unicode(escape, out),
            Some(other) => {
                out.push(match other {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    itself => *itself,
                });
                2
            }
            None => 1,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Writes the character of the escape that `bytes` begin with, and of the other half of its pair. Returns its length.
fn unicode(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(first) = unit(bytes) else { return 2 };
    let mut length = 6;
    let mut found = char::from_u32(u32::from(first));
    if let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, bytes.get(6..).and_then(unit)) {
        let code = 0x1_0000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00);
        found = char::from_u32(code);
        length = 12;
    }
    match found {
        Some(found) => out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.push(LONE_SURROGATE),
    }
    length
}

/// The number in an escape such as `\u00e9`, if `bytes` begin with one.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
