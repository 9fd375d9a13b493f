//! Under `read_committed`, all records are read but those of aborted transactions.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{Batch, Codec, CLUSTER, CODECS, EVERYTHING, LIMITS, PARTITION, TOPIC};
use evensplit_kernel::{Aborted, Appended, ColumnBuilder, Kind, Limits, Range, Result, Selection};
use proptest::collection::vec;
use proptest::prelude::*;

const COMMIT: i16 = 1;
const ABORT: i16 = 0;

fn written(base_offset: i64, producer_id: i64, values: &[&[u8]]) -> Batch {
    Batch { producer_id, transactional: true, ..Batch::plain(base_offset, Codec::None, values) }
}

fn append(builder: &mut ColumnBuilder, bytes: &[u8], range: Range, aborted: &[Aborted]) -> Result<Appended> {
    builder.append(bytes, CLUSTER, TOPIC, PARTITION, range, aborted)
}

/// The offsets that come out, in one go, and the transactions that are still open then.
fn offsets(log: &[Batch], range: Range, aborted: &[Aborted]) -> (Vec<i64>, Vec<Aborted>) {
    let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
    let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
    let done = append(&mut builder, &bytes, range, aborted).unwrap();
    (builder.finish().offset.unwrap(), done.aborted)
}

#[test]
fn an_aborted_transaction_reaches_from_its_first_record_to_its_marker() {
    let log = [
        written(0, 7, &[b"a", b"b"]),
        Batch::marker(2, 7, COMMIT),
        written(3, 7, &[b"c"]),
        written(4, 8, &[b"d"]),
        Batch::plain(5, Codec::None, &[b"e"]),
        written(6, 7, &[b"f"]),
        Batch::marker(7, 7, ABORT),
        written(8, 7, &[b"g"]),
        Batch::marker(9, 8, COMMIT),
    ];
    assert_eq!(offsets(&log, EVERYTHING, &[]), (vec![0, 1, 3, 4, 5, 6, 8], vec![]));
    assert_eq!(offsets(&log, EVERYTHING, &[(7, 3)]), (vec![0, 1, 4, 5, 8], vec![]));
    // In any order; one whose marker has not come is still open, and one after all records has not begun.
    let listed = [(9, 50), (8, 4), (7, 3)];
    assert_eq!(offsets(&log, EVERYTHING, &listed), (vec![0, 1, 5, 8], vec![(8, 4), (9, 50)]));
    // A range that starts within the transaction, or at its marker, and one that ends in it.
    assert_eq!(offsets(&log[4..], Range { start: 6, end: 9 }, &[(7, 3)]), (vec![8], vec![]));
    assert_eq!(offsets(&log[6..], Range { start: 7, end: 9 }, &[(7, 3)]), (vec![8], vec![]));
    assert_eq!(offsets(&log, Range { start: 0, end: 6 }, &[(7, 3)]), (vec![0, 1, 4, 5], vec![(7, 3)]));
    // A batch that lies before the range ends a transaction all the same.
    assert_eq!(offsets(&log, Range { start: 8, end: 9 }, &[(7, 3)]), (vec![8], vec![]));
}

#[test]
fn only_what_was_written_in_transactions_is_left_out() {
    let same_producer = Batch { transactional: false, ..written(1, 7, &[b"b"]) };
    let log = [written(0, 7, &[b"a"]), same_producer, Batch::marker(2, 7, ABORT)];
    assert_eq!(offsets(&log, EVERYTHING, &[(7, 0)]), (vec![1], vec![]));
    // A transaction without a producer, which a broker would never list.
    let log = [Batch { transactional: true, ..Batch::plain(0, Codec::None, &[b"a"]) }];
    assert_eq!(offsets(&log, EVERYTHING, &[(-1, 0)]).0, [0]);
}

#[test]
fn nothing_but_aborted_records_moves_the_offset() {
    let log = [written(5, 7, &[b"a", b"b"]), written(7, 7, &[b"c"]), Batch::marker(8, 7, ABORT)];
    let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
    let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
    let done = append(&mut builder, &bytes, EVERYTHING, &[(7, 5)]).unwrap();
    let expected = Appended {
        offset_next: 9,
        position: bytes.len(),
        rows: 0,
        stopped: false,
        missing: None,
        complete_batches: 3,
        aborted: vec![],
    };
    assert_eq!(done, expected);
}

