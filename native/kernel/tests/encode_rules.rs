//! The encoder's rules one by one, and columns that are nonsense.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::arrow::{binary, headers, numbers, Given, Owned, Table};
use common::damage::{apply, damage};
use evensplit_kernel::encode::{Column, Compression, Encoded, EncodedBatch, Encoder, Problem, Rows, Settings};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000;

fn settings(codec: &str) -> Settings {
    Settings {
        compression: Compression::of(codec, None).unwrap(),
        batch_bytes_max: 1000,
        record_bytes_max: 5000,
        buffer_bytes_max: 1 << 25,
        ignore_keys: false,
        transactional: false,
        producer_id: 7,
        producer_epoch: 1,
    }
}

fn encoder(settings: Settings, partitions: u32) -> Encoder {
    let mut encoder = Encoder::new(settings).unwrap();
    assert_eq!(encoder.add_topic(partitions, 0, None).unwrap(), 0);
    encoder
}

fn values(count: usize, bytes: usize) -> Owned {
    binary(&vec![Some(vec![b'v'; bytes]); count], false)
}

fn append(encoder: &mut Encoder, value: &Owned, count: usize) -> Encoded {
    let rows = Rows { value: Some(value.column()), ..Rows::default() };
    encoder.append(0..count, &rows, 0, NOW).unwrap()
}

fn finish(encoder: &mut Encoder) -> Vec<EncodedBatch> {
    encoder.close_batches().unwrap();
    encoder.ready()
}

fn refusal<T>(result: Result<T, evensplit_kernel::encode::Refused>) -> String {
    result.err().unwrap().0
}

#[test]
fn records_without_a_key_fill_one_batch_of_each_partition_in_turn() {
    let mut encoder = Encoder::new(settings("none")).unwrap();
    encoder.add_topic(3, 5, None).unwrap();
    // 9 records of 107 bytes fit into 1000.
    append(&mut encoder, &values(60, 100), 60);
    let batches = finish(&mut encoder);
    let found: Vec<_> = batches.iter().map(|batch| (batch.partition, batch.records)).collect();
    let expected = [(2, 8), (0, 8), (1, 8), (2, 8), (0, 8), (1, 8), (2, 8), (0, 4)];
    assert_eq!(found, expected);
    append(&mut encoder, &values(1, 100), 1);
    assert_eq!(finish(&mut encoder)[0].partition, 1, "the batch of partition 0 was closed");
}

#[test]
fn the_largest_batches_are_closed_when_the_buffer_is_full() {
    let mut encoder = encoder(
        Settings { batch_bytes_max: 100_000, record_bytes_max: 100_000, buffer_bytes_max: 20_000, ..settings("none") },
        100,
    );
    let partitions: Vec<_> =
        (0..1000).map(|row| Some(i32::to_le_bytes(if row % 2 == 0 { 7 } else { row % 100 }))).collect();
    let (value, partitions) = (values(1000, 100), numbers(&partitions));
    let rows = Rows { value: Some(value.column()), partitions: Some(partitions.column()), ..Rows::default() };
    let (mut at, mut records) = (0, 0);
    while at < 1000 {
        at = encoder.append(at..1000, &rows, 0, NOW).unwrap().row_next;
        assert!(encoder.buffered_bytes() < 20_000 + 200);
        let ready = encoder.ready();
        assert_eq!(ready.is_empty(), at == 1000);
        assert!(at == 1000 || ready[0].partition == 7, "the one with most records comes first");
        assert!(encoder.buffered_bytes() <= 10_000 || at == 1000);
        records += ready.iter().map(|batch| batch.records).sum::<i32>();
    }
    assert_eq!(records + finish(&mut encoder).iter().map(|batch| batch.records).sum::<i32>(), 1000);
}

