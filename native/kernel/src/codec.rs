//! Decompression into one buffer that is used again and again, and never grows beyond a bound.

use crate::error::{Error, Kind, Result};
use crate::lz4::{self, Block};
use crate::zstd;
use lz4_flex::block::{decompress_into, decompress_into_with_dict, DecompressError};
use zlib_rs::{Inflate, InflateFlush, Status};

const GROWTH_MIN: usize = 64 * 1024;
/// A window of 32 KiB; 16 more says that the stream is gzip's.
const GZIP_WINDOW_BITS: u8 = 16 + 15;
pub(crate) const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// The magic, a version and the lowest version that can read it.
const XERIAL_HEADER_BYTES: usize = 16;
/// Snappy's densest element is a copy: 64 bytes out of 3.
const SNAPPY_RATIO_MAX: usize = 22;
/// A byte of length adds 255 bytes to a match in lz4.
const LZ4_RATIO_MAX: usize = 256;
/// From this many bytes on, the room that zstd needs is computed from its blocks instead of found by trying.
const ZSTD_TRIED_BYTES_MAX: usize = 1 << 20;
const ZSTD_TOO_SMALL: &str = "Destination buffer is too small";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub(crate) fn of(number: i16) -> Result<Self> {
        match number {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            _ => Err(Error::new(Kind::Codec, format!("the codec is number {number}, expected 0 to 4"))),
        }
    }
}

/// Decompresses record batches one after the other.
pub(crate) struct Decompressor {
    bytes_max: usize,
    /// As long as the longest batch since it was last released; only its first bytes belong to the present batch.
    scratch: Vec<u8>,
    /// The most bytes that were in it since `release_beyond`.
    longest: usize,
    snappy: snap::raw::Decoder,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

impl Decompressor {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Decompressor { bytes_max, scratch: Vec::new(), longest: 0, snappy: snap::raw::Decoder::new(), zstd: None }
    }

    /// The decompressed payload; at most `bytes_max` bytes if it was compressed.
    pub(crate) fn decompress<'a>(&'a mut self, codec: Codec, payload: &'a [u8]) -> Result<&'a [u8]> {
        let length = match codec {
            Codec::None => return Ok(payload),
            Codec::Gzip => self.gzip(payload)?,
            Codec::Snappy => self.snappy(payload)?,
            Codec::Lz4 => self.lz4(payload)?,
            Codec::Zstd => self.zstd(payload)?,
        };
        self.longest = self.longest.max(length);
        Ok(self.last(codec, payload, length))
    }

    /// The last result of `decompress`, of `length` bytes.
    pub(crate) fn last<'a>(&'a self, codec: Codec, payload: &'a [u8], length: usize) -> &'a [u8] {
        match codec {
            Codec::None => payload,
            _ => self.scratch.get(..length).unwrap_or_default(),
        }
    }

    /// Releases memory if it holds more than `bytes`, and needed at most a quarter of it since the last call.
    pub(crate) fn release_beyond(&mut self, bytes: usize) {
        let needed = std::mem::take(&mut self.longest);
        if self.scratch.len() > bytes && self.scratch.len() / 4 >= needed {
            self.scratch = Vec::new();
        }
    }

    fn too_large(&self) -> Error {
        Error::new(
            Kind::TooLarge,
            format!("a record batch decompresses to more than the {} bytes that are allowed", self.bytes_max),
        )
    }

    /// Makes more room, up to one byte beyond the bound.
    fn grow(&mut self) -> Result<()> {
        let length = self.scratch.len();
        if length > self.bytes_max {
            return Err(self.too_large());
        }
        let grown = length.saturating_mul(2).max(GROWTH_MIN).min(self.bytes_max.saturating_add(1));
        self.scratch.resize(grown, 0);
        Ok(())
    }

    /// As `grow`, to at least `bytes`, within the bound. The content is lost.
    fn grow_to(&mut self, bytes: usize) -> Result<()> {
        if self.scratch.len() < bytes.min(self.bytes_max) {
            self.scratch = Vec::new();
            self.scratch = vec![0; bytes.min(self.bytes_max.saturating_add(1))];
            return Ok(());
        }
        self.grow()
    }

    /// One member of gzip after the other.
    fn gzip(&mut self, payload: &[u8]) -> Result<usize> {
        let (mut rest, mut length) = (payload, 0_usize);
        loop {
            let mut member = Inflate::new(true, GZIP_WINDOW_BITS);
            loop {
                if length == self.scratch.len() {
                    self.grow()?;
                }
                let room = self.scratch.get_mut(length..).unwrap_or_default();
                let (read, written) = (member.total_in(), member.total_out());
                let status = member
                    .decompress(rest, room, InflateFlush::NoFlush)
                    .map_err(|why| failed("gzip", member.error_message().unwrap_or(why.as_str())))?;
                let (read, written) = (member.total_in() - read, member.total_out() - written);
                rest = rest.get(read as usize..).unwrap_or_default();
                length += written as usize;
                match status {
                    Status::StreamEnd => break,
                    _ if read == 0 && written == 0 => return Err(failed("gzip", "the stream ends too early")),
                    _ => {}
                }
            }
            if length > self.bytes_max {
                return Err(self.too_large());
            }
            if rest.is_empty() {
                return Ok(length);
            }
        }
    }

