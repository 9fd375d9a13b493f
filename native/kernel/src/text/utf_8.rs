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

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn what_is_no_utf_8_is_replaced() {
        // As `new String(bytes, UTF_8)` of JDK 17 has it.
        let cases: [(&[u8], &str); 8] = [
            (b"a\xc3\xa9", "a\u{e9}"),
            (b"\xed\xa0\x80\xed\xb0\x80x", "\u{fffd}\u{fffd}x"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xedA", "\u{fffd}A"),
            (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ];
        for (bytes, text) in cases {
            assert_eq!(&*replaced(bytes), text.as_bytes(), "{bytes:x?}");
        }
    }
}
