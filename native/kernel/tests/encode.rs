//! What the decoder finds in encoded batches is what the columns said.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::arrow::{record_bytes, Given, Table};
use common::{append, EVERYTHING, LIMITS};
use evensplit_kernel::encode::{murmur2, Compression, EncodedBatch, Encoder, Settings};
use evensplit_kernel::{ColumnBuilder, Selection};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PARTITIONS: [i32; 2] = [3, 5];
const NOW: i64 = 1_700_000_000_000;
const HEADER_BYTES: usize = 61;

fn settings(codec: &str) -> Settings {
    Settings {
        compression: Compression::of(codec, None).unwrap(),
        batch_bytes_max: 1 << 14,
        record_bytes_max: 1 << 20,
        buffer_bytes_max: 1 << 25,
        ignore_keys: false,
        transactional: false,
        producer_id: 7,
        producer_epoch: 1,
    }
}

fn encoder(settings: Settings) -> Encoder {
    let mut encoder = Encoder::new(settings).unwrap();
    for partitions in PARTITIONS {
        encoder.add_topic(partitions as u32, 1, None).unwrap();
    }
    encoder
}

fn given() -> impl Strategy<Value = Given> {
    let bytes = || prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => vec(Just(b'x'), 200..3000)];
    let header = ("[a-zé€]{0,6}".prop_map(String::into_bytes), option::of(vec(any::<u8>(), 0..10)));
    let times = prop_oneof![3 => NOW - 5000..NOW + 5000, 1 => Just(-1), 1 => 0..4_000_000_000_000_i64];
    let topic = prop_oneof![4 => Just(Some(0)), 3 => Just(Some(1)), 1 => Just(Some(-1))];
    let partition = option::weighted(0.3, 0..3);
    (option::of(bytes()), option::of(bytes()), option::of(vec(header, 0..4)), option::of(times), partition, topic)
        .prop_map(|(key, value, headers, timestamp, partition, topic)| Given {
            key,
            value,
            headers,
            timestamp,
            partition,
            topic,
        })
}

/// The rows, each different from every other one.
fn different(rows: Vec<Given>) -> Vec<Given> {
    let numbered = |(number, row): (usize, Given)| match row.value {
        Some(value) => Given { value: Some([&number.to_be_bytes()[..], &value].concat()), ..row },
        None => Given { timestamp: Some(number as i64), ..row },
    };
    rows.into_iter().enumerate().map(numbered).collect()
}

/// Encodes all rows, taking what is ready whenever the encoder stops.
fn encode(encoder: &mut Encoder, table: &Table, count: usize) -> Vec<EncodedBatch> {
    let (mut at, mut batches) = (0, Vec::new());
    loop {
        let done = encoder.append(at..count, &table.rows(), 0, NOW).unwrap();
        assert_eq!(done.problem, None);
        at = done.row_next;
        if at == count {
            encoder.close_batches().unwrap();
        }
        let ready = encoder.ready();
        assert!(at == count || !ready.is_empty(), "a full encoder has some to take");
        batches.extend(ready);
        if at == count {
            assert_eq!(encoder.buffered_bytes(), 0);
            return batches;
        }
    }
}

/// The records of a batch as rows, without topic and partition.
fn decode(batch: &EncodedBatch) -> Vec<Given> {
    let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
    let done = append(&mut builder, &batch.data, EVERYTHING).unwrap();
    assert_eq!(done.position, batch.data.len());
    let rows = common::rows(&builder.finish());
    assert_eq!(rows.len() as i32, batch.records);
    let given = rows.into_iter().enumerate().map(|(number, row)| {
        assert_eq!(row.offset.unwrap(), number as i64);
        let headers = row.headers.unwrap().unwrap_or_default();
        let headers: Vec<_> = headers.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
        Given {
            key: row.key.unwrap(),
            value: row.value.unwrap(),
            headers: (!headers.is_empty()).then_some(headers),
            timestamp: row.timestamp.unwrap().map(|micros| micros / 1000),
            partition: None,
            topic: None,
        }
    });
    given.collect()
}

