//! Each rule by name.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, varint, Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::{Appended, ColumnBuilder, Kind, Limits, Range, Selection};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;

fn builder() -> ColumnBuilder {
    ColumnBuilder::new(Selection::ALL, LIMITS)
}

fn refused(bytes: &[u8]) -> (Kind, i64, String) {
    let error = append(&mut builder(), bytes, EVERYTHING).unwrap_err();
    (error.kind, error.offset, error.detail)
}

fn did(offset_next: i64, position: usize, rows: usize, stopped: bool, complete_batches: usize) -> Appended {
    Appended { offset_next, position, rows, stopped, missing: None, complete_batches, aborted: Vec::new() }
}

fn abc(base_offset: i64) -> Batch {
    Batch::plain(base_offset, Codec::None, &[b"a", b"b", b"c"])
}

/// A batch of one record with this body.
fn one_record(body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    varint(&mut payload, body.len() as i64);
    payload.extend(body);
    Batch::plain(7, Codec::None, &[b"x"]).encode_with(&payload, 1)
}

#[test]
fn a_wrong_checksum_is_found_wherever_the_byte_is() {
    let good = abc(40).encode();
    for at in 17..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let (kind, offset, _) = refused(&bad);
        assert_eq!((kind, offset), (Kind::Crc, 40), "byte {at}");
    }
}

#[test]
fn an_error_in_a_later_batch_takes_back_the_whole_call() {
    let with_headers = |base_offset| {
        let mut batch = abc(base_offset);
        batch.records[1].headers = vec![(b"h".to_vec(), Some(b"1".to_vec()))];
        batch
    };
    let mut bad = abc(6).encode();
    *bad.last_mut().unwrap() ^= 1;
    let mut builder = builder();
    append(&mut builder, &with_headers(0).encode(), EVERYTHING).unwrap();
    let bytes = builder.bytes();
    let error = append(&mut builder, &[with_headers(3).encode(), bad].concat(), EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset, builder.rows(), builder.bytes()), (Kind::Crc, 6, 3, bytes));
    assert_eq!(common::rows(&builder.finish()), with_headers(0).rows(EVERYTHING, Selection::ALL));
}

#[test]
fn old_message_formats_are_named() {
    for (magic, text) in [(0, "message format v0"), (1, "message format v1"), (3, "message format v3")] {
        let mut bytes = abc(9).encode();
        bytes[16] = magic;
        let (kind, offset, detail) = refused(&bytes[..20]);
        assert_eq!((kind, offset), (Kind::UnsupportedMagic, 9));
        assert!(detail.contains(text), "{detail}");
    }
}

#[test]
fn header_fields_out_of_range() {
    let set = |at: usize, value: &[u8]| {
        let mut bytes = abc(9).encode();
        bytes[at..at + value.len()].copy_from_slice(value);
        common::fix_crc(&mut bytes);
        refused(&bytes).2
    };
    assert_eq!(set(0, &(-5_i64).to_be_bytes()), "the base offset is -5, expected 0 or more");
    let last = "the last offset delta is 2 and the base offset 9223372036854775806";
    assert_eq!(set(0, &(i64::MAX - 1).to_be_bytes()), last);
    let last = "the last offset delta is 2 and the base offset 9223372036854775805";
    assert_eq!(set(0, &(i64::MAX - 2).to_be_bytes()), last);
    assert_eq!(set(8, &48_i32.to_be_bytes()), "the length of a record batch is 48, expected 49 or more");
    assert_eq!(set(8, &(-1_i32).to_be_bytes()), "the length of a record batch is -1, expected 49 or more");
    assert_eq!(set(21, &5_i16.to_be_bytes()), "the codec is number 5, expected 0 to 4");
    assert_eq!(set(23, &(-1_i32).to_be_bytes()), "the last offset delta is -1 and the base offset 9");
    assert_eq!(set(57, &(-1_i32).to_be_bytes()), "the number of records is -1");
    assert_eq!(set(57, &2_i32.to_be_bytes()), "2 records were announced, and 8 bytes follow the last");
    assert_eq!(set(57, &4_i32.to_be_bytes()), "a record's length needs 1 bytes, 0 are left");
    assert_eq!(set(23, &1_i32.to_be_bytes()), "a record has offset 11, expected 11 to 10");
}

#[test]
fn record_fields_out_of_range() {
    let cases: [(&[u8], &str); 10] = [
        (&[0, 0, 0, 1, 1, 0, 9], "a record of 7 bytes is complete and 1 of them are left"),
        (&[0, 0, 0, 1, 1], "a record's number of headers needs 1 bytes, 0 are left"),
        (&[0, 0, 0, 3, 1, 0], "a record's key is -2, expected -1 or more"),
        (&[0, 0, 0, 1, 20, 0], "a record's value needs 10 bytes, 1 are left"),
        (&[0, 0, 0, 1, 1, 1], "a record has -1 headers"),
        (&[0, 0, 0, 1, 1, 2, 1, 1], "a header's key is null"),
        (&[0, 0, 0, 1, 1, 4, 0, 1], "a header's key needs 1 bytes, 0 are left"),
        (&[0, 0, 1, 1, 1, 0], "a record has offset 6, expected 7 to 7"),
        (&[0, 0, 2, 1, 1, 0], "a record has offset 8, expected 7 to 7"),
        (&[], "a record's attributes needs 1 bytes, 0 are left"),
    ];
    for (body, detail) in cases {
        assert_eq!(refused(&one_record(body)).2, detail);
    }
    assert!(append(&mut builder(), &one_record(&[0, 0, 0, 1, 1, 0]), EVERYTHING).is_ok());
}