#[test]
fn aborted_batches_are_checked_but_not_decompressed() {
    for codec in CODECS {
        let broken = Batch { codec, ..written(0, 7, &[b"a"]) }.encode_with(b"nonsense", 1);
        let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
        assert!(append(&mut builder, &broken, EVERYTHING, &[]).is_err());
        assert_eq!(append(&mut builder, &broken, EVERYTHING, &[(7, 0)]).unwrap().offset_next, 1);
        let mut damaged = broken;
        *damaged.last_mut().unwrap() ^= 1;
        let error = append(&mut builder, &damaged, EVERYTHING, &[(7, 0)]).unwrap_err();
        assert_eq!((error.kind, error.offset), (Kind::Crc, 0));
    }
}

#[test]
fn markers_of_every_kind() {
    let log = |marker: Batch| [written(0, 7, &[b"a"]), marker, written(2, 7, &[b"b"])];
    for (kind, read) in [(ABORT, vec![2]), (COMMIT, vec![]), (2, vec![]), (-3, vec![])] {
        assert_eq!(offsets(&log(Batch::marker(1, 7, kind)), EVERYTHING, &[(7, 0)]).0, read, "kind {kind}");
    }
    // Another producer's, one that compaction has emptied, and a compressed one.
    assert_eq!(offsets(&log(Batch::marker(1, 8, ABORT)), EVERYTHING, &[(7, 0)]).0, []);
    let emptied = Batch { records: Vec::new(), ..Batch::marker(1, 7, ABORT) };
    assert_eq!(offsets(&log(emptied), EVERYTHING, &[(7, 0)]).0, []);
    let compressed = Batch { codec: Codec::Gzip, ..Batch::marker(1, 7, ABORT) };
    assert_eq!(offsets(&log(compressed), EVERYTHING, &[(7, 0)]).0, [2]);
    for key in [None, Some(vec![]), Some(vec![0, 0, 0]), Some(vec![0xff, 0xff, 0, 0])] {
        let mut marker = Batch::marker(1, 7, ABORT);
        marker.records[0].key = key;
        let bytes: Vec<u8> = log(marker).iter().flat_map(Batch::encode).collect();
        let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
        let error = append(&mut builder, &bytes, EVERYTHING, &[(7, 0)]).unwrap_err();
        assert_eq!((error.kind, error.offset, builder.rows()), (Kind::Malformed, 1, 0));
        assert!(error.detail.starts_with("a control record's key is ["), "{}", error.detail);
    }
}

#[test]
fn a_full_builder_hands_on_what_is_still_open() {
    // The aborted transaction of 7 is over when the builder is full; what 7 commits afterwards is to be read.
    let log = [
        written(0, 7, &[b"a"]),
        written(1, 8, &[b"b"]),
        Batch::marker(2, 7, ABORT),
        Batch::plain(3, Codec::None, &[b"c"]),
        written(4, 7, &[b"d"]),
        written(5, 8, &[b"e"]),
        Batch::marker(6, 7, COMMIT),
        Batch::marker(7, 8, ABORT),
        written(8, 8, &[b"f"]),
    ];
    let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
    let mut builder = ColumnBuilder::new(Selection::ALL, Limits { rows_max: 1, ..LIMITS });
    let first = append(&mut builder, &bytes, EVERYTHING, &[(7, 0), (8, 1)]).unwrap();
    assert_eq!((first.offset_next, first.stopped, &first.aborted[..]), (4, true, &[(8, 1)][..]));
    assert_eq!(builder.finish().offset.unwrap(), [3]);
    let range = Range { start: 4, ..EVERYTHING };
    let second = append(&mut builder, &bytes[first.position..], range, &first.aborted).unwrap();
    assert_eq!((second.offset_next, second.stopped, &second.aborted[..]), (5, true, &[(8, 1)][..]));
    assert_eq!(builder.finish().offset.unwrap(), [4]);
}

/// The next step of a producer.
#[derive(Clone, Debug)]
enum Deed {
    Write { count: usize, codec: Codec, transactional: bool },
    End { commits: bool },
}

fn deed() -> impl Strategy<Value = Deed> {
    let written = (1..5_usize, proptest::sample::select(&CODECS), prop::bool::weighted(0.8));
    prop_oneof![
        3 => written.prop_map(|(count, codec, transactional)| Deed::Write { count, codec, transactional }),
        2 => any::<bool>().prop_map(|commits| Deed::End { commits }),
    ]
}