    fn lz4(&mut self, payload: &[u8]) -> Result<usize> {
        let mut frame = lz4::Frame::open(payload).map_err(|why| failed("lz4", why))?;
        let mut length = 0_usize;
        while let Some(block) = frame.next_block().map_err(|why| failed("lz4", why))? {
            let wanted = match block {
                Block::Stored(bytes) => bytes.len(),
                Block::Compressed(bytes) => frame.block_bytes_max.min(bytes.len().saturating_mul(LZ4_RATIO_MAX)),
            };
            // One byte beyond the bound shows that it is exceeded.
            let end = length.saturating_add(wanted).min(self.bytes_max.saturating_add(1));
            while self.scratch.len() < end {
                self.grow()?;
            }
            let (done, behind) = self.scratch.split_at_mut_checked(length).unwrap_or_default();
            let room = behind.get_mut(..end.saturating_sub(length)).unwrap_or_default();
            let window = if frame.linked() { done.len().min(lz4::WINDOW_BYTES) } else { 0 };
            let window = done.get(done.len().saturating_sub(window)..).unwrap_or_default();
            let cut = room.len() < wanted;
            length += match block {
                Block::Stored(bytes) if cut => bytes.len(),
                Block::Stored(bytes) => {
                    room.copy_from_slice(bytes);
                    bytes.len()
                }
                Block::Compressed(bytes) => {
                    let result = match window {
                        [] => decompress_into(bytes, room),
                        _ => decompress_into_with_dict(bytes, room, window),
                    };
                    match result {
                        Err(DecompressError::OutputTooSmall { .. }) if cut => return Err(self.too_large()),
                        result => result.map_err(|why| failed("lz4", why))?,
                    }
                }
            };
            if length > self.bytes_max {
                return Err(self.too_large());
            }
        }
        Ok(length)
    }

    /// Decompresses frame by frame straight into the buffer, without the window that a stream would allocate.
    fn zstd(&mut self, payload: &[u8]) -> Result<usize> {
        loop {
            let bytes_max = self.bytes_max;
            if self.zstd.is_none() {
                self.zstd = zstd_safe::DCtx::try_create();
            }
            let Some(context) = &mut self.zstd else {
                return Err(failed("zstd", "no memory for a context"));
            };
            let code = match context.decompress(self.scratch.as_mut_slice(), payload) {
                Ok(length) if length > bytes_max => return Err(self.too_large()),
                Ok(length) => return Ok(length),
                Err(code) => code,
            };
            match zstd_safe::get_error_name(code) {
                // Starting again costs little for a short batch.
                ZSTD_TOO_SMALL if self.scratch.len() < ZSTD_TRIED_BYTES_MAX => self.grow()?,
                ZSTD_TOO_SMALL => self.grow_to(zstd::decompressed_bytes_max(payload))?,
                name => return Err(failed("zstd", name)),
            }
        }
    }

    /// Either one raw snappy block, or blocks in the framing of xerial's snappy-java.
    fn snappy(&mut self, payload: &[u8]) -> Result<usize> {
        if !payload.starts_with(XERIAL_MAGIC) {
            return self.snappy_block(payload, 0);
        }
        let mut rest = payload;
        let mut length = 0;
        while !rest.is_empty() {
            if rest.starts_with(XERIAL_MAGIC) {
                rest = match rest.split_at_checked(XERIAL_HEADER_BYTES) {
                    Some((_, behind)) => behind,
                    None => return Err(failed("snappy", "the stream ends in its header")),
                };
                continue;
            }
            let block = rest.split_first_chunk::<4>().and_then(|(announced, behind)| {
                let announced = usize::try_from(i32::from_be_bytes(*announced)).ok()?;
                behind.split_at_checked(announced)
            });
            let Some((block, behind)) = block else {
                return Err(failed("snappy", format!("a block goes beyond the {} bytes that are left", rest.len())));
            };
            length = self.snappy_block(block, length)?;
            rest = behind;
        }
        Ok(length)
    }

    fn snappy_block(&mut self, block: &[u8], begin: usize) -> Result<usize> {
        let announced = snap::raw::decompress_len(block).map_err(|error| failed("snappy", error))?;
        if announced > block.len().saturating_mul(SNAPPY_RATIO_MAX) {
            let detail = format!("a block of {} bytes announces {announced}, which cannot be in it", block.len());
            return Err(failed("snappy", detail));
        }
        let end = begin.saturating_add(announced);
        if end > self.bytes_max {
            return Err(self.too_large());
        }
        while self.scratch.len() < end {
            self.grow()?;
        }
        let room = self.scratch.get_mut(begin..end).unwrap_or_default();
        self.snappy.decompress(block, room).map_err(|error| failed("snappy", error)).map(|count| begin + count)
    }
}

fn failed(codec: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Kind::Codec, format!("{codec} data cannot be decompressed: {why}"))
}