#[test]
fn offsets_have_to_rise() {
    let mut twice = abc(5);
    twice.records[2].offset_delta = 1;
    assert_eq!(refused(&twice.encode()).2, "a record has offset 6, expected 7 to 7");
    let again = [abc(5).encode(), abc(7).encode()].concat();
    assert_eq!(refused(&again), (Kind::Malformed, 7, "the base offset is 7, expected 8 or more".to_owned()));
}

#[test]
fn batches_out_of_range_are_not_decompressed() {
    let broken = |base_offset| Batch { codec: Codec::Lz4, ..abc(base_offset) }.encode_with(b"not lz4", 3);
    let bytes = [broken(0), abc(3).encode(), broken(6)].concat();
    let mut builder = builder();
    let done = append(&mut builder, &bytes, Range { start: 3, end: 6 }).unwrap();
    assert_eq!((done.offset_next, done.rows), (6, 3));
    assert_eq!(append(&mut builder, &bytes, Range { start: 2, end: 6 }).unwrap_err().kind, Kind::Codec);
    assert_eq!(append(&mut builder, &bytes, Range { start: 3, end: 7 }).unwrap_err().offset, 6);
}

#[test]
fn a_batch_behind_the_range_ends_it() {
    let bytes = abc(50).encode();
    for length in [17, bytes.len()] {
        let done = append(&mut builder(), &bytes[..length], Range { start: 10, end: 20 }).unwrap();
        assert_eq!(done, did(20, 0, 0, false, usize::from(length == bytes.len())));
    }
}

#[test]
fn only_a_cut_off_batch_came() {
    let bytes = abc(50).encode();
    for length in 0..bytes.len() {
        let done = append(&mut builder(), &bytes[..length], Range { start: 50, end: 60 }).unwrap();
        assert_eq!(done, did(50, 0, 0, false, 0));
    }
}

#[test]
fn control_and_emptied_batches_move_the_offset_without_rows() {
    let control = Batch { control: true, ..abc(0) }.encode();
    let emptied = Batch { records: Vec::new(), last_offset_delta: 9, ..abc(3) }.encode();
    let mut builder = builder();
    let done = append(&mut builder, &[control, emptied].concat(), EVERYTHING).unwrap();
    assert_eq!((done.offset_next, done.rows, done.complete_batches), (13, 0, 2));
    assert_eq!(builder.finish().rows, 0);
}

#[test]
fn a_full_builder_begins_no_batch_and_finishes_the_one_at_hand() {
    let mut builder = ColumnBuilder::new(common::SEVEN, Limits { rows_max: 2, ..LIMITS });
    let bytes = [abc(0).encode(), abc(3).encode()].concat();
    let done = append(&mut builder, &bytes, EVERYTHING).unwrap();
    let position = bytes.len() / 2;
    assert_eq!(done, did(3, position, 3, true, 2));
    assert!(builder.full());
    let idle = append(&mut builder, &bytes[position..], Range { start: 3, ..EVERYTHING }).unwrap();
    assert_eq!(idle, did(3, 0, 0, true, 1));
    assert_eq!(builder.finish().rows, 3);
    let rest = append(&mut builder, &bytes[position..], Range { start: 3, ..EVERYTHING }).unwrap();
    assert_eq!(rest, did(6, position, 3, false, 1));
}

#[test]
fn one_batch_far_beyond_the_bytes_is_handed_out_in_parts() {
    let value = vec![b'v'; 500];
    let values: Vec<&[u8]> = (0..100).map(|_| &value[..]).collect();
    let bytes = Batch::plain(0, Codec::Zstd, &values).encode();
    let mut builder = ColumnBuilder::new(common::SEVEN, Limits { bytes_max: 1000, ..LIMITS });
    let (mut range, mut parts) = (EVERYTHING, Vec::new());
    loop {
        let done = append(&mut builder, &bytes, range).unwrap();
        assert!(builder.bytes() <= 4000);
        parts.push(builder.finish().offset.unwrap());
        range.start = done.offset_next;
        if !done.stopped {
            break;
        }
        assert_eq!(done.position, 0);
    }
    assert!(parts.len() > 10);
    assert_eq!(parts.concat(), (0..100).collect::<Vec<i64>>());
}

