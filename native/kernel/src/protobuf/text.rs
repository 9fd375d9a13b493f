//! Text that may be no UTF-8.

use std::borrow::Cow;

/// The text that Java makes of bytes: U+FFFD stands for what is no UTF-8. It differs from Rust in surrogates only, for
/// all bytes of which Java has one.
pub(super) fn as_in_java(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(chunk) = rest.utf8_chunks().next() {
        text.push_str(chunk.valid());
        let wrong = chunk.invalid();
        let mut length = chunk.valid().len() + wrong.len();
        if !wrong.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        if wrong == [0xed] {
            let mut after = rest.get(length..).unwrap_or_default().iter();
            if let Some(0xa0..=0xbf) = after.next() {
                length += 1 + usize::from(matches!(after.next(), Some(0x80..=0xbf)));
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::as_in_java;

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
            assert_eq!(as_in_java(bytes), text.as_bytes(), "{bytes:x?}");
        }
    }
}
