//! Decoding gives the records that were encoded, whatever the sizes of the portions.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, strategy, Batch, Row};
use evensplit_kernel::{ColumnBuilder, Limits, Range, Selection};
use proptest::prelude::*;

fn end_of(log: &[Batch]) -> i64 {
    log.last().map_or(0, |batch| batch.base_offset + i64::from(batch.last_offset_delta) + 1)
}

fn expected(log: &[Batch], range: Range, selection: Selection) -> Vec<Row> {
    log.iter().flat_map(|batch| batch.rows(range, selection)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_row_once_and_in_order(
        log in strategy::log(),
        selection in strategy::selection(),
        (rows_max, bytes_max) in (1_usize..60, 1_usize..6000),
        (start, length) in (0_i64..300, 0_i64..2000),
    ) {
        let range = Range { start, end: start + length };
        let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
        let limits = Limits { rows_max, bytes_max, uncompressed_bytes_max: 1 << 20 };
        let mut builder = ColumnBuilder::new(selection, limits);
        let (mut at, mut position, mut got) = (range, 0, Vec::new());
        loop {
            let rows_before = builder.rows();
            let done = append(&mut builder, &bytes[position..], at).unwrap();
            prop_assert_eq!(done.rows, builder.rows() - rows_before);
            prop_assert!(at.start <= done.offset_next && done.offset_next <= at.end);
            prop_assert!(!done.stopped || builder.full());
            at.start = done.offset_next;
            position += done.position;
            let counted = builder.bytes();
            let columns = builder.finish();
            prop_assert_eq!(counted, common::bytes(&columns));
            prop_assert!(counted <= 4 * bytes_max || columns.rows == 1);
            got.extend(common::rows(&columns));
            prop_assert!(!done.stopped || columns.rows > 0, "a full builder has rows");
            if !done.stopped {
                break;
            }
        }
        prop_assert_eq!(got, expected(&log, range, selection));
        prop_assert_eq!(at.start, range.end.min(range.start.max(end_of(&log))));
    }

    #[test]
    fn a_cut_anywhere_only_postpones(log in strategy::log(), cut in any::<prop::sample::Index>()) {
        let bytes: Vec<u8> = log.iter().flat_map(Batch::encode).collect();
        let cut = cut.index(bytes.len() + 1);
        let mut builder = ColumnBuilder::new(Selection::ALL, common::LIMITS);
        let first = append(&mut builder, &bytes[..cut], common::EVERYTHING).unwrap();
        prop_assert!(first.position <= cut && !first.stopped);
        let rest = Range { start: first.offset_next, ..common::EVERYTHING };
        let second = append(&mut builder, &bytes[first.position..], rest).unwrap();
        prop_assert_eq!(first.position + second.position, bytes.len());
        prop_assert_eq!(first.complete_batches + second.complete_batches, log.len());
        prop_assert_eq!(common::rows(&builder.finish()), expected(&log, common::EVERYTHING, Selection::ALL));
    }
}
