//! Numbers of 7 bits in each byte, the lowest first, as Avro and Protobuf have them.

/// The bits of 8 bytes that say that a number goes on.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// The number that `bytes` begin with, and how many bytes it has, if they are 8 at most and as many are there to look at.
#[inline(always)]
pub(crate) fn first(bytes: &[u8]) -> Option<(u64, usize)> {
    let bits = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !bits & CONTINUED;
    if ends == 0 {
        return None;
    }
    let count = ends.trailing_zeros() as usize / 8 + 1;
    let sevens = bits & (u64::MAX >> (64 - 8 * count)) & !CONTINUED;
    let pairs = (sevens & 0x007f_007f_007f_007f) | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    Some(((fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4, count))
}

#[cfg(test)]
mod tests {
    use super::first;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_the_bits_of_its_bytes(number in any::<u64>(), zeros in 0_u32..64, after in any::<u8>()) {
            let number = number >> zeros;
            let mut bytes = Vec::new();
            let mut rest = number;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            let count = bytes.len();
            bytes.resize(count.max(8), after);
            prop_assert_eq!(first(&bytes), (count <= 8).then_some((number, count)));
            bytes.truncate(7);
            prop_assert_eq!(first(&bytes), None);
        }
    }
}
