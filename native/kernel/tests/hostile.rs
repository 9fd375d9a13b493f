//! Damaged bytes with a correct checksum give an error or rows, never a panic; an error leaves the builder unchanged.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::damage::{aborted, apply, check, damage};
use common::strategy::{log, selection};
use common::Batch;
use evensplit_kernel::{parse_fetch_response, Selection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_batches(
        log in log(),
        damages in vec(damage(), 1..4),
        which in any::<Index>(),
        selection in selection(),
        aborted in aborted(),
    ) {
        let mut encoded: Vec<Vec<u8>> = log.iter().map(Batch::encode).collect();
        if !encoded.is_empty() {
            let which = which.index(encoded.len());
            damages.iter().for_each(|damage| apply(&mut encoded[which], damage));
            common::fix_crc(&mut encoded[which]);
        }
        check(&encoded.concat(), selection, &aborted)?;
    }

    #[test]
    fn damaged_records_within_every_codec(
        log in log(),
        damages in vec(damage(), 1..4),
        which in any::<Index>(),
        count in prop_oneof![3 => Just(None), 1 => any::<i32>().prop_map(Some), 1 => (-1..40_i32).prop_map(Some)],
        selection in selection(),
        aborted in aborted(),
    ) {
        let Some(which) = (!log.is_empty()).then(|| which.index(log.len())) else { return Ok(()) };
        let encoded = log.iter().enumerate().map(|(index, batch)| {
            let mut payload = batch.payload();
            if index != which {
                return batch.encode();
            }
            damages.iter().for_each(|damage| apply(&mut payload, damage));
            let count = count.unwrap_or(batch.records.len() as i32);
            batch.encode_with(&common::compress(batch.codec, &payload), count)
        });
        check(&encoded.collect::<Vec<_>>().concat(), selection, &aborted)?;
    }

    #[test]
    fn noise_as_a_batch(bytes in vec(any::<u8>(), 0..300), length_fits in any::<bool>()) {
        let mut bytes = bytes;
        if bytes.len() >= 17 && length_fits {
            let length = bytes.len() as i32 - 12;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[0] = 0;
            bytes[16] = 2;
        }
        common::fix_crc(&mut bytes);
        check(&bytes, Selection::ALL, &[(1, 0)])?;
    }

    #[test]
    fn noise_as_a_fetch_response(bytes in vec(any::<u8>(), 0..300), version in 0..20_i16) {
        if let Ok(response) = parse_fetch_response(&bytes, version) {
            for partition in &response.partitions {
                prop_assert!(partition.topic < response.topics.len());
                prop_assert!(partition.records.start <= partition.records.end);
                prop_assert!(partition.records.end <= bytes.len());
            }
        }
    }
}
