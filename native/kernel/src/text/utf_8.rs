//! Bytes that may be no UTF-8.

use std::borrow::Cow;

/// The bytes, with U+FFFD for those that are not UTF-8, as Java's decoder has it.
pub(crate) fn replaced(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Err(mut error) = std::str::from_utf8(bytes) else { return Cow::Borrowed(bytes) };
    let (mut made, mut rest) = (Vec::with_capacity(bytes.len() + 8), bytes);
    loop {
        let (valid, wrong) = rest.split_at(error.valid_up_to());
        made.extend_from_slice(valid);
        made.extend_from_slice("\u{fffd}".as_bytes());
        // What encodes half of a pair of surrogates is one character to Java.
        let length = match wrong {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(wrong.len()),
        };
        rest = wrong.get(length..).unwrap_or_default();
        match std::str::from_utf8(rest) {
            Ok(_) => break,
            Err(next) => error = next,
        }
    }
    made.extend_from_slice(rest);
    Cow::Owned(made)
}
