//! Which partition a record goes to.

const SEED: u32 = 0x9747_b28c;
const FACTOR: u32 = 0x5bd1_e995;

/// The hash of a key by which Kafka's producers choose its partition (`Utils.murmur2`).
pub fn murmur2(key: &[u8]) -> i32 {
    let mut hash = SEED ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let mut bits = little_endian(word).wrapping_mul(FACTOR);
        bits ^= bits >> 24;
        hash = hash.wrapping_mul(FACTOR) ^ bits.wrapping_mul(FACTOR);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash = (hash ^ little_endian(rest)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    (hash ^ hash >> 15) as i32
}

#[inline(always)]
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

/// The partition of a key, of `count`.
#[inline]
pub(super) fn of_key(key: &[u8], count: u32) -> u32 {
    (murmur2(key) as u32 & 0x7fff_ffff) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Kafka's `UtilsTest.testMurmur2`.
    #[test]
    fn murmur2_is_kafkas() {
        let cases: [(&str, i32); 6] = [
            ("21", -973932308),
            ("foobar", -790332482),
            ("a-little-bit-long-string", -985981536),
            ("a-little-bit-longer-string", -1486304829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            ("abc", 479470107),
        ];
        for (key, expected) in cases {
            assert_eq!(murmur2(key.as_bytes()), expected, "{key}");
        }
    }
}
