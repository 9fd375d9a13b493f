//! Leader epochs of record batches: every change is found, and bytes that are no batches end the search.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use evensplit_kernel::{next_leader_epoch, EpochChange};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record batch of which only the header is looked at.
fn batch(base_offset: i64, last_delta: i32, epoch: i32, payload: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(base_offset.to_be_bytes());
    out.extend((49 + payload as i32).to_be_bytes());
    out.extend(epoch.to_be_bytes());
    out.push(2);
    out.extend([0; 4 + 2]);
    out.extend(last_delta.to_be_bytes());
    out.resize(61 + payload, 0xab);
    out
}

/// All changes in `bytes`, beginning with `epoch`.
fn changes(bytes: &[u8], mut epoch: i32) -> Vec<EpochChange> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(one) = next_leader_epoch(&bytes[at..], epoch) {
        let one = EpochChange { begin: at + one.begin, end: at + one.end, ..one };
        (at, epoch) = (one.end, one.epoch);
        found.push(one);
    }
    found
}

proptest! {
    #[test]
    fn every_change_is_found_where_it_is(
        batches in vec((0..20_i32, -1..3_i32, 0..100_usize), 0..20),
        first in -1..3_i32,
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, mut expected, mut offset, mut epoch) = (Vec::new(), Vec::new(), 0_i64, first);
        let mut behind_last = 0;
        for (delta, found, payload) in batches {
            let begin = bytes.len();
            bytes.extend(batch(offset, delta, found, payload));
            let offset_next = offset + i64::from(delta) + 1;
            if found != epoch {
                let end = bytes.len();
                expected.push(EpochChange { begin, end, base_offset: offset, offset_next, epoch: found });
            }
            (offset, epoch, behind_last) = (offset_next, found, bytes.len());
        }
        prop_assert_eq!(behind_last, bytes.len());
        prop_assert_eq!(changes(&bytes, first), expected.clone());
        // A batch that is cut off is not read; those before it give the same.
        let cut = cut.index(bytes.len() + 1);
        expected.retain(|one| one.end <= cut);
        prop_assert_eq!(changes(&bytes[..cut], first), expected);
    }

    #[test]
    fn noise_ends_the_search_within_the_bytes(bytes in vec(any::<u8>(), 0..400), epoch in any::<i32>()) {
        for one in changes(&bytes, epoch) {
            prop_assert!(one.begin + 61 <= one.end && one.end <= bytes.len());
        }
    }

    #[test]
    fn a_wrong_byte_gives_changes_within_the_bytes(
        (at, byte) in (0..183_usize, any::<u8>()),
        epoch in -1..3_i32,
    ) {
        let mut bytes = [batch(0, 4, 1, 0), batch(5, 4, 1, 0), batch(10, 0, 2, 0)].concat();
        bytes[at] = byte;
        for one in changes(&bytes, epoch) {
            prop_assert!(one.begin + 61 <= one.end && one.end <= bytes.len());
        }
    }
}

#[test]
fn lengths_that_lie_end_the_search() {
    for length in [i32::MIN, -12, -1, 0, 48, 50, i32::MAX] {
        let mut bytes = batch(7, 0, 3, 0);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        assert_eq!(next_leader_epoch(&bytes, 0), None, "{length}");
    }
}

#[test]
fn other_message_formats_have_no_epochs() {
    let mut bytes = batch(7, 0, 3, 0);
    bytes[16] = 1;
    assert_eq!(next_leader_epoch(&bytes, 0), None);
}

#[test]
fn offsets_at_their_bounds_do_not_overflow() {
    let found = next_leader_epoch(&batch(i64::MAX, i32::MAX, 3, 0), 0).unwrap();
    assert_eq!((found.base_offset, found.offset_next), (i64::MAX, i64::MAX));
    let found = next_leader_epoch(&batch(i64::MIN, i32::MIN, 3, 0), 0).unwrap();
    assert_eq!(found.base_offset, i64::MIN);
}