#[test]
fn batches_of_a_topic_are_no_longer_than_it_allows() {
    for codec in ["none", "lz4", "gzip"] {
        let mut encoder = Encoder::new(Settings { batch_bytes_max: 4000, ..settings(codec) }).unwrap();
        encoder.add_topic(1, 0, Some(800)).unwrap();
        encoder.add_topic(1, 0, Some(100_000)).unwrap();
        let value = values(600, 100);
        for topic in [0, 1] {
            let rows = Rows { value: Some(value.column()), ..Rows::default() };
            assert_eq!(encoder.append(0..600, &rows, topic, NOW).unwrap().row_next, 600);
        }
        let batches = finish(&mut encoder);
        let most = |topic: usize| batches.iter().filter(|one| one.topic == topic).map(|one| one.records).max();
        // 6 records of 107 bytes and 61 of the header, also before they are compressed; with the settings 36 or more.
        assert_eq!(most(0), Some(6), "{codec}");
        assert!(most(1) >= Some(36), "{codec}");
    }
    let mut encoder = Encoder::new(settings("none")).unwrap();
    encoder.add_topic(1, 0, Some(50)).unwrap();
    append(&mut encoder, &values(2, 100), 2);
    assert_eq!(finish(&mut encoder).len(), 2, "a record that is longer has a batch of its own");
}

/// Of rows in the order of their partitions: each partition has some full batches, and then one with few records.
#[test]
fn memory_is_bounded_whatever_batches_were_before() {
    const PARTITIONS: i32 = 500;
    const BUFFER: usize = 1 << 20;
    for codec in ["none", "lz4"] {
        let bounds = Settings {
            batch_bytes_max: 50_000,
            record_bytes_max: 200_000,
            buffer_bytes_max: BUFFER,
            ..settings(codec)
        };
        let mut encoder = encoder(bounds, PARTITIONS as u32);
        let value = values(450, 1000);
        let mut held = 0;
        for partition in 0..PARTITIONS {
            let partitions = numbers(&vec![Some(partition.to_le_bytes()); 450]);
            let rows = Rows { value: Some(value.column()), partitions: Some(partitions.column()), ..Rows::default() };
            let mut at = 0;
            while at < 450 {
                at = encoder.append(at..450, &rows, 0, NOW).unwrap().row_next;
                held = held.max(encoder.held_bytes());
                assert!(encoder.ready().iter().all(|batch| batch.data.capacity() <= 2 * batch.data.len()));
            }
        }
        assert!(held > BUFFER / 2, "{codec}: {held}");
        assert!(held < 3 * BUFFER, "{codec}: {held}");
    }
}

#[test]
fn a_batch_is_never_longer_than_a_record_may_be_however_well_it_was_compressed_before() {
    let bounds = Settings { batch_bytes_max: 20_000, record_bytes_max: 50_000, ..settings("zstd") };
    let mut encoder = encoder(bounds, 1);
    append(&mut encoder, &values(200_000, 100), 200_000);
    let before = encoder.ready();
    assert!(before.last().unwrap().records > 400, "the estimate follows");
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    let random: Vec<_> = (0..2000).map(|_| Some((0..100).map(|_| noise()).collect::<Vec<u8>>())).collect();
    append(&mut encoder, &binary(&random, false), 2000);
    assert!(finish(&mut encoder).iter().all(|batch| batch.data.len() < 51_000));
}

