//! Damaged bytes whose checksum is right: an error or rows, never a panic, and an error leaves the builder as it was.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, strategy, Batch, Codec};
use evensplit_kernel::{parse_fetch_response, ColumnBuilder, Limits};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Set(Index, u8),
    Long(Index, i32),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let extreme = prop_oneof![Just(i32::MAX), Just(i32::MIN), Just(-1), Just(0), -200..200_i32, any::<i32>()];
    prop_oneof![
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        (any::<Index>(), prop_oneof![Just(0xff_u8), Just(0x80), Just(0x7f), any::<u8>()])
            .prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<Index>(), extreme).prop_map(|(at, value)| Damage::Long(at, value)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (any::<Index>(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Flip(at, mask) => bytes[at.index(length)] ^= mask,
        Damage::Set(at, byte) => bytes[at.index(length)] = *byte,
        Damage::Long(at, value) => {
            let at = at.index(length);
            for (to, from) in bytes[at..].iter_mut().zip(value.to_be_bytes()) {
                *to = from;
            }
        }
        Damage::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..length.min(at + count));
        }
        Damage::Insert(at, added) => {
            let at = at.index(length);
            bytes.splice(at..at, added.iter().copied());
        }
        Damage::Cut(at) => bytes.truncate(at.index(length)),
    }
}

/// Appends `bytes` to a builder that has rows already, and checks what holds whatever they are.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let limits = Limits { rows_max: 50, bytes_max: 4000, uncompressed_bytes_max: 1 << 18 };
    let mut builder = ColumnBuilder::new(true, true, limits);
    let before = Batch::plain(0, Codec::None, &[b"one", b"two"]).encode();
    append(&mut builder, &before, common::EVERYTHING).unwrap();
    let kept = common::rows(&{
        let mut same = ColumnBuilder::new(true, true, limits);
        append(&mut same, &before, common::EVERYTHING).unwrap();
        same.finish()
    });
    let bytes_before = builder.bytes();
    let result = append(&mut builder, bytes, common::EVERYTHING);
    let held = builder.bytes();
    let rows = common::rows(&builder.finish());
    match result {
        Ok(done) => {
            prop_assert!(done.position <= bytes.len());
            prop_assert_eq!(rows.len(), kept.len() + done.rows);
            prop_assert!(held <= 4 * limits.bytes_max);
        }
        Err(error) => {
            prop_assert!(!error.detail.is_empty());
            prop_assert_eq!(held, bytes_before);
            prop_assert_eq!(rows, kept);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_batches(log in strategy::log(), damages in vec(damage(), 1..4), which in any::<Index>()) {
        let mut encoded: Vec<Vec<u8>> = log.iter().map(Batch::encode).collect();
        if !encoded.is_empty() {
            let which = which.index(encoded.len());
            damages.iter().for_each(|damage| apply(&mut encoded[which], damage));
            common::fix_crc(&mut encoded[which]);
        }
        check(&encoded.concat())?;
    }

    #[test]
    fn damaged_records_within_every_codec(
        log in strategy::log(),
        damages in vec(damage(), 1..4),
        which in any::<Index>(),
        count in prop_oneof![3 => Just(None), 1 => any::<i32>().prop_map(Some), 1 => (-1..40_i32).prop_map(Some)],
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
        check(&encoded.collect::<Vec<_>>().concat())?;
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
        check(&bytes)?;
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
