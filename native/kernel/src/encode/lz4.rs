//! LZ4 blocks, byte for byte as LZ4's own fast compressor makes them, which Kafka's producer uses.
//!
//! Another compressor would find other matches: record batches would be up to 6 % longer than Java's, or shorter.
//! Source: `LZ4_compress_generic` in lz4.c, with a table of 16 bits and an acceleration of 1.

/// The longest block, whose positions have 16 bits.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 16;
const TABLE_BITS: u32 = 13;
const MATCH_MIN: usize = 4;
/// No match begins in the last bytes ...
const MATCH_LIMIT: usize = 12;
/// ... and none goes on into the very last ones.
const LAST_LITERALS: usize = 5;
/// After so many attempts without a match, by powers of 2, the steps become longer.
const SKIP_TRIGGER: u32 = 6;
/// A length from here on is continued in bytes of its own.
const LENGTH_MASK: usize = 15;

/// Where each hash was seen last.
pub(super) struct Table {
    positions: Box<[u16; 1 << TABLE_BITS]>,
}

impl Table {
    pub(super) fn new() -> Self {
        Table { positions: Box::new([0; 1 << TABLE_BITS]) }
    }

    /// The last position with the hash, which `position` becomes.
    #[inline(always)]
    fn swap(&mut self, hash: usize, position: usize) -> usize {
        match self.positions.get_mut(hash) {
            Some(last) => usize::from(std::mem::replace(last, position as u16)),
            None => 0,
        }
    }
}

#[inline(always)]
fn word(input: &[u8], at: usize) -> u32 {
    input.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[inline(always)]
fn hash(word: u32) -> usize {
    (word.wrapping_mul(2_654_435_761) >> (32 - TABLE_BITS)) as usize
}

/// How many bytes from `at` on are those from `earlier` on, up to `end`.
#[inline(always)]
fn equal_bytes(input: &[u8], at: usize, earlier: usize, end: usize) -> usize {
    let ahead = input.get(at..end).unwrap_or_default();
    let behind = input.get(earlier..).unwrap_or_default();
    let mut count = 0;
    while let (Some(a), Some(b)) = (eight(ahead, count), eight(behind, count)) {
        match a ^ b {
            0 => count += 8,
            different => return count + (different.trailing_zeros() / 8) as usize,
        }
    }
    let rest = ahead.iter().zip(behind).skip(count);
    count + rest.take_while(|(a, b)| a == b).count()
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// What is left of a length after the 15 that its token says.
#[inline(always)]
fn push_length(out: &mut Vec<u8>, length: usize) {
    if let Some(mut rest) = length.checked_sub(LENGTH_MASK) {
        while rest >= 255 {
            out.push(255);
            rest -= 255;
        }
        out.push(rest as u8);
    }
}

/// Literals, and where and how long the match after them is: `bytes` beyond the least.
#[inline(always)]
fn push_sequence(out: &mut Vec<u8>, literals: &[u8], distance: usize, bytes: usize) {
    out.push((literals.len().min(LENGTH_MASK) << 4 | bytes.min(LENGTH_MASK)) as u8);
    push_length(out, literals.len());
    out.extend_from_slice(literals);
    out.extend_from_slice(&(distance as u16).to_le_bytes());
    push_length(out, bytes);
}

/// The next match from `from` on: where it is and what it repeats.
#[inline(always)]
fn find(input: &[u8], table: &mut Table, from: usize, limit: usize) -> Option<(usize, usize)> {
    let (mut at, mut attempts, mut step) = (from, 1_usize << SKIP_TRIGGER, 1);
    let mut found = word(input, at);
    loop {
        let next = at + step;
        step = attempts >> SKIP_TRIGGER;
        attempts += 1;
        if next > limit {
            return None;
        }
        let earlier = table.swap(hash(found), at);
        if word(input, earlier) == found {
            return Some((at, earlier));
        }
        at = next;
        found = word(input, at);
    }
}

/// Appends the block to `out`.
pub(super) fn compress(input: &[u8], table: &mut Table, out: &mut Vec<u8>) {
    table.positions.fill(0);
    let mut anchor = 0;
    let limit = (input.len() + 1).saturating_sub(MATCH_LIMIT);
    let end = input.len().saturating_sub(LAST_LITERALS);
    if input.len() > MATCH_LIMIT && input.len() <= BLOCK_BYTES_MAX {
        table.swap(hash(word(input, 0)), 0);
        let mut from = 1;
        while let Some((mut at, mut earlier)) = find(input, table, from, limit) {
            while at > anchor && earlier > 0 && input.get(at - 1) == input.get(earlier - 1) {
                (at, earlier) = (at - 1, earlier - 1);
            }
            loop {
                let bytes = equal_bytes(input, at + MATCH_MIN, earlier + MATCH_MIN, end);
                push_sequence(out, input.get(anchor..at).unwrap_or_default(), at - earlier, bytes);
                at += MATCH_MIN + bytes;
                anchor = at;
                if at >= limit {
                    break;
                }
                table.swap(hash(word(input, at - 2)), at - 2);
                // Perhaps the next match follows at once.
                let found = word(input, at);
                earlier = table.swap(hash(found), at);
                if word(input, earlier) != found {
                    break;
                }
            }
            if at >= limit {
                break;
            }
            from = at + 1;
        }
    }
    let literals = input.get(anchor..).unwrap_or_default();
    out.push((literals.len().min(LENGTH_MASK) << 4) as u8);
    push_length(out, literals.len());
    out.extend_from_slice(literals);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use lz4_flex::block::decompress;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_decompressed_to_what_it_was(
            parts in vec((0_usize..4, 0_usize..400), 0..200),
            letters in 1_u8..5,
        ) {
            let mut table = Table::new();
            // The table is full of another block.
            compress(&[7; 1000], &mut table, &mut Vec::new());
            let part = |(kind, length): (usize, usize)| -> Vec<u8> {
                let of = |at: usize| (at * at * 31 + at / 7 * kind + length) as u8 % (letters << kind);
                (0..length).map(of).collect()
            };
            let mut input: Vec<u8> = parts.into_iter().flat_map(part).collect();
            input.truncate(BLOCK_BYTES_MAX);
            let mut out = Vec::new();
            compress(&input, &mut table, &mut out);
            prop_assert!(out.len() <= lz4_flex::block::get_maximum_output_size(input.len()));
            prop_assert_eq!(decompress(&out, input.len()).unwrap(), input);
        }
    }
}