#[test]
fn problems_name_the_row_and_stop_before_it() {
    let row = Given {
        key: None,
        value: Some(b"v".to_vec()),
        headers: Some(vec![(b"a".to_vec(), None), (b"b".to_vec(), None)]),
        timestamp: None,
        partition: None,
        topic: Some(0),
    };
    // Java: 61 + 21 + 1 for the key, 2 + 4909 for the value, 1 for the number of headers and 6 for these.
    let long = Given { value: Some(vec![0; 4909]), ..row.clone() };
    let cases = [
        (long, Problem::TooLarge(5001)),
        (Given { partition: Some(3), ..row.clone() }, Problem::Partition(3)),
        (Given { partition: Some(-1), ..row.clone() }, Problem::Partition(-1)),
        (Given { topic: Some(1), ..row.clone() }, Problem::Topic(1)),
        (Given { topic: Some(-2), ..row.clone() }, Problem::Topic(-2)),
        (Given { topic: None, ..row.clone() }, Problem::Topic(-1)),
        (Given { timestamp: Some(-2), ..row.clone() }, Problem::Timestamp(-2)),
    ];
    for (wrong, problem) in cases {
        let mut encoder = encoder(settings("none"), 3);
        let table = Table::of(&[row.clone(), wrong, row.clone()], 0, false);
        let done = encoder.append(0..3, &table.rows(), 0, NOW).unwrap();
        assert_eq!(done, Encoded { row_next: 1, problem: Some(problem) });
        assert_eq!(encoder.append(2..3, &table.rows(), 0, NOW).unwrap(), Encoded { row_next: 3, problem: None });
        assert_eq!(finish(&mut encoder).iter().map(|batch| batch.records).sum::<i32>(), 2);
    }
    let mut encoder = encoder(settings("none"), 3);
    let mut table = Table::of(&[row.clone(), row], 0, false);
    table.headers.children[0].children[0].buffers[0] = Some(vec![0b0111]);
    let done = encoder.append(0..2, &table.rows(), 0, NOW).unwrap();
    assert_eq!(done, Encoded { row_next: 1, problem: Some(Problem::Header(1)) });
    table.headers.children[0].children[0].buffers[0] = None;
    table.headers.children[0].buffers[0] = Some(vec![0b1011]);
    let done = encoder.append(0..2, &table.rows(), 0, NOW).unwrap();
    assert_eq!(done, Encoded { row_next: 1, problem: Some(Problem::Header(0)) });
}

