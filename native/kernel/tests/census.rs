//! The headers of record batches as columns: the same batches that were written, and nothing of what is damaged.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{fix_crc, Batch, Codec, CODECS, EVERYTHING};
use evensplit_kernel::{take_census, Kind, Range};
use proptest::collection::vec;
use proptest::prelude::*;

/// What one batch is to be listed as: base and last offset, producer, records, flags and marker.
type Line = (i64, i64, i64, i32, u8, i16);

fn lines(bytes: &[u8], range: Range) -> evensplit_kernel::Result<(Vec<Line>, i64)> {
    let found = take_census(bytes, range)?;
    let lengths = [found.last_offsets.len(), found.producer_epochs.len(), found.base_sequences.len()];
    assert_eq!(lengths, [found.base_offsets.len(); 3]);
    let line = |at: usize| {
        (
            found.base_offsets[at],
            found.last_offsets[at],
            found.producer_ids[at],
            found.records[at],
            found.flags[at],
            found.markers[at],
        )
    };
    Ok(((0..found.base_offsets.len()).map(line).collect(), found.offset_next))
}

/// Batches one after the other, of several producers and with markers, and the lines that they are.
fn log(parts: &[(i64, usize, i16)]) -> (Vec<u8>, Vec<Line>) {
    let (mut bytes, mut expected, mut offset) = (Vec::new(), Vec::new(), 0);
    for &(producer_id, records, marker) in parts {
        if marker >= 0 {
            bytes.extend(Batch::marker(offset, producer_id, marker).encode());
            expected.push((offset, offset, producer_id, 1, 3, marker));
            offset += 1;
        } else {
            let values = vec![&b"value"[..]; records];
            let transactional = producer_id >= 0;
            let codec = CODECS[records % CODECS.len()];
            bytes.extend(Batch { producer_id, transactional, ..Batch::plain(offset, codec, &values) }.encode());
            let last = offset + records as i64 - 1;
            expected.push((offset, last, producer_id, records as i32, u8::from(transactional), -1));
            offset = last + 1;
        }
    }
    (bytes, expected)
}

proptest! {
    #[test]
    fn all_batches_of_a_range_are_listed_once(
        parts in vec((-1..3_i64, 1..9_usize, -1..2_i16), 1..12),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let (bytes, all) = log(&parts);
        let behind = all[all.len() - 1].1 + 1;
        let mut bounds = [from.index(behind as usize + 1) as i64, to.index(behind as usize + 1) as i64];
        bounds.sort_unstable();
        let [start, end] = bounds;
        let (found, offset_next) = lines(&bytes, Range { start, end }).unwrap();
        let expected: Vec<Line> =
            all.into_iter().filter(|one| start < end && one.1 >= start && one.0 < end).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(offset_next, end);
    }

    #[test]
    fn what_is_cut_off_is_not_listed(
        parts in vec((-1..3_i64, 1..9_usize, -1..2_i16), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, mut expected) = log(&parts);
        let cut = cut.index(bytes.len());
        let (found, offset_next) = lines(&bytes[..cut], EVERYTHING).unwrap();
        expected.truncate(found.len());
        prop_assert_eq!(offset_next, expected.last().map_or(0, |one| one.1 + 1));
        prop_assert!(found.len() < parts.len());
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_wrong_byte_that_a_checksum_covers_is_an_error(at in 17..400_usize, flip in 1..=255_u8) {
        let (mut bytes, _) = log(&[(7, 3, -1)]);
        let at = 17 + at % (bytes.len() - 17);
        bytes[at] ^= flip;
        prop_assert_eq!(lines(&bytes, EVERYTHING).unwrap_err().kind, Kind::Crc);
    }

    #[test]
    fn noise_is_no_panic(bytes in vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        let mut bytes = bytes;
        if magic && bytes.len() > 16 {
            bytes[16] = 2;
            bytes[8..12].copy_from_slice(&60_i32.to_be_bytes());
            fix_crc(&mut bytes);
        }
        let _ = lines(&bytes, EVERYTHING);
    }
}

#[test]
fn epochs_and_sequences_are_there() {
    let mut bytes = Batch { producer_id: 9, ..Batch::plain(5, Codec::None, &[b"a", b"b"]) }.encode();
    bytes[51..53].copy_from_slice(&4_i16.to_be_bytes());
    bytes[53..57].copy_from_slice(&17_i32.to_be_bytes());
    fix_crc(&mut bytes);
    let found = take_census(&bytes, EVERYTHING).unwrap();
    assert_eq!((found.producer_epochs, found.base_sequences), (vec![4], vec![17]));
}

#[test]
fn a_control_batch_that_compaction_has_emptied_says_nothing() {
    let empty = Batch { records: Vec::new(), ..Batch::marker(3, 7, 1) }.encode();
    assert_eq!(lines(&empty, EVERYTHING).unwrap(), (vec![(3, 3, 7, 0, 3, -1)], 4));
}

#[test]
fn a_marker_without_a_type_is_an_error() {
    let mut marker = Batch::marker(3, 7, 1);
    marker.records[0].key = Some(vec![0, 0]);
    assert_eq!(lines(&marker.encode(), EVERYTHING).unwrap_err().kind, Kind::Malformed);
}

#[test]
fn offsets_that_fall_are_an_error() {
    let bytes = [Batch::plain(5, Codec::None, &[b"a"]).encode(), Batch::plain(5, Codec::None, &[b"b"]).encode()];
    let error = lines(&bytes.concat(), EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Malformed, 5));
}
