//! The frame that clients of a schema registry put before keys and values.

use crate::fault::{Decoded, Fault};
use crate::wire::Reader;

/// What is before each key, or value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    #[default]
    None,
    /// A zero byte, and the id of the writer's schema in 32 bits.
    Id,
    /// The same, and after it where in the file of that schema the message is defined, as for Protobuf.
    IdAndIndexes,
}

/// The schema that a key or value was written by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    /// Its id in the registry.
    pub id: u32,
    /// The number of the message in its file, of the message inside that, and so on. Empty stands for the first message
    /// of the file, and for what is no message.
    pub indexes: Vec<i32>,
}

/// A key or value, and its frame.
#[derive(Clone, Copy)]
pub(crate) struct Framed<'a> {
    /// The frame without its first byte: whatever is written by the same schema, in the same way, has the same.
    pub(crate) head: &'a [u8],
    pub(crate) payload: &'a [u8],
}

const ID_BYTES: usize = 4;

/// How deep a message can be inside others.
const INDEXES_MAX: i32 = 64;

impl Framing {
    /// Takes `bytes` apart.
    #[inline(always)]
    pub(crate) fn split<'a>(self, bytes: &'a [u8]) -> Decoded<Framed<'a>> {
        let (Some((0, after)), true) = (bytes.split_first(), bytes.len() > ID_BYTES) else {
            return Err(unframed(bytes));
        };
        let length = match self {
            Framing::None => 0,
            Framing::Id => ID_BYTES,
            Framing::IdAndIndexes => ID_BYTES + indexes(after.get(ID_BYTES..).unwrap_or_default())?.1,
        };
        let (head, payload) = after.split_at_checked(length).unwrap_or_default();
        Ok(Framed { head, payload })
    }
}

impl Framed<'_> {
    /// The schema that the frame names.
    pub(crate) fn writer(&self) -> Decoded<Writer> {
        let (id, rest) = self.head.split_first_chunk::<ID_BYTES>().ok_or_else(|| unframed(self.head))?;
        let indexes = if rest.is_empty() { Vec::new() } else { indexes(rest)?.0 };
        Ok(Writer { id: u32::from_be_bytes(*id), indexes })
    }
}

/// The indexes that `bytes` begin with, and how many bytes they take.
#[inline]
fn indexes(bytes: &[u8]) -> Decoded<(Vec<i32>, usize)> {
    if bytes.first() == Some(&0) {
        return Ok((Vec::new(), 1));
    }
    let mut reader = Reader::new(bytes);
    let count = reader.varint("the number of message indexes")?;
    if !(1..=INDEXES_MAX).contains(&count) {
        return Err(Fault::new(format!("the frame has {count} message indexes, expected at most {INDEXES_MAX}")));
    }
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(match reader.varint("a message index")? {
            index @ 0.. => index,
            index => return Err(Fault::new(format!("a message index is {index}, expected 0 or more"))),
        });
    }
    if found == [0] {
        found.clear();
    }
    Ok((found, bytes.len() - reader.left()))
}

#[cold]
fn unframed(bytes: &[u8]) -> Fault {
    let found: Vec<String> = bytes.iter().take(ID_BYTES + 1).map(|byte| format!("{byte:02x}")).collect();
    let found = if found.is_empty() { "nothing".to_owned() } else { found.join(" ") };
    Fault::new(format!("expected the frame of a schema registry, 00 and 4 bytes of an id, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(framing: Framing, bytes: &[u8]) -> Option<(u32, Vec<i32>, Vec<u8>)> {
        let framed = framing.split(bytes).ok()?;
        let writer = framed.writer().ok()?;
        Some((writer.id, writer.indexes, framed.payload.to_vec()))
    }

    #[test]
    fn the_id_is_before_the_payload() {
        assert_eq!(split(Framing::Id, b"\0\0\0\x01\x02ab"), Some((258, vec![], b"ab".to_vec())));
        assert_eq!(split(Framing::Id, b"\0\xff\xff\xff\xff"), Some((u32::MAX, vec![], vec![])));
        for bytes in [&b""[..], b"\0", b"\0\0\0\x01", b"\x01\0\0\0\x01ab", b"{\"id\":1}"] {
            assert_eq!(split(Framing::Id, bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn indexes_are_after_the_id() {
        for (rest, indexes) in [
            (&b"\0ab"[..], vec![]),
            (b"\x02\0ab", vec![]),
            (b"\x02\x02ab", vec![1]),
            (b"\x04\x02\x80\x01ab", vec![1, 64]),
        ] {
            let bytes = [b"\0\0\0\0\x07", rest].concat();
            let found = split(Framing::IdAndIndexes, &bytes);
            assert_eq!(found, Some((7, indexes, b"ab".to_vec())), "{rest:?}");
        }
        for rest in [&b""[..], b"\x02", b"\x01", b"\x02\x01", b"\xff\xff\xff\xff\x0f\0", b"\x82\x01", b"\x80"] {
            assert_eq!(split(Framing::IdAndIndexes, &[b"\0\0\0\0\x07", rest].concat()), None, "{rest:?}");
        }
    }
}
