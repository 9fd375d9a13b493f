//! Base64 (RFC 4648), as Jackson reads it.

/// Writes what `text` stands for; `None` if it is no base64.
///
/// Groups of four characters, padded; blanks and control characters may stand between groups, bits that are left over do
/// not count, and a padded group need not be the last.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    loop {
        while let [0..=b' ', after @ ..] = rest {
            rest = after;
        }
        let (group, after) = match rest {
            [] => return Some(()),
            [a, b, c, d, after @ ..] => ([*a, *b, *c, *d], after),
            _ => return None,
        };
        rest = after;
        let [a, b, c, d] = group;
        let first = u32::from(sextet(a)?) << 18 | u32::from(sextet(b)?) << 12;
        match (c, d) {
            (b'=', b'=') => out.push((first >> 16) as u8),
            (b'=', _) => return None,
            (_, b'=') => {
                let bits = first | u32::from(sextet(c)?) << 6;
                out.extend_from_slice(&[(bits >> 16) as u8, (bits >> 8) as u8]);
            }
            _ => {
                let bits = first | u32::from(sextet(c)?) << 6 | u32::from(sextet(d)?);
                out.extend_from_slice(&[(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
            }
        }
    }
}

fn sextet(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn groups_of_four() {
        for (text, expected) in
            [("", ""), ("QUJD", "ABC"), ("QQ==", "A"), ("QUI=", "AB"), ("QR==", "A"), ("QQ==QUJD", "AABC")]
        {
            assert_eq!(decoded(text).as_deref(), Some(expected.as_bytes()), "{text}");
        }
        assert_eq!(decoded("\nQUJD \0QQ== "), Some(b"ABCA".to_vec()));
        assert_eq!(decoded("/+8="), Some(vec![0xff, 0xef]));
    }

    #[test]
    fn what_is_no_base64() {
        for text in ["QUI", "QQ", "QQ=", "QU\tJD", "QQ= =", "====", "QUJD=", "QU-_", "QU\u{e9}A", "Q=Q="] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }
}
