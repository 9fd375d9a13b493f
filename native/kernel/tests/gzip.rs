//! Streams of gzip as other producers make them, and as they must not be.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, compress, rows, Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::{ColumnBuilder, Error, Kind, Selection};
use flate2::{Compression, GzBuilder};
use std::io::Write;

fn batch() -> Batch {
    Batch::plain(5, Codec::Gzip, &[b"one", &[b'2'; 300], b"three"])
}

/// How many rows come out of this stream in a batch, or why none do.
fn read(stream: &[u8]) -> Result<usize, Error> {
    let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
    append(&mut builder, &batch().encode_with(stream, 3), EVERYTHING)?;
    let found = rows(&builder.finish());
    assert_eq!(found, batch().rows(EVERYTHING, Selection::ALL));
    Ok(found.len())
}

fn assert_refused(stream: &[u8], why: &str) {
    let error = read(stream).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Codec, 5), "{why}: {error}");
    assert!(error.detail.contains("gzip data cannot be decompressed: "), "{why}: {error}");
}

#[test]
fn members_one_after_the_other_are_one_payload() {
    let payload = batch().payload();
    for at in [0, 1, 100, payload.len()] {
        let (first, second) = payload.split_at(at);
        assert_eq!(read(&[compress(Codec::Gzip, first), compress(Codec::Gzip, second)].concat()).unwrap(), 3, "{at}");
    }
}

#[test]
fn fields_of_the_header_are_passed_over() {
    let named = GzBuilder::new().extra(vec![1; 70]).filename("a").comment("b").mtime(7).operating_system(3);
    let mut encoder = named.write(Vec::new(), Compression::best());
    encoder.write_all(&batch().payload()).unwrap();
    assert_eq!(read(&encoder.finish().unwrap()).unwrap(), 3);
}

#[test]
fn a_stream_that_ends_too_early_is_refused() {
    let stream = compress(Codec::Gzip, &batch().payload());
    assert_eq!(read(&stream).unwrap(), 3);
    for length in 0..stream.len() {
        assert_refused(&stream[..length], &format!("{length} of {} bytes", stream.len()));
        if length > 0 {
            assert_refused(&[&stream, &stream[..length]].concat(), &format!("{length} bytes of a second member"));
        }
    }
}

#[test]
fn a_wrong_checksum_or_length_is_refused_and_so_is_what_is_no_member() {
    let stream = compress(Codec::Gzip, &batch().payload());
    for from_end in 1..=8 {
        let mut wrong = stream.clone();
        wrong[stream.len() - from_end] ^= 1;
        assert_refused(&wrong, &format!("{from_end} bytes before the end"));
    }
    for behind in [&[0_u8; 10][..], b"\x1f", b"more than ten bytes"] {
        assert_refused(&[&stream, behind].concat(), "bytes behind the end");
    }
}
