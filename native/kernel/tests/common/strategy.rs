//! Logs and selections of any kind.

use super::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn record() -> impl Strategy<Value = (i32, Record)> {
    let bytes = || prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => vec(Just(b'x'), 200..3000)];
    let header = ("[a-zé€]{0,6}".prop_map(String::into_bytes), option::of(vec(any::<u8>(), 0..10)));
    let gap = prop_oneof![5 => Just(0), 1 => 1..200_i32];
    (gap, -5000..5_000_000_i64, option::of(bytes()), option::of(bytes()), vec(header, 0..4)).prop_map(
        |(gap, timestamp_delta, key, value, headers)| {
            (gap, Record { offset_delta: 0, timestamp_delta, key, value, headers })
        },
    )
}

/// Any columns, at least one.
pub fn selection() -> impl Strategy<Value = Selection> {
    proptest::sample::subsequence(&Selection::NAMES[..], 1..=Selection::NAMES.len())
        .prop_map(|names| Selection::of(&names).unwrap())
}

/// A log of record batches after compaction.
pub fn log() -> impl Strategy<Value = Vec<Batch>> {
    let one = (
        prop_oneof![5 => Just(0), 1 => 1..1000_i64],
        vec(record(), 0..30),
        0..20_i32,
        proptest::sample::select(&CODECS),
        prop::bool::weighted(0.1),
        any::<bool>(),
        (-1..3_000_000_000_000_i64, -1..3_000_000_000_000_i64),
        (-1..3_i64, any::<bool>()),
    );
    vec(one, 0..6).prop_map(|batches| {
        let mut offset = 0;
        let mut log = Vec::new();
        for (gap, records, tail, codec, control, log_append_time, times, producer) in batches {
            let mut delta = 0;
            let mut spaced = Vec::new();
            for (gap, mut record) in records {
                delta += gap;
                record.offset_delta = delta;
                delta += 1;
                spaced.push(record);
            }
            let last_offset_delta = (delta - 1).max(0) + tail;
            let base_offset = offset + gap;
            offset = base_offset + i64::from(last_offset_delta) + 1;
            log.push(Batch {
                base_offset,
                last_offset_delta,
                codec,
                control,
                log_append_time,
                base_timestamp: times.0,
                max_timestamp: times.1,
                producer_id: producer.0,
                transactional: producer.1,
                records: spaced,
            });
        }
        log
    })
}
