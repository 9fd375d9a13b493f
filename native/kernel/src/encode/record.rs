//! One record: how long it is, and its bytes.

use super::column::Refused;
use super::views::Headers;
use std::ops::Range;

/// Length, attributes, timestamp and offset of a record take this much at most, as Java estimates.
const OVERHEAD_BYTES_MAX: usize = 21;
/// More than a length, attributes, a timestamp, an offset and the lengths of key and value can need.
const PREFIX_BYTES_MAX: usize = 40;

/// What a record holds.
pub(super) struct Record<'a> {
    pub(super) key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    /// Which ones of the column; empty if there is no column.
    headers: Range<usize>,
    /// Of key, value and headers, with their lengths.
    fields_bytes: usize,
}

/// Where a record is in its batch.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) offset_delta: i32,
    pub(super) timestamp_delta: i64,
}

#[inline(always)]
fn zigzag(number: i64) -> u64 {
    (number.wrapping_shl(1) ^ (number >> 63)) as u64
}

#[inline(always)]
fn length_of(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// How many bytes a zigzag varint has.
#[inline(always)]
fn varint_bytes(number: i64) -> usize {
    ((63 - (zigzag(number) | 1).leading_zeros()) / 7 + 1) as usize
}

/// The bytes of something nullable behind its length.
#[inline(always)]
pub(super) fn nullable_bytes(bytes: Option<&[u8]>) -> usize {
    varint_bytes(length_of(bytes)) + bytes.map_or(0, <[u8]>::len)
}

impl<'a> Record<'a> {
    /// `headers_bytes`: of all headers, without their number.
    #[inline(always)]
    pub(super) fn new(
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        headers: Range<usize>,
        headers_bytes: usize,
    ) -> Self {
        let counted = varint_bytes(headers.len() as i64) + headers_bytes;
        Record { key, value, headers, fields_bytes: nullable_bytes(key) + nullable_bytes(value) + counted }
    }

    /// A batch with this record alone has at most this many bytes, by Java's estimate.
    #[inline(always)]
    pub(super) fn batch_bytes_max(&self) -> usize {
        crate::batch::HEADER_BYTES + OVERHEAD_BYTES_MAX + self.fields_bytes
    }

    /// All its bytes.
    #[inline(always)]
    pub(super) fn bytes(&self, place: Place) -> usize {
        let body_bytes = self.body_bytes(place);
        varint_bytes(body_bytes as i64) + body_bytes
    }

    /// The bytes after the record's length.
    #[inline(always)]
    fn body_bytes(&self, place: Place) -> usize {
        1 + varint_bytes(i64::from(place.offset_delta)) + varint_bytes(place.timestamp_delta) + self.fields_bytes
    }

    /// Writes it. `headers` is the column that its headers are in.
    #[inline(always)]
    pub(super) fn write(&self, out: &mut Vec<u8>, place: Place, headers: Option<&Headers<'_>>) -> Result<(), Refused> {
        let mut prefix = Prefix::default();
        prefix.varint(self.body_bytes(place) as i64);
        prefix.byte(0);
        prefix.varint(place.timestamp_delta);
        prefix.varint(i64::from(place.offset_delta));
        prefix.varint(length_of(self.key));
        if let Some(key) = self.key {
            out.extend_from_slice(prefix.written());
            out.extend_from_slice(key);
            prefix.length = 0;
        }
        prefix.varint(length_of(self.value));
        out.extend_from_slice(prefix.written());
        out.extend_from_slice(self.value.unwrap_or_default());
        match headers {
            Some(headers) if !self.headers.is_empty() => self.write_headers(out, headers),
            _ => {
                out.push(0);
                Ok(())
            }
        }
    }

    fn write_headers(&self, out: &mut Vec<u8>, headers: &Headers<'_>) -> Result<(), Refused> {
        append_varint(out, self.headers.len() as i64);
        for header in self.headers.clone() {
            let (key, value) = headers.at(header)?;
            for part in [key, value] {
                append_varint(out, length_of(part));
                out.extend_from_slice(part.unwrap_or_default());
            }
        }
        Ok(())
    }
}

fn append_varint(out: &mut Vec<u8>, number: i64) {
    let mut prefix = Prefix::default();
    prefix.varint(number);
    out.extend_from_slice(prefix.written());
}

/// The short numbers in front of something long.
struct Prefix {
    bytes: [u8; PREFIX_BYTES_MAX],
    length: usize,
}

impl Default for Prefix {
    #[inline(always)]
    fn default() -> Self {
        Prefix { bytes: [0; PREFIX_BYTES_MAX], length: 0 }
    }
}

impl Prefix {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    #[inline(always)]
    fn varint(&mut self, number: i64) {
        let mut rest = zigzag(number);
        while rest >= 0x80 {
            self.byte(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.byte(rest as u8);
    }

    #[inline(always)]
    fn written(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