#[test]
fn a_single_record_always_fits() {
    let mut builder = ColumnBuilder::new(common::SEVEN, Limits { bytes_max: 10, ..LIMITS });
    let bytes = Batch::plain(0, Codec::None, &[&[1; 5000], &[2; 5000]]).encode();
    let done = append(&mut builder, &bytes, EVERYTHING).unwrap();
    assert_eq!((done.offset_next, done.rows, done.stopped, builder.full()), (1, 1, true, true));
}

#[test]
fn headers_keep_order_duplicates_and_nulls() {
    let mut batch = abc(0);
    let headers =
        vec![(b"b".to_vec(), Some(b"1".to_vec())), (b"a\xff".to_vec(), None), (b"b".to_vec(), Some(Vec::new()))];
    batch.records[1].headers = headers;
    let mut builder = builder();
    append(&mut builder, &batch.encode(), EVERYTHING).unwrap();
    let rows = common::rows(&builder.finish());
    let expected =
        vec![("b".to_owned(), Some(b"1".to_vec())), ("a\u{fffd}".to_owned(), None), ("b".to_owned(), Some(Vec::new()))];
    assert_eq!(
        rows.into_iter().map(|row| row.headers).collect::<Vec<_>>(),
        [Some(None), Some(Some(expected)), Some(None)]
    );
}

#[test]
fn names_follow_the_rows_they_belong_to() {
    let mut builder = builder();
    for (cluster, topic, partition, base) in
        [("x", "t", 0, 0), ("x", "t", 0, 3), ("y", "longer", 1, 0), ("x", "t", 2, 6)]
    {
        builder.append(&abc(base).encode(), cluster, topic, partition, EVERYTHING, &[]).unwrap();
    }
    let rows = common::rows(&builder.finish());
    let places: Vec<_> = rows
        .iter()
        .map(|row| (row.cluster.as_deref().unwrap(), row.topic.as_deref().unwrap(), row.partition.unwrap()))
        .collect();
    let expected = [[("x", "t", 0); 3], [("x", "t", 0); 3], [("y", "longer", 1); 3], [("x", "t", 2); 3]];
    assert_eq!(places, expected.concat());
}

#[test]
fn a_name_longer_than_kafka_can_say_is_refused() {
    let error = builder().append(&abc(0).encode(), "c", &"t".repeat(40_000), 0, EVERYTHING, &[]).unwrap_err();
    assert_eq!(error.detail, "a topic name of 40000 bytes, at most 32767 fit");
}

#[test]
fn broken_compression_of_every_kind() {
    for codec in &common::CODECS[1..] {
        let batch = Batch { codec: *codec, ..abc(4) };
        let mut payload = common::compress(*codec, &batch.payload());
        let longer = [&payload[..], b"surplus"].concat();
        assert_eq!(refused(&batch.encode_with(&longer, 3)).1, 4, "{codec:?} with a surplus");
        while payload.pop().is_some() {
            assert_eq!(refused(&batch.encode_with(&payload, 3)).1, 4, "{codec:?} cut to {} bytes", payload.len());
        }
        assert_eq!(refused(&batch.encode_with(b"nonsense", 3)).1, 4, "{codec:?} not at all");
    }
}

#[test]
fn xerial_streams_joined_into_one() {
    let batch = Batch { codec: Codec::SnappyXerial, ..abc(0) };
    let payload = batch.payload();
    let (head, tail) = payload.split_at(9);
    let joined = [common::compress(batch.codec, head), common::compress(batch.codec, tail)].concat();
    assert_eq!(append(&mut builder(), &batch.encode_with(&joined, 3), EVERYTHING).unwrap().rows, 3);
}

fn lz4_frame(info: FrameInfo, payload: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(payload).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_kind_of_lz4_frame() {
    // Blocks that refer to those before them, blocks that are stored, and one that is not full.
    let mut noise = 1_u32;
    let mut value: Vec<u8> = (0..200_000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .collect();
    value.extend_from_within(130_000..190_000);
    value.extend([7; 300_000]);
    let batch = Batch { codec: Codec::Lz4, ..Batch::plain(0, Codec::None, &[&value]) };
    let payload = batch.payload();
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for (checksums, content_size) in [(false, None), (true, Some(payload.len() as u64))] {
                let info = FrameInfo::new().block_size(size).block_mode(mode).content_size(content_size);
                let frame = lz4_frame(info.block_checksums(checksums).content_checksum(checksums), &payload);
                let mut builder = builder();
                append(&mut builder, &batch.encode_with(&frame, 1), EVERYTHING).unwrap();
                assert!(builder.finish().value.unwrap().data == value, "{size:?} {mode:?} {checksums}");
                let tight = Limits { uncompressed_bytes_max: payload.len() - 1, ..LIMITS };
                let mut builder = ColumnBuilder::new(common::SEVEN, tight);
                let error = append(&mut builder, &batch.encode_with(&frame, 1), EVERYTHING).unwrap_err();
                assert_eq!(error.kind, Kind::TooLarge, "{size:?} {mode:?} {checksums}: {error}");
            }
        }
    }
}
