//! One record of a record batch (message format v2).

use crate::error::{Error, Result};
use crate::wire::Reader;

pub(crate) struct Record<'a> {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    /// The bytes of all headers, checked only if headers were wanted; then reading them again cannot fail.
    pub(crate) headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Reads the next record and checks it to its end; headers that are not wanted are skipped.
    #[inline(always)]
    pub(crate) fn read(reader: &mut Reader<'a>, headers_wanted: bool) -> Result<Self> {
        let Some(length) = reader.nullable_length("a record's length")? else {
            return Err(Error::malformed("a record's length is -1, expected 0 or more"));
        };
        let mut body = Reader::new(reader.take(length, "a record")?);
        // The attributes of a record are unused, and Kafka's own reader ignores them.
        body.u8("a record's attributes")?;
        let timestamp_delta = body.varlong("a record's timestamp delta")?;
        let offset_delta = body.varint("a record's offset delta")?;
        let key = body.nullable_bytes("a record's key")?;
        let value = body.nullable_bytes("a record's value")?;
        let count = body.varint("a record's number of headers")?;
        let count = usize::try_from(count).map_err(|_| Error::malformed(format!("a record has {count} headers")))?;
        let headers = Headers { count, reader: body };
        if count > 0 {
            if !headers_wanted {
                return Ok(Record { timestamp_delta, offset_delta, key, value, headers });
            }
            body = headers.checked()?;
        }
        match body.left() {
            0 => Ok(Record { timestamp_delta, offset_delta, key, value, headers }),
            left => {
                Err(Error::malformed(format!("a record of {length} bytes is complete and {left} of them are left")))
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Headers<'a> {
    count: usize,
    reader: Reader<'a>,
}

impl<'a> Headers<'a> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Reads all headers, and returns the bytes after them.
    fn checked(&self) -> Result<Reader<'a>> {
        let mut reader = self.reader;
        for _ in 0..self.count {
            header(&mut reader)?;
        }
        Ok(reader)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let mut reader = self.reader;
        (0..self.count).map_while(move |_| header(&mut reader).ok())
    }
}

fn header<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>)> {
    let Some(key) = reader.nullable_bytes("a header's key")? else {
        return Err(Error::malformed("a header's key is null"));
    };
    Ok((key, reader.nullable_bytes("a header's value")?))
}