#[test]
fn a_record_of_the_longest_length_has_a_batch_of_its_own() {
    let mut encoder = encoder(settings("none"), 1);
    append(&mut encoder, &values(3, 4914), 3);
    let batches = finish(&mut encoder);
    assert_eq!(batches.iter().map(|batch| batch.records).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn sequences_go_on_and_begin_again_after_the_largest_one() {
    let mut encoder = encoder(settings("none"), 2);
    encoder.set_sequence(0, 0, i32::MAX - 3).unwrap();
    append(&mut encoder, &values(30, 100), 30);
    let found: Vec<_> =
        finish(&mut encoder).iter().map(|batch| (batch.partition, batch.base_sequence, batch.records)).collect();
    assert_eq!(found, [(0, i32::MAX - 3, 8), (1, 0, 8), (0, 4, 8), (1, 8, 6)]);
    assert_eq!(encoder.next_sequences(), [(0, 0, 12), (0, 1, 14)]);
    assert!(refusal(encoder.set_sequence(0, 2, 0)).contains("partition 2"));
    assert!(refusal(encoder.set_sequence(1, 0, 0)).contains("topic 1"));
    assert!(refusal(encoder.set_sequence(0, 0, -1)).contains("-1"));
}

#[test]
fn a_producer_without_an_id_has_no_sequences() {
    let mut encoder = encoder(Settings { producer_id: -1, producer_epoch: -1, ..settings("none") }, 1);
    append(&mut encoder, &values(20, 100), 20);
    assert!(finish(&mut encoder).iter().all(|batch| batch.base_sequence == -1));
    assert_eq!(encoder.next_sequences(), []);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    assert!(refusal(Compression::of("lz4", Some(3))).contains("level 3 of lz4, expected none or 9"));
    assert!(refusal(Compression::of("gzip", Some(0))).contains("1 to 9"));
    assert!(refusal(Compression::of("zstd", Some(23))).contains("-131072 to 22"));
    assert!(refusal(Compression::of("snappy", Some(1))).contains("snappy has no levels"));
    assert!(refusal(Compression::of("brotli", None)).contains("\"brotli\""));
    for codec in ["gzip", "lz4", "zstd"] {
        assert!(Compression::of(codec, Some(9)).is_ok());
    }
    let refused = |wrong: Settings| refusal(Encoder::new(wrong));
    assert!(refused(Settings { producer_id: -1, ..settings("none") }).contains("epoch 1"));
    assert!(refused(Settings { producer_id: -1, producer_epoch: -1, transactional: true, ..settings("none") })
        .contains("transaction"));
    assert!(refused(Settings { batch_bytes_max: 0, ..settings("none") }).contains("[0, 5000, 33554432]"));
    let mut encoder = encoder(settings("none"), 1);
    assert!(refusal(encoder.add_topic(0, 0, None)).contains("0 partitions"));
    let backwards = std::ops::Range { start: 2, end: 1 };
    assert!(refusal(encoder.append(backwards, &Rows::default(), 0, NOW)).contains("rows 2 to 1"));
    assert!(refusal(encoder.append(0..1, &Rows::default(), 1, NOW)).contains("topic 1"));
}

#[test]
fn columns_that_are_too_short_are_refused() {
    let full = values(10, 5);
    let change = |change: &dyn Fn(&mut Column<'_>)| {
        let mut column = full.column();
        change(&mut column);
        let rows = Rows { value: Some(column), ..Rows::default() };
        refusal(encoder(settings("none"), 1).append(0..10, &rows, 0, NOW))
    };
    assert!(change(&|column| column.rows = 9).contains("9 rows, expected 10"));
    assert!(change(&|column| column.rows = 11).contains("has 44 bytes, expected 48"));
    assert!(change(&|column| column.offset = 1).contains("has 44 bytes, expected 48"));
    assert!(change(&|column| column.offset = usize::MAX).contains("more than memory has"));
    assert!(change(&|column| column.wide = true).contains("expected 88"));
    assert!(change(&|column| column.buffers.clear()).contains("has 0 bytes"));
    assert!(change(&|column| column.buffers[0] = Some(&[1])).contains("validity has 1 bytes, expected 2"));
    assert!(change(&|column| column.buffers[2] = Some(&[1; 49])).contains("row 9"));
    let no_list = values(1, 1);
    let rows = Rows { headers: Some(no_list.column()), ..Rows::default() };
    assert!(refusal(encoder(settings("none"), 1).append(0..1, &rows, 0, NOW)).contains("0 columns in the list"));
}

proptest! {
    #[test]
    fn damaged_columns_are_refused_or_read_and_nothing_else(
        hits in vec((0_usize..6, 0_usize..3, damage()), 1..4),
        wide in any::<bool>(),
    ) {
        let row = |number: i32| Given {
            key: (number % 3 > 0).then(|| vec![b'k'; 3]),
            value: (number % 5 > 0).then(|| vec![b'v'; 10]),
            headers: (number % 2 > 0).then(|| vec![(b"a".to_vec(), Some(b"b".to_vec()))]),
            timestamp: (number % 7 > 0).then_some(NOW),
            partition: (number % 4 > 0).then_some(2),
            topic: Some(0),
        };
        let mut table = Table::of(&(0..40).map(row).collect::<Vec<_>>(), 3, wide);
        for (column, buffer, damage) in &hits {
            let columns = [&mut table.key, &mut table.value, &mut table.timestamps, &mut table.partitions];
            let column = match column {
                0..4 => columns.into_iter().nth(*column).unwrap(),
                4 => &mut table.headers,
                _ => &mut table.headers.children[0].children[1],
            };
            if let Some(Some(bytes)) = column.buffers.get_mut(*buffer) {
                apply(bytes, damage);
            }
        }
        let mut encoder = encoder(settings("none"), 3);
        if let Ok(done) = encoder.append(0..37, &table.rows(), 0, NOW) {
            prop_assert_eq!(done.row_next == 37, done.problem.is_none());
            let records: i32 = finish(&mut encoder).iter().map(|batch| batch.records).sum();
            prop_assert_eq!(records as usize, done.row_next);
        }
    }
}

#[test]
fn wide_headers_are_read() {
    let cells = [Some(vec![(b"a".to_vec(), Some(b"b".to_vec()))]), None, Some(Vec::new())];
    let sizes = |wide: bool| {
        let column = headers(&cells, wide);
        let rows = Rows { headers: Some(column.column()), ..Rows::default() };
        let mut encoder = encoder(settings("none"), 1);
        assert_eq!(encoder.append(0..3, &rows, 0, NOW).unwrap().row_next, 3);
        finish(&mut encoder).pop().unwrap().data
    };
    assert_eq!(sizes(true), sizes(false));
}
