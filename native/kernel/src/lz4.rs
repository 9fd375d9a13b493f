//! The frame around lz4 blocks.
//!
//! Source: LZ4 Frame Format 1.6.1. As in Kafka's own reader: one frame, nothing after it, no dictionaries. The frame's
//! own checksums are skipped, since the record batch's CRC-32C covers these bytes.

use crate::wire::Reader;

const MAGIC: u32 = 0x184d_2204;
const VERSION_MASK: u8 = 0b1100_0000;
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;
/// The bit in a block's length that says that it is not compressed.
const STORED: u32 = 1 << 31;
/// How far back a block may refer to those before it.
pub(crate) const WINDOW_BYTES: usize = 64 * 1024;

/// One block of a frame.
pub(crate) enum Block<'a> {
    Stored(&'a [u8]),
    Compressed(&'a [u8]),
}

/// Reads the blocks of a frame, one after the other.
pub(crate) struct Frame<'a> {
    reader: Reader<'a>,
    flags: u8,
    /// The most bytes that a block decompresses to.
    pub(crate) block_bytes_max: usize,
}

type Result<T> = std::result::Result<T, String>;

fn detail(error: crate::error::Error) -> String {
    error.detail
}

impl<'a> Frame<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        // The reader is big-endian, as everything else in Kafka is, so the bytes are swapped.
        let magic = reader.u32("a frame's magic number").map_err(detail)?.swap_bytes();
        let flags = reader.u8("a frame's flags").map_err(detail)?;
        let sizes = reader.u8("a frame's block size").map_err(detail)?;
        if magic != MAGIC || flags & VERSION_MASK != VERSION {
            return Err(format!("the frame begins with {magic:#010x} and flags {flags:#04x}"));
        }
        if flags & DICTIONARY != 0 {
            return Err("the frame needs a dictionary".to_owned());
        }
        let block_bytes_max = match sizes >> 4 & 0b111 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            size => return Err(format!("the frame has block size number {size}, expected 4 to 7")),
        };
        let rest = if flags & CONTENT_SIZE != 0 { 8 + 1 } else { 1 };
        reader.take(rest, "a frame's header").map_err(detail)?;
        Ok(Frame { reader, flags, block_bytes_max })
    }

    /// Whether blocks may refer to those before them.
    pub(crate) fn linked(&self) -> bool {
        self.flags & INDEPENDENT == 0
    }

    /// The next block, or `None` at the end of the frame.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block<'a>>> {
        let length = self.reader.u32("a block's length").map_err(detail)?.swap_bytes();
        if length == 0 {
            let checksum = if self.flags & CONTENT_CHECKSUM != 0 { 4 } else { 0 };
            self.reader.take(checksum, "a frame's checksum").map_err(detail)?;
            return match self.reader.left() {
                0 => Ok(None),
                left => Err(format!("{left} bytes follow the frame")),
            };
        }
        let bytes = usize::try_from(length & !STORED).unwrap_or(usize::MAX);
        if bytes > self.block_bytes_max {
            return Err(format!("a block of {bytes} bytes, expected at most {}", self.block_bytes_max));
        }
        let block = self.reader.take(bytes, "a block").map_err(detail)?;
        if self.flags & BLOCK_CHECKSUM != 0 {
            self.reader.take(4, "a block's checksum").map_err(detail)?;
        }
        Ok(Some(if length & STORED != 0 { Block::Stored(block) } else { Block::Compressed(block) }))
    }
}
