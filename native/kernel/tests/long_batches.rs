//! Record batches that are handed out in parts: checked and decompressed once, whatever happens between the parts.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, Batch, Codec, Record, Row, CLUSTER, CODECS, EVERYTHING, LIMITS, PARTITION, SEVEN, TOPIC};
use evensplit_kernel::{Appended, ColumnBuilder, Kind, Limits, Range};

const HEADER_BYTES: usize = 61;
const COUNT: i64 = 40;

/// A batch of so many records of 500 bytes: with `builder`, far more than what fits at a time.
fn long(base_offset: i64, codec: Codec) -> Batch {
    let values: Vec<Vec<u8>> = (0..COUNT).map(|n| vec![n as u8; 500]).collect();
    Batch::plain(base_offset, codec, &values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn builder() -> ColumnBuilder {
    ColumnBuilder::new(SEVEN, Limits { bytes_max: 1000, ..LIMITS })
}

fn from(start: i64) -> Range {
    Range { start, ..EVERYTHING }
}

fn offsets(builder: &mut ColumnBuilder) -> Vec<i64> {
    builder.finish().offset.unwrap()
}

/// Appends the first part of the batch, which has to stop within it, and takes it out.
fn first_part(builder: &mut ColumnBuilder, bytes: &[u8], range: Range) -> (Appended, Vec<i64>) {
    let done = append(builder, bytes, range).unwrap();
    assert!(done.stopped && done.position == 0 && done.rows < COUNT as usize, "{done:?}");
    let found = offsets(builder);
    (done, found)
}

/// The rows from `range.start` on, part by part.
fn rest(builder: &mut ColumnBuilder, bytes: &[u8], mut range: Range) -> Vec<Row> {
    let (mut position, mut found) = (0, Vec::new());
    loop {
        let done = append(builder, &bytes[position..], range).unwrap();
        range.start = done.offset_next;
        position += done.position;
        found.extend(common::rows(&builder.finish()));
        if !done.stopped {
            return found;
        }
    }
}

#[test]
fn a_batch_in_many_parts_is_opened_once() {
    for codec in CODECS {
        let log = [long(0, codec), long(COUNT, codec), Batch::plain(2 * COUNT, codec, &[b"x"])];
        let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
        let mut builder = builder();
        let expected: Vec<Row> = log.iter().flat_map(|batch| batch.rows(EVERYTHING, SEVEN)).collect();
        assert_eq!(rest(&mut builder, &bytes, EVERYTHING), expected, "{codec:?}");
        assert_eq!(builder.batches_opened(), 3, "{codec:?}");
    }
}

#[test]
fn what_was_decompressed_is_kept_and_not_where_the_frame_is() {
    for codec in &CODECS[1..] {
        let batch = long(7, *codec);
        let mut bytes = batch.encode();
        let mut builder = builder();
        let (done, found) = first_part(&mut builder, &bytes, EVERYTHING);
        bytes[HEADER_BYTES..].fill(0xee);
        // In another place too.
        let moved = bytes.clone();
        drop(bytes);
        let others = rest(&mut builder, &moved, from(done.offset_next));
        assert_eq!(others, batch.rows(from(7 + found.len() as i64), SEVEN), "{codec:?}");
    }
}

#[test]
fn another_frame_in_its_place_is_another_batch() {
    for codec in CODECS {
        let bytes = long(0, codec).encode();
        let other = Batch { base_timestamp: 5, ..long(0, codec) };
        let mut builder = builder();
        let (done, _) = first_part(&mut builder, &bytes, EVERYTHING);
        let range = from(done.offset_next);
        assert_eq!(rest(&mut builder, &other.encode(), range), other.rows(range, SEVEN), "{codec:?}");
        // One that is damaged besides is found out by its checksum.
        let (done, _) = first_part(&mut builder, &bytes, EVERYTHING);
        let mut damaged = other.encode();
        *damaged.last_mut().unwrap() ^= 1;
        let error = append(&mut builder, &damaged, from(done.offset_next)).unwrap_err();
        assert_eq!((error.kind, builder.rows()), (Kind::Crc, 0), "{codec:?}");
        // And the one before is read as ever.
        assert_eq!(rest(&mut builder, &bytes, EVERYTHING), long(0, codec).rows(EVERYTHING, SEVEN));
    }
}

#[test]
fn another_partition_in_between() {
    for codec in CODECS {
        let (batch, other) = (long(0, codec), long(3, Codec::Gzip));
        let bytes = batch.encode();
        let mut builder = builder();
        let (done, _) = first_part(&mut builder, &bytes, EVERYTHING);
        for (cluster, topic, partition) in [("b", TOPIC, 3), (CLUSTER, "t", 3), (CLUSTER, TOPIC, 4)] {
            let part = builder.append(&bytes, cluster, topic, partition, from(done.offset_next), &[]).unwrap();
            assert!(part.stopped);
            let rows = common::rows(&builder.finish());
            assert_eq!(rows[0].offset, Some(done.offset_next));
            assert!(rows.iter().all(|row| row.topic.as_deref() == Some(topic) && row.partition == Some(partition)));
        }
        first_part(&mut builder, &other.encode(), EVERYTHING);
        let range = from(done.offset_next);
        assert_eq!(rest(&mut builder, &bytes, range), batch.rows(range, SEVEN), "{codec:?}");
    }
}

#[test]
fn any_other_range_of_the_same_batch() {
    for codec in CODECS {
        let batch = long(100, codec);
        let bytes = batch.encode();
        for range in [from(0), from(101), from(130), Range { start: 120, end: 125 }, Range { start: 139, end: 140 }] {
            let mut builder = builder();
            first_part(&mut builder, &bytes, EVERYTHING);
            assert_eq!(rest(&mut builder, &bytes, range), batch.rows(range, SEVEN), "{codec:?} {range:?}");
        }
        // The end of the range within the batch ends it, in whichever part that is.
        for end in 101..=140 {
            let range = Range { start: 0, end };
            let mut builder = builder();
            assert_eq!(rest(&mut builder, &bytes, range), batch.rows(range, SEVEN), "{codec:?} to {end}");
            assert_eq!(builder.batches_opened(), 1);
        }
    }
}

#[test]
fn a_full_builder_is_asked_again_before_it_was_emptied() {
    for codec in CODECS {
        let batch = long(0, codec);
        let bytes = batch.encode();
        let mut builder = builder();
        let done = append(&mut builder, &bytes, EVERYTHING).unwrap();
        let idle = append(&mut builder, &bytes, from(done.offset_next)).unwrap();
        assert_eq!((idle.offset_next, idle.position, idle.rows, idle.stopped), (done.offset_next, 0, 0, true));
        let found = offsets(&mut builder);
        let others = rest(&mut builder, &bytes, from(done.offset_next));
        assert_eq!(others, batch.rows(from(found.len() as i64), SEVEN), "{codec:?}");
        assert_eq!(builder.batches_opened(), 1);
    }
}

#[test]
fn a_full_builder_that_is_given_something_else_keeps_nothing_of_it() {
    let (first, second) = (long(0, Codec::Zstd), long(COUNT, Codec::Lz4));
    let mut builder = builder();
    let done = append(&mut builder, &first.encode(), EVERYTHING).unwrap();
    assert!(append(&mut builder, &second.encode(), from(COUNT)).unwrap().stopped);
    offsets(&mut builder);
    assert_eq!(rest(&mut builder, &second.encode(), from(COUNT)), second.rows(EVERYTHING, SEVEN));
    let range = from(done.offset_next);
    assert_eq!(rest(&mut builder, &first.encode(), range), first.rows(range, SEVEN));
}

#[test]
fn an_error_behind_it_takes_back_the_part_and_comes_again() {
    for codec in CODECS {
        let batch = Batch::plain(0, codec, &[&[1; 3900], &[2; 300], b"three"]);
        let mut damaged = Batch::plain(3, codec, &[b"four"]).encode();
        *damaged.last_mut().unwrap() ^= 1;
        let bytes = [batch.encode(), damaged].concat();
        let mut builder = builder();
        let (done, _) = first_part(&mut builder, &bytes, EVERYTHING);
        assert_eq!(done.offset_next, 1);
        for _ in 0..2 {
            let error = append(&mut builder, &bytes, from(1)).unwrap_err();
            assert_eq!((error.kind, error.offset, builder.rows()), (Kind::Crc, 3, 0));
        }
        let found = rest(&mut builder, &bytes[..batch.encode().len()], from(1));
        assert_eq!(found, batch.rows(from(1), SEVEN), "{codec:?}");
    }
}

#[test]
fn a_record_that_makes_no_sense_is_an_error_when_it_is_reached() {
    for codec in CODECS {
        let mut batch = long(0, codec);
        batch.records.push(Record::plain(COUNT as i32 - 1, b"again"));
        let bytes = batch.encode();
        let mut builder = builder();
        let (mut done, mut found) = first_part(&mut builder, &bytes, EVERYTHING);
        let error = loop {
            match append(&mut builder, &bytes, from(done.offset_next)) {
                Ok(part) => done = part,
                Err(error) => break error,
            }
            found.extend(offsets(&mut builder));
        };
        assert_eq!((error.kind, error.offset, builder.rows()), (Kind::Malformed, 0, 0), "{codec:?}");
        assert!(found.len() < COUNT as usize && found.iter().copied().eq(0..found.len() as i64), "{found:?}");
        // It comes again, also without what was handed out before it.
        let again = append(&mut builder, &bytes, from(done.offset_next)).unwrap_err();
        assert_eq!((again.kind, builder.rows()), (Kind::Malformed, 0), "{codec:?}");
    }
}

#[test]
fn transactions_go_on_behind_a_long_batch() {
    let committed = Batch { producer_id: 8, transactional: true, ..long(1, Codec::Lz4) };
    let aborted =
        |base_offset| Batch { producer_id: 7, transactional: true, ..Batch::plain(base_offset, Codec::Zstd, &[b"no"]) };
    let log = [
        aborted(0),
        committed.clone(),
        Batch::marker(41, 8, 1),
        aborted(42),
        Batch::marker(43, 7, 0),
        Batch::plain(44, Codec::None, &[b"yes"]),
    ];
    let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
    let mut builder = builder();
    let (mut range, mut position, mut found, mut open) = (EVERYTHING, 0, Vec::new(), vec![(7, 0)]);
    loop {
        let done = builder.append(&bytes[position..], CLUSTER, TOPIC, PARTITION, range, &open).unwrap();
        range.start = done.offset_next;
        position += done.position;
        open = done.aborted;
        found.extend(offsets(&mut builder));
        if !done.stopped {
            break;
        }
        assert_eq!(open, [(7, 0)]);
    }
    assert_eq!(found, (1..=40).chain([44]).collect::<Vec<i64>>());
    assert_eq!((open, builder.batches_opened()), (vec![], 6));
    // If a call in the middle of it says that it was aborted, that counts.
    let mut builder = self::builder();
    let bytes = committed.encode();
    let (done, _) = first_part(&mut builder, &bytes, EVERYTHING);
    let range = from(done.offset_next);
    assert_eq!(builder.append(&bytes, CLUSTER, TOPIC, PARTITION, range, &[(8, 1)]).unwrap().rows, 0);
}