fn long(batch: &EncodedBatch, at: usize) -> i64 {
    i64::from_be_bytes(batch.data[at..at + 8].try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_row_is_in_its_partition_and_in_order(
        all in vec(given(), 0..80).prop_map(different),
        cut in 0_usize..10,
        wide in any::<bool>(),
        codec in proptest::sample::select(&["none", "gzip", "snappy", "lz4", "zstd"][..]),
        (batch_bytes_max, buffer_bytes_max) in (1_usize..4000, 1_usize..8000),
        (ignore_keys, transactional) in any::<(bool, bool)>(),
    ) {
        let cut = cut.min(all.len());
        let rows = &all[cut..];
        let bounds = Settings { batch_bytes_max, buffer_bytes_max, ignore_keys, transactional, ..settings(codec) };
        let mut encoder = encoder(bounds);
        let batches = encode(&mut encoder, &Table::of(&all, cut, wide), rows.len());
        let mut found: BTreeMap<(usize, i32), Vec<Given>> = BTreeMap::new();
        for batch in &batches {
            let records = decode(batch);
            let before = found.entry((batch.topic, batch.partition)).or_default();
            prop_assert_eq!(batch.base_sequence as usize, before.len());
            prop_assert_eq!(i32::from_be_bytes(batch.data[53..57].try_into().unwrap()), batch.base_sequence);
            prop_assert_eq!(long(batch, 43), 7);
            prop_assert_eq!(batch.data[22] & 0x10 != 0, transactional);
            prop_assert_eq!(long(batch, 27), records[0].timestamp.unwrap());
            prop_assert_eq!(long(batch, 35), records.iter().map(|one| one.timestamp.unwrap()).max().unwrap());
            prop_assert!(codec != "none" || batch.data.len() <= batch_bytes_max || records.len() == 1);
            before.extend(records);
        }
        let sequences: BTreeMap<_, _> = encoder.next_sequences().into_iter().map(|(t, p, s)| ((t, p), s)).collect();
        prop_assert_eq!(sequences, found.iter().map(|(at, rows)| (*at, rows.len() as i32)).collect());
        // A row is the next one of some partition: of the one that it says, or its key.
        let mut next: BTreeMap<(usize, i32), usize> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.topic != Some(-1)) {
            let topic = row.topic.unwrap() as usize;
            let expected = Given {
                timestamp: row.timestamp.or(Some(NOW)),
                headers: row.headers.clone().filter(|headers| !headers.is_empty()),
                partition: None,
                topic: None,
                ..row.clone()
            };
            let of_key = |key: &Vec<u8>| (murmur2(key) & i32::MAX) % PARTITIONS[topic];
            let said = row.partition.or(row.key.as_ref().filter(|_| !ignore_keys).map(of_key));
            let mut here = (0..PARTITIONS[topic]).filter(|partition| said.is_none_or(|said| said == *partition));
            let found = here.find(|partition| {
                let at = next.get(&(topic, *partition)).copied().unwrap_or(0);
                found.get(&(topic, *partition)).and_then(|rows| rows.get(at)) == Some(&expected)
            });
            prop_assert!(found.is_some(), "{:?} is missing", expected);
            *next.entry((topic, found.unwrap())).or_default() += 1;
        }
        prop_assert_eq!(next.values().sum::<usize>(), found.values().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn a_plain_batch_is_closed_when_the_next_record_does_not_fit(
        rows in vec(given(), 1..80),
        batch_bytes_max in 100_usize..4000,
    ) {
        let rows: Vec<_> = rows.into_iter().map(|row| Given { partition: Some(0), topic: Some(0), ..row }).collect();
        let mut encoder = encoder(Settings { batch_bytes_max, ..settings("none") });
        let batches = encode(&mut encoder, &Table::of(&rows, 0, false), rows.len());
        let mut expected: Vec<usize> = Vec::new();
        let (mut records, mut base) = (0, 0);
        for row in &rows {
            let timestamp = row.timestamp.unwrap_or(NOW);
            let bytes = record_bytes(row, records, timestamp - base);
            match expected.last_mut() {
                Some(last) if *last + bytes <= batch_bytes_max => {
                    *last += bytes;
                    records += 1;
                }
                _ => {
                    expected.push(HEADER_BYTES + record_bytes(row, 0, 0));
                    (records, base) = (1, timestamp);
                }
            }
        }
        prop_assert_eq!(batches.iter().map(|batch| batch.data.len()).collect::<Vec<_>>(), expected);
    }
}
