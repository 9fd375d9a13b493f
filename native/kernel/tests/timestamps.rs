//! Timestamps: Kafka's are 64 bits of milliseconds, and most of those that there can be are more than columns hold.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, Batch, Codec, EVERYTHING, LIMITS};
use evensplit_kernel::{ColumnBuilder, Kind, Limits, Selection};
use proptest::prelude::*;

/// The last millisecond of which the microseconds fit into 64 bits.
const LAST: i64 = i64::MAX / 1000;
const NANOSECONDS: i64 = 1_700_000_000_000_000_000;

fn builder() -> ColumnBuilder {
    ColumnBuilder::new(Selection::ALL, LIMITS)
}

/// Four records with these timestamps, as writers take the differences: beyond 64 bits if need be.
fn written(times: [i64; 4]) -> Batch {
    let mut batch = Batch::plain(40, Codec::None, &[b"a", b"b", b"c", b"d"]);
    batch.base_timestamp = times[0];
    for (record, time) in batch.records.iter_mut().zip(times) {
        record.timestamp_delta = time.wrapping_sub(times[0]);
    }
    batch
}

fn read(builder: &mut ColumnBuilder, batch: &Batch) -> Vec<Option<i64>> {
    append(builder, &batch.encode(), EVERYTHING).unwrap();
    common::rows(&builder.finish()).into_iter().map(|row| row.timestamp.unwrap()).collect()
}

#[test]
fn what_cannot_be_held_is_named_with_its_record() {
    for (place, times) in [(40, [NANOSECONDS, 0, 1, 2]), (42, [0, 1, NANOSECONDS, 2])] {
        let mut builder = builder();
        let error = append(&mut builder, &written(times).encode(), EVERYTHING).unwrap_err();
        assert_eq!((error.kind, error.offset, builder.rows()), (Kind::Timestamp, place, 0));
        let detail = "a record's timestamp is 1700000000000000000 ms since 1970, and 64 bits of microseconds hold \
                      -9223372036854775 to 9223372036854775 ms";
        assert_eq!(error.detail, detail);
    }
}

#[test]
fn both_bounds() {
    for (time, fits) in [(LAST, true), (LAST + 1, false), (-LAST, true), (-LAST - 1, false), (i64::MIN, false)] {
        let batch = written([0, time, 2, 3]);
        assert_eq!(append(&mut builder(), &batch.encode(), EVERYTHING).is_ok(), fits, "{time}");
        let found = read(&mut builder().with_null_timestamps(), &batch);
        assert_eq!(found, [Some(0), fits.then(|| 1000 * time), Some(2000), Some(3000)], "{time}");
    }
}

#[test]
fn a_difference_beyond_64_bits_is_no_matter() {
    // The first is far from the others, which are right by themselves.
    let batch = written([i64::MIN, 5, -1, 7]);
    assert_eq!(read(&mut builder().with_null_timestamps(), &batch), [None, Some(5000), Some(-1000), Some(7000)]);
    let error = append(&mut builder(), &batch.encode(), EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Timestamp, 40));
}

#[test]
fn the_brokers_time_is_that_of_the_batch() {
    let batch = Batch { log_append_time: true, max_timestamp: NANOSECONDS, ..written([0; 4]) };
    let error = append(&mut builder(), &batch.encode(), EVERYTHING).unwrap_err();
    assert_eq!((error.kind, error.offset), (Kind::Timestamp, 40));
    assert_eq!(read(&mut builder().with_null_timestamps(), &batch), [None; 4]);
    let batch = Batch { max_timestamp: 77, ..batch };
    let mut builder = builder();
    append(&mut builder, &batch.encode(), EVERYTHING).unwrap();
    append(&mut builder, &Batch { base_offset: 44, ..written([1; 4]) }.encode(), EVERYTHING).unwrap();
    let columns = builder.finish();
    assert_eq!(columns.timestamp.unwrap().micros, [77_000, 77_000, 77_000, 77_000, 1000, 1000, 1000, 1000]);
    assert_eq!(columns.timestamp_type.unwrap(), [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_record_without_a_timestamp_has_minus_one_millisecond() {
    assert_eq!(read(&mut builder(), &written([-1; 4])), [Some(-1000); 4]);
}

#[test]
fn nobody_asks_for_timestamps() {
    let selection = Selection { timestamp: false, ..Selection::ALL };
    let mut builder = ColumnBuilder::new(selection, LIMITS);
    let batch = written([NANOSECONDS, i64::MIN, i64::MAX, 0]);
    append(&mut builder, &batch.encode(), EVERYTHING).unwrap();
    let found: Vec<_> = common::rows(&builder.finish()).into_iter().map(|row| (row.offset, row.timestamp)).collect();
    assert_eq!(found, [40, 41, 42, 43].map(|offset| (Some(offset), None)));
}

proptest! {
    #[test]
    fn each_is_its_own_or_null(
        times in proptest::collection::vec(prop_oneof![Just(NANOSECONDS), any::<i64>(), -1..3_000_000_000_000_i64], 4..40),
        bytes_max in 1_usize..2000,
    ) {
        let limits = Limits { bytes_max, ..LIMITS };
        let mut builder = ColumnBuilder::new(Selection::ALL, limits).with_null_timestamps();
        let bytes: Vec<u8> = (0_i64..)
            .zip(times.chunks_exact(4))
            .flat_map(|(n, four)| Batch { base_offset: 4 * n, ..written(four.try_into().unwrap()) }.encode())
            .collect();
        let (mut range, mut position, mut found) = (EVERYTHING, 0, Vec::new());
        loop {
            let done = append(&mut builder, &bytes[position..], range).unwrap();
            range.start = done.offset_next;
            position += done.position;
            found.extend(common::rows(&builder.finish()).into_iter().map(|row| row.timestamp.unwrap()));
            if !done.stopped {
                break;
            }
        }
        let whole = times.len() / 4 * 4;
        let expected: Vec<_> = times[..whole].iter().map(|time| time.checked_mul(1000)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn an_error_takes_nulls_back_too(count in 0_usize..20) {
        let mut builder = builder().with_null_timestamps();
        for n in 0..count {
            let times = [n as i64, if n % 3 == 0 { NANOSECONDS } else { 1 }, 2, 3];
            append(&mut builder, &written(times).encode(), EVERYTHING).unwrap();
        }
        let mut damaged = written([0; 4]).encode();
        *damaged.last_mut().unwrap() ^= 1;
        let taken_back = [written([NANOSECONDS; 4]).encode(), damaged].concat();
        append(&mut builder, &taken_back, EVERYTHING).unwrap_err();
        append(&mut builder, &written([9; 4]).encode(), EVERYTHING).unwrap();
        let columns = builder.finish();
        prop_assert_eq!(columns.timestamp.as_ref().unwrap().null_count, count.div_ceil(3));
        let found = common::rows(&columns);
        prop_assert_eq!(found.len(), 4 * count + 4);
        prop_assert!(found.iter().rev().take(4).all(|row| row.timestamp == Some(Some(9000))));
    }
}
