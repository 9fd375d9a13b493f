//! Compression as Kafka's producer does it, with contexts that are used again and again.
//!
//! Gzip is stock zlib's, byte for byte as in Java: others find other matches, for batches up to 5 % longer at level 6, and
//! by more at level 1.

use super::column::Refused;
use super::lz4;
use crate::codec::{Codec, XERIAL_MAGIC};
use flate2::{Compress, Compression as Deflate, Crc, FlushCompress, Status};
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

/// Of snappy-java.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
/// Magic, version 1 with independent blocks, blocks of 64 KiB, and the header's checksum.
const LZ4_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
/// The bit that says that a block is stored as it is.
const LZ4_STORED: u32 = 1 << 31;
/// Kafka's number for lz4's fast compressor.
const LZ4_FAST: i32 = 9;
/// Deflate, no flags, no time, an operating system that does not matter.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
const GZIP_LEVEL: i32 = 6;
const GROWTH_MIN: usize = 64 * 1024;
const ZSTD_LEVEL: i32 = 3;
const ZSTD_LEVEL_MIN: i32 = -131_072;
const ZSTD_LEVEL_MAX: i32 = 22;

/// A codec and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    codec: Codec,
    level: i32,
}

impl Compression {
    /// `level`: `None` for the default of Kafka's producer.
    pub fn of(codec: &str, level: Option<i32>) -> Result<Self, Refused> {
        let (codec, level) = match (codec, level) {
            ("none", None) => (Codec::None, 0),
            ("snappy", None) => (Codec::Snappy, 0),
            ("gzip", None) => (Codec::Gzip, GZIP_LEVEL),
            ("gzip", Some(level @ 1..=9)) => (Codec::Gzip, level),
            ("gzip", Some(level)) => return Err(Refused(format!("level {level} of gzip, expected 1 to 9"))),
            ("lz4", None | Some(LZ4_FAST)) => (Codec::Lz4, LZ4_FAST),
            ("lz4", Some(level)) => {
                return Err(Refused(format!(
                    "level {level} of lz4, expected none or {LZ4_FAST}, which is its fast compressor; this client does \
                     not have the slow one of the other levels"
                )))
            }
            ("zstd", None) => (Codec::Zstd, ZSTD_LEVEL),
            ("zstd", Some(level @ ZSTD_LEVEL_MIN..=ZSTD_LEVEL_MAX)) => (Codec::Zstd, level),
            ("zstd", Some(level)) => {
                return Err(Refused(format!("level {level} of zstd, expected {ZSTD_LEVEL_MIN} to {ZSTD_LEVEL_MAX}")))
            }
            ("none" | "snappy", Some(level)) => {
                return Err(Refused(format!("level {level}, but {codec} has no levels")))
            }
            _ => return Err(Refused(format!("the codec is {codec:?}, expected none, gzip, snappy, lz4 or zstd"))),
        };
        Ok(Compression { codec, level })
    }

    pub(super) fn compresses(self) -> bool {
        self.codec != Codec::None
    }
}

/// Compresses record batches one after the other.
pub(super) struct Compressor {
    codec: Codec,
    level: i32,
    /// The last result is at its beginning.
    out: Vec<u8>,
    snappy: snap::raw::Encoder,
    lz4: Option<lz4::Table>,
    lz4_block: Vec<u8>,
    gzip: Option<Compress>,
    zstd: Option<CCtx<'static>>,
}

impl Compressor {
    pub(super) fn new(compression: Compression) -> Self {
        Compressor {
            codec: compression.codec,
            level: compression.level,
            out: Vec::new(),
            snappy: snap::raw::Encoder::new(),
            lz4: None,
            lz4_block: Vec::new(),
            gzip: None,
            zstd: None,
        }
    }

