//! The binary encoding, as Avro of Java reads it.

use crate::avro::program::Skip;
use crate::fault::{Decoded, Fault};
use crate::varint;

const INT_BYTES_MAX: usize = 5;
const LONG_BYTES_MAX: usize = 10;

/// How deep values that are passed over may be nested: records may be inside of themselves.
const DEPTH_MAX: usize = 256;

/// The rest of a value.
pub(super) struct Wire<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Wire { rest: bytes, length: bytes.len() }
    }

    #[inline(always)]
    fn varint(&mut self, bytes_max: usize) -> Decoded<u64> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(bytes_max),
        }
    }

    #[inline(always)]
    fn long_varint(&mut self, bytes_max: usize) -> Decoded<u64> {
        match varint::first(self.rest) {
            Some((number, count)) if count <= bytes_max => {
                self.rest = self.rest.get(count..).unwrap_or_default();
                Ok(number)
            }
            _ => self.longest_varint(bytes_max),
        }
    }

    #[inline(never)]
    fn longest_varint(&mut self, bytes_max: usize) -> Decoded<u64> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(bytes_max).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(match self.rest.len() < bytes_max {
            true => self.cut_off(),
            false => self.fault(&format!("a number of {bytes_max} bytes at most"), "a longer one"),
        })
    }

    #[inline(always)]
    pub(super) fn long(&mut self) -> Decoded<i64> {
        let bits = self.varint(LONG_BYTES_MAX)?;
        Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    #[inline(always)]
    pub(super) fn int(&mut self) -> Decoded<i32> {
        match u32::try_from(self.varint(INT_BYTES_MAX)?) {
            Ok(bits) => Ok((bits >> 1) as i32 ^ -((bits & 1) as i32)),
            Err(_) => Err(self.fault("a number of 32 bits", "a longer one")),
        }
    }

    /// The number of one of `things`, `count` of them.
    #[inline(always)]
    pub(super) fn index(&mut self, count: usize, things: &str) -> Decoded<usize> {
        let number = self.int()?;
        match usize::try_from(number) {
            Ok(at) if at < count => Ok(at),
            _ => Err(self.fault(&format!("one of {count} {things}"), &format!("number {number}"))),
        }
    }

    #[inline(always)]
    pub(super) fn fixed<const BYTES: usize>(&mut self) -> Decoded<[u8; BYTES]> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(self.cut_off()),
        }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.too_long(&length.to_string())),
        }
    }

    /// The bytes after their length.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length)) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.too_long(&length.to_string())),
        }
    }

    /// How many items the next block of an array or a map has; the last one has none.
    ///
    /// Of how many bytes they are, which may be said, does not count: what is passed over by that, if it is wrong, would
    /// be something else than what is decoded.
    #[inline(always)]
    pub(super) fn block(&mut self) -> Decoded<u64> {
        let count = self.long()?;
        if count < 0 {
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    /// Passes over a value that is so deep in one that is passed over.
    #[inline]
    pub(super) fn skip(&mut self, skip: &Skip, records: &[Box<[Skip]>], depth: usize) -> Decoded<()> {
        match skip {
            Skip::All(each) => self.skip_all(each, records, depth),
            Skip::Record(number) => {
                self.skip_all(records.get(*number).map_or(&[][..], |fields| fields), records, depth)
            }
            one => self.skip_all(std::slice::from_ref(one), records, depth),
        }
    }

    fn skip_all(&mut self, each: &[Skip], records: &[Box<[Skip]>], depth: usize) -> Decoded<()> {
        if depth == DEPTH_MAX {
            return Err(self.fault(&format!("values in {DEPTH_MAX} levels at most"), "more"));
        }
        for skip in each {
            match skip {
                Skip::Fixed(length) => self.take(*length).map(drop)?,
                Skip::Int => self.int().map(drop)?,
                Skip::Long => self.long().map(drop)?,
                Skip::Bytes => self.bytes().map(drop)?,
                Skip::Union(branches) => match branches.get(self.index(branches.len(), "branches")?) {
                    Some(Skip::Fixed(length)) => self.take(*length).map(drop)?,
                    Some(Skip::Bytes) => self.bytes().map(drop)?,
                    Some(branch) => self.skip(branch, records, depth + 1)?,
                    None => {}
                },
                Skip::All(_) | Skip::Record(_) => self.skip(skip, records, depth + 1)?,
                Skip::Array(item) => self.skip_items(item, false, records, depth + 1)?,
                Skip::Map(value) => self.skip_items(value, true, records, depth + 1)?,
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn skip_items(&mut self, item: &Skip, keys: bool, records: &[Box<[Skip]>], depth: usize) -> Decoded<()> {
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(());
            }
            // However many there are, they are no bytes.
            if !keys && *item == Skip::Fixed(0) {
                continue;
            }
            for _ in 0..count {
                if keys {
                    self.bytes()?;
                }
                self.skip(item, records, depth)?;
            }
        }
    }

    #[cold]
    fn too_long(&self, length: &str) -> Fault {
        self.fault(&format!("{} bytes at most", self.rest.len()), &format!("a length of {length}"))
    }

    #[cold]
    fn cut_off(&self) -> Fault {
        self.fault("a value", "the end")
    }

    #[cold]
    pub(super) fn fault(&self, expected: &str, found: &str) -> Fault {
        Fault::new(format!("byte {}: expected {expected}, found {found}", self.length - self.rest.len()))
    }
}