/// A partition's log, and what a broker knows of it.
#[derive(Default)]
struct Log {
    batches: Vec<Batch>,
    end: i64,
    /// Producer -> where its transaction began, and the records in it.
    open: Vec<Option<(i64, Vec<i64>)>>,
    /// First offset, producer, offset of the marker.
    aborted: Vec<(i64, i64, i64)>,
    /// The offsets of all records that a reader is to see.
    readable: Vec<i64>,
}

impl Log {
    fn of(deeds: &[(usize, Deed)]) -> Self {
        let mut log = Log { open: vec![None; 4], ..Log::default() };
        for (producer, deed) in deeds {
            let producer_id = 100 + *producer as i64;
            match *deed {
                Deed::Write { count, codec, transactional } => {
                    let values = vec![&b"value"[..]; count];
                    let offsets = log.end..log.end + count as i64;
                    let plain = Batch::plain(log.end, codec, &values);
                    if transactional {
                        let first = log.end;
                        let (_, own) = log.open[*producer].get_or_insert((first, Vec::new()));
                        own.extend(offsets);
                        log.batches.push(Batch { producer_id, transactional, ..plain });
                    } else {
                        log.readable.extend(offsets);
                        log.batches.push(plain);
                    }
                    log.end += count as i64;
                }
                Deed::End { commits } => {
                    let Some((first, own)) = log.open[*producer].take() else { continue };
                    log.batches.push(Batch::marker(log.end, producer_id, i16::from(commits)));
                    if commits {
                        log.readable.extend(own);
                    } else {
                        log.aborted.push((first, producer_id, log.end));
                    }
                    log.end += 1;
                }
            }
        }
        log.readable.sort_unstable();
        log
    }

    fn last_stable_offset(&self) -> i64 {
        self.open.iter().flatten().map(|(first, _)| *first).min().unwrap_or(self.end)
    }

    /// A broker's response to a request for `offset`, with at most `count` batches.
    fn fetch(&self, offset: i64, count: usize) -> (Vec<u8>, Vec<Aborted>, i64) {
        let stable = self.last_stable_offset();
        let end_of = |batch: &Batch| batch.base_offset + i64::from(batch.last_offset_delta) + 1;
        let sent: Vec<&Batch> = self
            .batches
            .iter()
            .filter(|batch| end_of(batch) > offset && batch.base_offset < stable)
            .take(count)
            .collect();
        let end = sent.last().map_or(offset, |batch| end_of(batch));
        let within = |&&(first, _, marker): &&(i64, i64, i64)| marker >= offset && first < end;
        let mut aborted: Vec<_> = self.aborted.iter().filter(within).map(|&(first, id, _)| (id, first)).collect();
        // By their ends, not by their beginnings, as a broker's index has them.
        let turned = usize::from(aborted.len() > 2);
        aborted.rotate_left(turned);
        (sent.iter().flat_map(|batch| batch.encode()).collect(), aborted, end)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_record_that_is_not_aborted_once_and_in_order(
        deeds in vec((0..4_usize, deed()), 0..60),
        counts in vec(1..12_usize, 1..8),
        rows_max in 1..12_usize,
        start in 0..80_i64,
        length in 0..200_i64,
    ) {
        let log = Log::of(&deeds);
        let end = (start + length).min(log.last_stable_offset());
        let (mut at, mut found) = (start, Vec::new());
        let mut builder = ColumnBuilder::new(Selection::ALL, Limits { rows_max, bytes_max: 1000, ..LIMITS });
        for count in counts.iter().cycle() {
            if at >= end {
                break;
            }
            let (bytes, mut aborted, fetched_to) = log.fetch(at, *count);
            let (mut position, before) = (0, at);
            loop {
                let done = append(&mut builder, &bytes[position..], Range { start: at, end }, &aborted).unwrap();
                at = done.offset_next;
                position += done.position;
                aborted = done.aborted;
                found.extend(builder.finish().offset.unwrap());
                if !done.stopped {
                    break;
                }
            }
            prop_assert_eq!(at, fetched_to.min(end));
            prop_assert!(at > before, "every answer leads on");
        }
        let expected: Vec<i64> = log.readable.iter().copied().filter(|&at| start <= at && at < end).collect();
        prop_assert_eq!(found, expected);
    }
}