    /// The codec's number in a batch's attributes.
    pub(super) fn attributes(&self) -> i16 {
        match self.codec {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// The records compressed; `None` if they stay as they are.
    pub(super) fn compress(&mut self, raw: &[u8]) -> Result<Option<&[u8]>, Refused> {
        let length = match self.codec {
            Codec::None => return Ok(None),
            Codec::Gzip => self.gzip(raw)?,
            Codec::Snappy => self.snappy(raw)?,
            Codec::Lz4 => self.lz4(raw),
            Codec::Zstd => self.zstd(raw)?,
        };
        self.out.get(..length).map(Some).ok_or_else(|| failed("memory", "it is shorter than what was written to it"))
    }

    /// `bytes` of the result, from `at` on.
    fn room(&mut self, at: usize, bytes: usize) -> &mut [u8] {
        let end = at.saturating_add(bytes);
        if self.out.len() < end {
            self.out.resize(end.max(self.out.len().saturating_mul(2)), 0);
        }
        self.out.get_mut(at..end).unwrap_or_default()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> usize {
        self.room(at, bytes.len()).copy_from_slice(bytes);
        at + bytes.len()
    }

    fn gzip(&mut self, raw: &[u8]) -> Result<usize, Refused> {
        let mut context = match self.gzip.take() {
            Some(mut context) => {
                context.reset();
                context
            }
            None => Compress::new(Deflate::new(self.level.unsigned_abs()), false),
        };
        let mut length = self.put(0, &GZIP_HEADER);
        loop {
            let (read, written) = (context.total_in() as usize, context.total_out() as usize);
            let rest = raw.get(read..).unwrap_or_default();
            let room = self.room(length, (rest.len() / 2).max(GROWTH_MIN));
            let status = context.compress(rest, room, FlushCompress::Finish).map_err(|error| failed("gzip", error))?;
            length += context.total_out() as usize - written;
            if status == Status::StreamEnd {
                break;
            }
        }
        self.gzip = Some(context);
        let mut checksum = Crc::new();
        checksum.update(raw);
        length = self.put(length, &checksum.sum().to_le_bytes());
        Ok(self.put(length, &checksum.amount().to_le_bytes()))
    }

    fn snappy(&mut self, raw: &[u8]) -> Result<usize, Refused> {
        let mut length = self.put(0, XERIAL_MAGIC);
        length = self.put(length, &XERIAL_VERSIONS);
        for block in raw.chunks(XERIAL_BLOCK_BYTES) {
            let bytes_max = snap::raw::max_compress_len(block.len());
            self.room(length, 4 + bytes_max);
            let room = self.out.get_mut(length + 4..).unwrap_or_default();
            let bytes = self.snappy.compress(block, room).map_err(|error| failed("snappy", error))?;
            self.put(length, &(bytes as u32).to_be_bytes());
            length += 4 + bytes;
        }
        Ok(length)
    }

    fn lz4(&mut self, raw: &[u8]) -> usize {
        let mut length = self.put(0, &LZ4_HEADER);
        let mut out = std::mem::take(&mut self.lz4_block);
        for block in raw.chunks(lz4::BLOCK_BYTES_MAX) {
            out.clear();
            lz4::compress(block, self.lz4.get_or_insert_with(lz4::Table::new), &mut out);
            let (stored, bytes) = if out.len() < block.len() { (0, out.as_slice()) } else { (LZ4_STORED, block) };
            length = self.put(length, &(bytes.len() as u32 | stored).to_le_bytes());
            length = self.put(length, bytes);
        }
        self.lz4_block = out;
        self.put(length, &[0; 4])
    }

    fn zstd(&mut self, raw: &[u8]) -> Result<usize, Refused> {
        let named = |code| failed("zstd", zstd_safe::get_error_name(code));
        let mut context = match self.zstd.take() {
            Some(context) => context,
            None => {
                let mut made = CCtx::try_create().ok_or_else(|| failed("zstd", "no memory for a context"))?;
                made.set_parameter(CParameter::CompressionLevel(self.level)).map_err(named)?;
                made
            }
        };
        let room = self.room(0, zstd_safe::compress_bound(raw.len()).saturating_add(GROWTH_MIN));
        let mut out = OutBuffer::around(room);
        // From the size zstd would choose other parameters than Java gets. It knows none when a part has come before the
        // end has.
        let (first, rest) = raw.split_at_checked(1).unwrap_or_default();
        context.compress_stream2(&mut out, &mut InBuffer::around(first), Directive::ZSTD_e_continue).map_err(named)?;
        let left =
            context.compress_stream2(&mut out, &mut InBuffer::around(rest), Directive::ZSTD_e_end).map_err(named)?;
        if left > 0 {
            return Err(failed("zstd", format!("{left} bytes go beyond its own bound")));
        }
        let length = out.pos();
        self.zstd = Some(context);
        Ok(length)
    }
}

#[cold]
fn failed(codec: &str, why: impl std::fmt::Display) -> Refused {
    Refused(format!("{codec} could not compress: {why}"))
}
