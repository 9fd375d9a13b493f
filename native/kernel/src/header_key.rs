//! Header keys as Java's consumer shows them.

use std::borrow::Cow;

const REPLACEMENT: &str = "\u{fffd}";

/// Decodes UTF-8 as `new String(bytes, UTF_8)` does: U+FFFD for malformed bytes.
///
/// Rust and Java differ in one thing only. A surrogate that was encoded as if it were a character (ED A0..BF 80..BF)
/// is one U+FFFD per byte in Rust's lossy decoding, and a single one in Java's.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let mut rest = match std::str::from_utf8(bytes) {
        Ok(text) => return Cow::Borrowed(text),
        Err(_) => bytes,
    };
    let mut text = String::with_capacity(bytes.len());
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return Cow::Owned(text);
            }
            Err(error) => error,
        };
        let (valid, malformed) = rest.split_at_checked(error.valid_up_to()).unwrap_or_default();
        text.push_str(std::str::from_utf8(valid).unwrap_or_default());
        text.push_str(REPLACEMENT);
        let length = match malformed {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(malformed.len()),
        };
        rest = malformed.get(length..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// The expected texts were printed by Java 17 for `new String(bytes, UTF_8)`.
    #[test]
    fn malformed_bytes_become_what_java_makes_of_them() {
        let cases: [(&[u8], &str); 11] = [
            (b"trace-id", "trace-id"),
            ("Größe €".as_bytes(), "Größe €"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xc3", "\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82A", "\u{fffd}A"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xf0\x90A", "\u{fffd}A"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode(bytes), expected, "{bytes:x?}");
        }
    }
}
