//! An upper bound on the content of zstd frames, from their blocks.
//!
//! Source: RFC 8878. Only sizes are read; the decompressor reports what is wrong with a frame.

use crate::wire::Reader;

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;
const SINGLE_SEGMENT: u8 = 1 << 5;
const CONTENT_CHECKSUM: u8 = 1 << 2;
/// The most content of a block, compressed or not.
const BLOCK_BYTES_MAX: usize = 128 * 1024;

/// An upper bound on the content of the frames in `bytes`, as far as they can be read.
///
/// The length that a frame announces is ignored, since that much data need not be there.
pub(crate) fn decompressed_bytes_max(bytes: &[u8]) -> usize {
    let mut reader = Reader::new(bytes);
    let mut sum = 0;
    while frame(&mut reader, &mut sum).is_some() {}
    sum
}

/// Adds the most content of the next frame's blocks. `None` if the frame does not end properly.
fn frame(reader: &mut Reader<'_>, sum: &mut usize) -> Option<()> {
    let magic = reader.u32("a frame's magic number").ok()?.swap_bytes();
    if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
        let length = reader.u32("a frame's length").ok()?.swap_bytes();
        return reader.take(usize::try_from(length).ok()?, "a skippable frame").ok().map(drop);
    }
    let flags = reader.u8("a frame's flags").ok()?;
    if magic != MAGIC {
        return None;
    }
    let single_segment = flags & SINGLE_SEGMENT != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4].get(usize::from(flags & 0b11))?;
    let content = match flags >> 6 {
        0 => usize::from(single_segment),
        size => 1 << size,
    };
    reader.take(window + dictionary + content, "a frame's header").ok()?;
    loop {
        let [a, b, c] = *reader.take(3, "a block's header").ok()?.first_chunk::<3>()?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = usize::try_from(header >> 3).ok()?;
        // Not compressed, one byte repeated, or compressed.
        let (there, most) = match header >> 1 & 0b11 {
            0 => (size, size),
            1 => (1, size),
            _ => (size, BLOCK_BYTES_MAX),
        };
        reader.take(there, "a block").ok()?;
        *sum = sum.saturating_add(most.min(BLOCK_BYTES_MAX));
        if header & 1 != 0 {
            break;
        }
    }
    let checksum = if flags & CONTENT_CHECKSUM != 0 { 4 } else { 0 };
    reader.take(checksum, "a frame's checksum").ok().map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
        zstd_safe::compress(&mut out, content, 3).unwrap();
        out
    }

    #[test]
    fn blocks_of_every_kind() {
        assert_eq!(decompressed_bytes_max(&compressed(b"")), 0);
        assert_eq!(decompressed_bytes_max(&compressed(b"stored")), 6);
        let long = decompressed_bytes_max(&compressed(&[7; 3 << 20]));
        assert!((3 << 20..4 << 20).contains(&long), "{long}");
    }

    #[test]
    fn what_is_announced_and_not_there_does_not_count() {
        let announced = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 62).to_le_bytes(), &[0x01, 0, 0]].concat();
        assert_eq!(decompressed_bytes_max(&announced), 0);
        assert_eq!(decompressed_bytes_max(b"no frame at all"), 0);
    }

    proptest! {
        #[test]
        fn no_less_than_the_content_of_all_frames(
            contents in proptest::collection::vec((any::<u8>(), 0..400_000_usize), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
            let mut frames = Vec::new();
            for (byte, length) in &contents {
                frames.extend(compressed(&vec![*byte; *length]));
                frames.extend(skippable);
            }
            let all: usize = contents.iter().map(|(_, length)| length).sum();
            let most = decompressed_bytes_max(&frames);
            prop_assert!(most >= all);
            prop_assert!(decompressed_bytes_max(&frames[..cut.index(frames.len() + 1)]) <= most);
        }
    }
}
