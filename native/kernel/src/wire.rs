//! Reads Kafka's primitive types from untrusted bytes.

use crate::error::{Error, Result};

/// The part of a structure that is not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Error::truncated(what, length, self.rest.len())),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Error::truncated(what, N, self.rest.len())),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub(crate) fn i16(&mut self, what: &str) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub(crate) fn i32(&mut self, what: &str) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub(crate) fn i64(&mut self, what: &str) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    /// An unsigned varint of at most 32 bits.
    #[inline(always)]
    pub(crate) fn uvarint(&mut self, what: &str) -> Result<u32> {
        match self.uvarint_short() {
            Some(short) => Ok(short),
            None => {
                let long = self.uvarint_slow(5, what)?;
                u32::try_from(long).map_err(|_| Error::malformed(format!("{what} is a varint beyond 32 bits")))
            }
        }
    }

    /// An unsigned varint of at most four bytes, if one is next.
    #[inline(always)]
    fn uvarint_short(&mut self) -> Option<u32> {
        let bits = |byte: u8, at: u32| u32::from(byte & 0x7f) << (7 * at);
        let (value, rest) = match *self.rest {
            [a @ ..0x80, ref rest @ ..] => (u32::from(a), rest),
            [a, b @ ..0x80, ref rest @ ..] => (bits(a, 0) | bits(b, 1), rest),
            [a, b, c @ ..0x80, ref rest @ ..] => (bits(a, 0) | bits(b, 1) | bits(c, 2), rest),
            [a, b, c, d @ ..0x80, ref rest @ ..] => (bits(a, 0) | bits(b, 1) | bits(c, 2) | bits(d, 3), rest),
            _ => return None,
        };
        self.rest = rest;
        Some(value)
    }

    /// A zigzag varint of at most 32 bits.
    #[inline(always)]
    pub(crate) fn varint(&mut self, what: &str) -> Result<i32> {
        let raw = self.uvarint(what)?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A zigzag varint of at most 64 bits.
    #[inline(always)]
    pub(crate) fn varlong(&mut self, what: &str) -> Result<i64> {
        let raw = match self.uvarint_short() {
            Some(short) => u64::from(short),
            None => self.uvarint_slow(10, what)?,
        };
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn uvarint_slow(&mut self, bytes_max: u32, what: &str) -> Result<u64> {
        let mut value = 0_u64;
        for index in 0..bytes_max {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index;
            if shift == 63 && bits > 1 {
                return Err(Error::malformed(format!("{what} is a varint beyond 64 bits")));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::malformed(format!("{what} is a varint of more than {bytes_max} bytes")))
    }

    /// The length of nullable bytes: `None` for -1.
    #[inline(always)]
    pub(crate) fn nullable_length(&mut self, what: &str) -> Result<Option<usize>> {
        match self.varint(what)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(Error::malformed(format!("{what} is {length}, expected -1 or more"))),
            },
        }
    }

    /// Nullable bytes after a varint length.
    #[inline(always)]
    pub(crate) fn nullable_bytes(&mut self, what: &str) -> Result<Option<&'a [u8]>> {
        match self.nullable_length(what)? {
            None => Ok(None),
            Some(length) => self.take(length, what).map(Some),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn varints_at_their_bounds() {
        let cases: [(&[u8], i32); 6] = [
            (&[0x00], 0),
            (&[0x01], -1),
            (&[0x02], 1),
            (&[0x80, 0x01], 64),
            (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i32::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN),
        ];
        for (bytes, expected) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.varint("a number").unwrap(), expected);
            assert_eq!(reader.left(), 0);
        }
        let mut longest = [0xff_u8; 10];
        longest[9] = 0x01;
        assert_eq!(Reader::new(&longest).varlong("a number").unwrap(), i64::MIN);
    }

    #[test]
    fn varints_that_overflow_or_end_early() {
        let beyond: [&[u8]; 2] = [&[0xff, 0xff, 0xff, 0xff, 0x1f], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]];
        for bytes in beyond {
            assert_eq!(Reader::new(bytes).varint("a number").unwrap_err().kind, Kind::Malformed);
        }
        let mut beyond_64 = [0xff_u8; 10];
        beyond_64[9] = 0x02;
        assert_eq!(Reader::new(&beyond_64).varlong("a number").unwrap_err().kind, Kind::Malformed);
        assert_eq!(Reader::new(&[0x80; 11]).varlong("a number").unwrap_err().kind, Kind::Malformed);
        assert_eq!(Reader::new(&[0x80, 0x80]).varint("a number").unwrap_err().kind, Kind::Truncated);
    }

    #[test]
    fn null_is_minus_one_and_nothing_else() {
        assert_eq!(Reader::new(&[0x01]).nullable_bytes("a key").unwrap(), None);
        assert_eq!(Reader::new(&[0x00]).nullable_bytes("a key").unwrap(), Some(&[][..]));
        assert_eq!(Reader::new(&[0x03]).nullable_bytes("a key").unwrap_err().kind, Kind::Malformed);
        assert_eq!(Reader::new(&[0x04, 7]).nullable_bytes("a key").unwrap_err().kind, Kind::Truncated);
    }
}
