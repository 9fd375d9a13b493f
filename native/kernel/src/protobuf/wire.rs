//! The wire format, as protobuf-java reads it.

use crate::fault::{Decoded, Fault};
use crate::varint;

/// How deep messages and groups may be nested, the outermost message left out.
const DEPTH_MAX: usize = 100;

const VARINT_BYTES_MAX: usize = 10;

/// How a value is written.
pub(super) const VARINT: u32 = 0;
pub(super) const FIXED_64: u32 = 1;
pub(super) const LENGTH: u32 = 2;
pub(super) const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
pub(super) const FIXED_32: u32 = 5;

/// The number of a field, and how its value is written.
#[derive(Clone, Copy)]
pub(super) struct Tag(u32);

impl Tag {
    pub(super) fn number(self) -> u32 {
        self.0 >> 3
    }

    pub(super) fn wire_type(self) -> u32 {
        self.0 & 7
    }
}

/// The rest of a message.
pub(super) struct Wire<'a> {
    rest: &'a [u8],
    /// Where in the whole value it ends.
    end: usize,
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Wire { rest: bytes, end: bytes.len() }
    }

    /// Where in the value it is.
    fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next tag; `None` at the end, which is that of the group with this number if it is in one.
    #[inline(always)]
    pub(super) fn tag(&mut self, group: Option<u32>) -> Decoded<Option<Tag>> {
        if self.rest.is_empty() {
            return match group {
                None => Ok(None),
                Some(number) => Err(self.fault(&format!("the end of group {number}"), "the end of the message")),
            };
        }
        // As in Java, bits beyond the 32nd do not count.
        let tag = Tag(self.varint()? as u32);
        match (tag.number(), tag.wire_type()) {
            (0, _) => Err(self.fault("the number of a field", "0")),
            (number, GROUP_END) if group == Some(number) => Ok(None),
            (number, GROUP_END) => Err(self.fault("a field", &format!("the end of group {number}"))),
            _ => Ok(Some(tag)),
        }
    }

    #[inline(always)]
    pub(super) fn varint(&mut self) -> Decoded<u64> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(always)]
    fn long_varint(&mut self) -> Decoded<u64> {
        match varint::first(self.rest) {
            Some((number, count)) => {
                self.rest = self.rest.get(count..).unwrap_or_default();
                Ok(number)
            }
            None => self.longest_varint(),
        }
    }

    #[inline(never)]
    fn longest_varint(&mut self) -> Decoded<u64> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                // As in Java, a tenth byte is the 64th bit, whatever it is.
                return Ok(value | u64::from(at + 1 == VARINT_BYTES_MAX) << 63);
            }
        }
        Err(match self.rest.len() {
            0..VARINT_BYTES_MAX => self.cut_off(),
            _ => self.fault("a varint of 10 bytes at most", "a longer one"),
        })
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

    /// The bytes after their length.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        // As in Java, bits beyond the 32nd do not count.
        let length = self.varint()? as u32 as i32;
        match usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length)) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => {
                let found = format!("a length of {length}");
                Err(self.fault(&format!("{} bytes at most", self.rest.len()), &found))
            }
        }
    }

    /// A message or a packed list after its length.
    #[inline]
    pub(super) fn nested(&mut self) -> Decoded<Wire<'a>> {
        let rest = self.bytes()?;
        Ok(Wire { rest, end: self.at() })
    }

    /// Passes over the value of a field, at this depth.
    #[inline]
    pub(super) fn skip(&mut self, tag: Tag, depth: usize) -> Decoded<()> {
        match tag.wire_type() {
            VARINT => self.varint().map(drop),
            FIXED_64 => self.fixed::<8>().map(drop),
            LENGTH => self.bytes().map(drop),
            GROUP => self.skip_group(tag.number(), depth),
            FIXED_32 => self.fixed::<4>().map(drop),
            other => Err(self.fault("a wire type from 0 to 5", &other.to_string())),
        }
    }

    #[inline(never)]
    fn skip_group(&mut self, number: u32, depth: usize) -> Decoded<()> {
        let depth = self.deeper(depth)?;
        while let Some(tag) = self.tag(Some(number))? {
            self.skip(tag, depth)?;
        }
        Ok(())
    }

    /// The depth within.
    #[inline]
    pub(super) fn deeper(&self, depth: usize) -> Decoded<usize> {
        match depth {
            0..DEPTH_MAX => Ok(depth + 1),
            _ => Err(self.fault(&format!("messages in {DEPTH_MAX} levels at most"), "more")),
        }
    }

    #[cold]
    fn cut_off(&self) -> Fault {
        self.fault("a value", "the end of the message")
    }

    #[cold]
    pub(super) fn fault(&self, expected: &str, found: &str) -> Fault {
        Fault::new(format!("byte {}: expected {expected}, found {found}", self.at()))
    }
}
